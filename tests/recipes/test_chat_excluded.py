"""Records that a chat run excludes: members of packs, whole files, and a run in file order whose index grows."""

from pathlib import Path
from typing import Any

from penstock.observe.diff import compare, plans
from tests.recipes.chat_runs import run, source, write_records

STEPS = 12


def write(folder: Path) -> list[dict[str, Any]]:
    """Texts of three files, one source of two of them."""
    for name, count in (("a", 30), ("b", 12), ("c", 20)):
        answers = [f"{n}! " * (n % 6 + 1) for n in range(count)]
        turns = [({"role": "user", "content": "So?"}, {"role": "assistant", "content": each}) for each in answers]
        records = [{"messages": list(each)} for each in turns]
        write_records(folder, records, f"{name}.jsonl")
    return [source(folder / f"{name}.jsonl", "conversation") for name in "abc"]


def members(batch: dict[str, Any], gone: str | None = None) -> list[list[str]]:
    return [[id for id in ids if id != gone] for ids in batch["ids"]]


def test_an_excluded_member_becomes_padding_and_leaves_the_counts(tmp_path: Path) -> None:
    sources = write(tmp_path)[:1]
    options = {"pack": True, "batch_size": 2, "seed": 5}
    plain = [run(sources, **options).batch(step) for step in range(STEPS)]
    feed = run(sources, **options, exclude=[{"at": 6, "items": ["a.jsonl:7"]}])
    found = [feed.batch(step) for step in range(STEPS)]
    assert [members(batch) for batch in found[:3]] == [members(batch) for batch in plain[:3]]
    assert [members(batch) for batch in found[3:]] == [members(batch, "7") for batch in plain[3:]]
    changed = [step for step in range(STEPS) if members(found[step]) != members(plain[step])]
    assert changed and min(changed) >= 3
    for was, now in zip(plain, found, strict=True):
        assert now["input_ids"].shape == was["input_ids"].shape
        assert int((now["labels"] != -100).sum()) == now["global_label_tokens"]
        assert now["bad"] == []
    uses = [use.step for _, use in feed.where("a.jsonl:7", range(9)) if use.step < STEPS]
    assert uses == [step for step, batch in enumerate(found) if any("7" in ids for ids in batch["ids"])]


def test_packs_without_a_member_are_different_batches(tmp_path: Path) -> None:
    sources = write(tmp_path)[:1]
    options = {"pack": True, "batch_size": 2, "seed": 5}
    one, other = run(sources, **options), run(sources, **options, exclude=[{"at": 6, "items": ["a.jsonl:7"]}])
    *_, found = compare(*plans(one, other), range(STEPS))
    differing = [step for step in range(STEPS) if members(one.batch(step)) != members(other.batch(step))]
    assert found.first is not None and found.first.step == differing[0]
    assert found.equal == STEPS - len(differing)


def test_a_file_that_is_excluded_whole_leaves_no_empty_packs(tmp_path: Path) -> None:
    write(tmp_path)
    everything = source(tmp_path, "conversation")
    options = {"pack": True, "batch_size": 2, "seed": 5, "pool": 2}
    feed = run([everything], **options, exclude=[{"items": ["b.jsonl"]}])
    batches = [feed.batch(step) for step in range(STEPS)]
    groups = {group for batch in batches for group in feed.catalog.group_names(batch["rows"].tolist())}
    assert groups == {"a.jsonl", "c.jsonl"}
    assert all(ids for batch in batches for ids in batch["ids"])


def test_a_state_of_a_run_whose_index_grows_is_accepted(tmp_path: Path) -> None:
    sources = write(tmp_path)
    options = {"shuffle": False, "mixture": "rounds", "batch_size": 3}
    before = run(sources, **options)
    assert before.catalog.growing(0) is not None
    plain = [before.batch(step)["ids"] for step in range(STEPS)]
    after = run(sources, **options, exclude=[{"at": 12, "items": ["a.jsonl:5", "a.jsonl:6"]}])
    assert after.resume(before.state(4)) == 4
    found = [after.batch(step)["ids"] for step in range(STEPS)]
    assert found[:4] == plain[:4]
    assert found[4:7] != plain[4:7] and found[7:] == plain[7:]
