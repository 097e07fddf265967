"""Step -> batch: the same whoever asks and in whatever order; and what becomes of samples that can't be used."""

import io
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.feed import Feed
from penstock.manifest.errors import ManifestError
from penstock.readers.errors import ContentError
from penstock.readers.reader import Uses
from penstock.readers.tar.index import index_shards
from penstock.recipes.recipe import Bad
from penstock.store.local import LocalStore
from tests.readers.tar.archives import write_tar
from tests.shards import SMALL, content, damage, small_run, write_shards

ITEMS = sum(map(sum, SMALL.values()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    if "batch_size" not in options:
        options = {"global_batch_size": 12, **options}
    return penstock.open(small_run(folder, **options), rank=0, world=1)


def ids_of(feed: Feed, rows: Any) -> list[str]:
    return [feed.catalog.item_name(int(row), 0).partition(":")[2] for row in rows]


def told(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in batch.items()}


def test_a_batch_holds_what_its_plan_says(folder: Path) -> None:
    feed = opened(folder)
    for step in (0, 1, 17, 10**9):
        batch, lines = feed.batch(step), list(feed.lines(step))
        assert batch["step"] == step
        assert batch["ids"] == [line.item for line in lines]
        assert batch["sources"] == [line.source for line in lines]
        assert batch["records"] == [{"txt": content(line.group, line.item)} for line in lines]
        assert ids_of(feed, batch["rows"]) == batch["ids"]
        assert batch["bad"] == [] and "valid" not in batch
        assert [line.slot for line in lines] == list(range(12))


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.integers(0, 400), min_size=1, max_size=6), other=st.integers(0, 10**12))
def test_a_batch_does_not_depend_on_what_was_asked_before(folder: Path, steps: list[int], other: int) -> None:
    used = opened(folder)
    used.batch(other)
    for step in steps:
        assert told(used.batch(step)) == told(opened(folder).batch(step))


@settings(max_examples=20, deadline=None)
@given(step=st.integers(0, 10**6), world=st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_the_ranks_batches_in_turn_are_the_global_batch(folder: Path, step: int, world: int) -> None:
    feed = opened(folder)
    parts = [feed.batch(step, rank, world) for rank in range(world)]
    assert all(len(part["ids"]) == 12 // world for part in parts)
    for key in ("ids", "sources", "records"):
        assert [value for part in parts for value in part[key]] == feed.batch(step)[key]


def test_where_and_batches_agree(folder: Path) -> None:
    feed = opened(folder)
    seen = {
        (line.item, line.epoch, step, rank, line.slot)
        for step in range(20)
        for rank in range(3)
        for line in feed.lines(step, rank, 3)
        if line.epoch < 3
    }
    ids = {name for name, *_ in seen}
    assert len(ids) == ITEMS
    told = {
        (name.split(":")[1], use.epoch, use.step, use.rank, use.slot)
        for item in ids
        for name, use in feed.where(item, range(3), 3)
        if use.step < 20
    }
    assert told == seen


def test_a_world_that_does_not_divide_the_batch_is_an_error_unless_asked_for(folder: Path) -> None:
    with pytest.raises(ValueError, match="a global batch of 12 does not divide over 5 ranks"):
        opened(folder).batch(0, 0, 5)
    sizes = [len(opened(folder, uneven=True).batch(0, rank, 5)["ids"]) for rank in range(5)]
    assert sorted(sizes) == [2, 2, 2, 3, 3]


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_of_its_world_is_refused(folder: Path, rank: int, world: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} of a world of {world}"):
        opened(folder).batch(0, rank, world)


def test_steps_that_are_not_there_are_refused(folder: Path) -> None:
    with pytest.raises(IndexError, match="steps count from 0"):
        opened(folder).batch(-1)
    with pytest.raises(IndexError, match="step 3: the run has 3 steps"):
        opened(folder, passes=1).batch(3)


def test_threads_may_ask_at_once_and_in_any_order(folder: Path) -> None:
    feed, expected, wrong = opened(folder), opened(folder), list[int]()

    def ask(seed: int) -> None:
        for i in range(60):
            step = (seed * 7919 + i * 104_729) % 500
            if feed.batch(step)["ids"] != plan[step]:
                wrong.append(step)

    plan = [expected.batch(step)["ids"] for step in range(500)]
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_pickled_feed_goes_on_with_rank_world_and_state(folder: Path) -> None:
    feed = penstock.open(small_run(folder, global_batch_size=9), rank=2, world=3)
    feed.resume(opened(folder).state(10))
    copy = pickle.loads(pickle.dumps(feed))
    assert (copy.rank, copy.world) == (2, 3)
    assert told(copy[11]) == told(feed[11])
    assert copy.state(11) == feed.state(11)


# Finite passes


def test_a_pass_has_every_item_once_and_marks_its_padding(folder: Path) -> None:
    feed = opened(folder, passes=2, global_batch_size=10)
    assert len(feed) == -(-2 * ITEMS // 10)
    batches = [feed.batch(step) for step in range(len(feed))]
    ids = [id for batch in batches for id in batch["ids"]]
    valid = [bool(mark) for batch in batches for mark in batch["valid"]]
    assert 2 * ITEMS % 10
    assert valid.count(True) == 2 * ITEMS and valid.index(False) > 2 * ITEMS - 10
    assert valid == [id != "" for id in ids]
    used = list(filter(None, ids))
    assert sorted(used[:ITEMS]) == sorted(used[ITEMS:]) == sorted(set(used))
    assert batches[-1]["records"][-1] == {} and batches[-1]["rows"][-1] == -1


def test_drop_last_leaves_the_incomplete_batch_out(folder: Path) -> None:
    feed = opened(folder, passes=2, drop_last=True, global_batch_size=10)
    assert len(feed) == 2 * ITEMS // 10
    assert all(feed.batch(step)["valid"].all() for step in range(len(feed)))


def test_a_pass_needs_no_durations(tmp_path: Path) -> None:
    write_shards(tmp_path)
    index_shards(LocalStore(tmp_path), ["bengali-0.tar", "bengali-1.tar"], tmp_path / "index")  # .txt has none
    own = {"manifest": tmp_path / "index", "store": str(tmp_path), "global_batch_size": 11}
    feed = penstock.open(**own, passes=1)
    assert len(feed) == 1 and feed.batch(0)["valid"].all()
    with pytest.raises(ValueError, match="weights by hours, but the hours of default are unknown; use items, equal"):
        penstock.open(**own, mixture={"weights": "hours"})


def test_a_source_of_unknown_length_is_never_left_out_in_silence(tmp_path: Path) -> None:
    sound = io.BytesIO()
    soundfile.write(sound, [0.0] * 1600, 16_000, format="WAV")
    write_tar(tmp_path / "hindi/0.tar", [("clip.wav", sound.getvalue())])
    write_tar(tmp_path / "tamil/0.tar", [("clip.txt", b"without a sound")])
    index_shards(LocalStore(tmp_path), ["hindi/0.tar", "tamil/0.tar"], tmp_path / "index")
    own = {"manifest": tmp_path / "index", "store": str(tmp_path), "global_batch_size": 4}
    with pytest.raises(ValueError, match="the hours of tamil are unknown;"):
        penstock.open(**own, mixture={"weights": "hours"})
    for options in ({}, {"mixture": {"weights": "equal"}}):
        batch = penstock.open(**own, **options).batch(0)
        assert Counter(batch["sources"]) == {"hindi": 2, "tamil": 2}, "by items where not all durations are known"


def test_a_plan_needs_neither_torch_nor_a_cache_nor_a_store(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "no folder").write_text("")
    options = {
        "filelist": str(tmp_path / "train.tsv"),
        "store": "s3://nowhere/at-all",
        "recipe": "speech",
        "global_batch_size": 4,
    }
    compiled = penstock.open(**options, cache={"dir": tmp_path / "cache", "size": "1GB"})
    options |= {
        "manifest": str(compiled.catalog.parts[0].manifest.path),
        "cache": {"dir": str(tmp_path / "no folder"), "size": "1GB"},
    }
    del options["filelist"]
    script = (
        f"import sys; sys.modules['torch'] = None; import penstock; print(penstock.open({options}).planned(0).slot)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[")


def test_a_package_that_is_missing_is_named_with_its_extra_when_a_batch_is_made(tmp_path: Path) -> None:
    write_shards(tmp_path)
    run = {key: str(value) if isinstance(value, Path) else value for key, value in small_run(tmp_path).items()}
    run |= {"recipe": "speech", "global_batch_size": 4, "cache": {"dir": str(tmp_path / "cache"), "size": "1GB"}}
    script = f"import sys; sys.modules['soxr'] = None; import penstock; penstock.open({run}).batch(0)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    message = "recipe: speech needs soxr: pip install 'penstock[speech]'"
    assert done.stderr.splitlines()[-1] == f"penstock.config.errors.ConfigError: {message}"


# Bad samples


def with_missing(folder: Path, missing: Sequence[str]) -> Path:
    """A filelist that also names ids which their shard does not have."""
    write_shards(folder)
    with open(folder / "train.tsv", "a") as filelist:
        filelist.writelines(
            f"{id.rsplit('_', 1)[0].replace('_', '-')}.tar\t{id}\t{id.split('_')[0]}\t1.5\n" for id in missing
        )
    return folder


def test_a_bad_sample_is_replaced_by_one_of_its_source_and_told_and_nothing_else_changes(tmp_path: Path) -> None:
    missing = ["assamese_0_90", "assamese_1_91", "gujarati_2_92"]
    feed = opened(with_missing(tmp_path, missing))
    told = set()
    for step in range(60):
        batch, lines = feed.batch(step), list(feed.lines(step))
        bad = {one.slot for one in batch["bad"]}
        assert bad == {line.slot for line in lines if line.item in missing}
        for line, id, source, record in zip(lines, batch["ids"], batch["sources"], batch["records"], strict=True):
            assert source == line.source
            assert (id == line.item) == (line.slot not in bad)
            (data,) = record.values()
            assert data.decode().split(":")[1] == id and id not in missing
        for one in batch["bad"]:
            assert one.group.startswith(one.id.split("_")[0]) and "no such sample in the shard" in one.reason
            assert ids_of(feed, [one.row]) == [one.id]
            told.add(one.id)
        assert ids_of(feed, batch["rows"]) == batch["ids"], "rows tell what was used"
    assert told == set(missing)


def test_substitutes_are_the_same_for_whoever_makes_them(tmp_path: Path) -> None:
    with_missing(tmp_path, ["assamese_0_90", "assamese_1_91", "gujarati_2_92"])
    expected = [told(opened(tmp_path).batch(step)) for step in range(20)]
    for threads, workers in ((0, 0), (4, 0), (None, 2)):
        with opened(tmp_path).loader(threads=threads, workers=workers) as loader:
            assert [told(next(loader)) for _ in range(20)] == expected
    halves = [[opened(tmp_path).batch(step, rank, 2) for rank in range(2)] for step in range(20)]
    assert [[id for half in pair for id in half["ids"]] for pair in halves] == [batch["ids"] for batch in expected]


def test_damage_that_only_a_checksum_can_tell_is_found_and_replaced(tmp_path: Path) -> None:
    write_shards(tmp_path)
    shards = sorted(path.name for path in tmp_path.glob("*.tar"))
    index_shards(LocalStore(tmp_path), shards, tmp_path / "index", filelist=tmp_path / "train.tsv")
    damage(tmp_path / "bengali-1.tar", content("bengali-1.tar", "bengali_1_3"))
    own = {key: value for key, value in small_run(tmp_path).items() if key != "filelist"}
    feed = penstock.open(own, manifest=tmp_path / "index", global_batch_size=12)
    bad = [one for step in range(10) for one in feed.batch(step)["bad"]]
    assert {(one.group, one.id) for one in bad} == {("bengali-1.tar", "bengali_1_3")}
    assert "checksum" in bad[0].reason
    assert all("bengali_1_3" not in feed.batch(step)["ids"] for step in range(10))


def test_a_shard_that_is_broken_altogether_is_replaced_sample_by_sample(tmp_path: Path) -> None:
    write_shards(tmp_path, {"assamese": [9, 9, 9, 9]})
    (tmp_path / "assamese-2.tar").write_bytes(b"this is no tar archive" * 100)
    feed = opened(tmp_path, pool=4)
    batches = [feed.batch(step) for step in range(9)]
    assert any(batch["bad"] for batch in batches)
    assert all("assamese_2" not in id and id for batch in batches for id in batch["ids"])


def test_on_error_raise_names_the_sample(tmp_path: Path) -> None:
    feed = opened(with_missing(tmp_path, ["gujarati_2_92"]), on_error="raise")
    with pytest.raises(ContentError, match=r"gujarati-2\.tar:gujarati_2_92: no such sample in the shard"):
        for step in range(20):
            feed.batch(step)


def test_a_source_with_nothing_but_bad_samples_raises_after_eight_substitutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(tmp_path, {"assamese": [40]})
    lines = (tmp_path / "train.tsv").read_text().replace("\tassamese_0_", "\tnothing_")
    (tmp_path / "train.tsv").write_text(lines)
    feed = opened(tmp_path, global_batch_size=1)
    reader = feed.catalog.reader(0)
    locate = reader.locate
    tried: list[str] = []

    def noted(uses: Uses) -> list[Any]:
        tried.extend(reader.names(uses))
        return locate(uses)

    monkeypatch.setattr(reader, "locate", noted)
    with pytest.raises(ContentError, match=r"assamese-0\.tar:nothing_\d+: no such sample"):
        feed.batch(0)
    assert len(tried) == 9 == len(set(tried)), "the planned one and eight others"


def test_a_pass_never_substitutes_but_marks_the_slot(tmp_path: Path) -> None:
    missing = ["assamese_0_90", "gujarati_2_92"]
    feed = opened(with_missing(tmp_path, missing), passes=1)
    used, bad = [], []
    for step in range(len(feed)):
        batch, lines = feed.batch(step), {line.slot: line.item for line in feed.lines(step)}
        for slot, (id, valid, record) in enumerate(zip(batch["ids"], batch["valid"], batch["records"], strict=True)):
            assert bool(valid) == (lines.get(slot, "") not in ["", *missing])
            assert id == (lines[slot] if valid else "") and bool(record) == valid
            used += [id] if valid else []
        bad += [one.id for one in batch["bad"]]
    assert sorted(bad) == missing
    assert len(used) == len(set(used)) == ITEMS


def test_an_io_error_is_no_bad_sample(tmp_path: Path) -> None:
    write_shards(tmp_path, {"assamese": [4, 4]})
    feed = opened(tmp_path)
    (tmp_path / "assamese-1.tar").unlink()
    with pytest.raises(FileNotFoundError, match=r"assamese-1\.tar"):
        for step in range(4):
            feed.batch(step)


def test_shards_that_are_not_there_are_told_together_unless_no_data_is_here(tmp_path: Path) -> None:
    write_shards(tmp_path, {"assamese": [1, 1, 1], "bengali": [1]})
    for missing in ("assamese-1.tar", "assamese-2.tar"):
        (tmp_path / missing).unlink()
    with pytest.raises(ManifestError, match=r"(?s)no shard assamese-1\.tar.*no shard assamese-2\.tar"):
        opened(tmp_path)
    for shard in tmp_path.glob("*.tar"):
        shard.unlink()
    assert len(opened(tmp_path).planned(0).slot)  # a run can be planned where its data is not


def test_indexing_and_batch_give_this_ranks_batch(folder: Path) -> None:
    for rank in range(3):
        feed = penstock.open(small_run(folder, global_batch_size=12), rank=rank, world=3)
        for step in (0, 7):
            assert told(feed[step]) == told(feed.batch(step)) == told(feed.batch(step, rank, 3))
        assert told(feed.batch(7, 0, 1)) == told(opened(folder).batch(7)), "unless told otherwise"


def test_an_epoch_that_no_batch_crosses_goes_through_state_and_loader(folder: Path) -> None:
    feed = opened(folder, global_batch_size=12)
    feed.plan = replace(feed.plan, epoch=29)
    sizes = [len(feed.batch(step)["ids"]) for step in range(6)]
    assert sizes == [12, 12, 5, 12, 12, 5]
    with feed.loader(threads=2) as loader:
        assert [len(next(loader)["ids"]) for _ in range(6)] == sizes
        state = loader.state_dict()
    assert state["samples"] == 58 and state["epoch"] == 29
    again = opened(folder, global_batch_size=12)
    again.plan = replace(again.plan, epoch=29)
    assert again.resume(state) == 6 and told(again.batch(6)) == told(feed.batch(6))
    halves = [len(feed.batch(2, rank, 2)["ids"]) for rank in range(2)]
    assert halves == [2, 3], "only the last batch of an epoch is shared unevenly"


def test_a_sample_with_two_faults_is_replaced_once_and_both_are_reported(folder: Path) -> None:
    feed = opened(folder)
    recipe = feed._opened.recipes["raw"]
    fill = recipe.fill
    planned = next(feed.lines(0)).item

    def faulty(work: Any, records: Any) -> list[Bad]:
        bad = fill(work, records)
        wrong = [index for index, (item, _) in records.items() if item.id == planned]
        return bad + [Bad(index, f"fault {member}", member=member) for index in wrong for member in (0, 1)]

    recipe.fill = faulty  # type: ignore[method-assign]
    batch = feed.batch(0)
    assert [(each.id, each.reason, each.member) for each in batch["bad"]] == [
        (planned, "fault 0", 0),
        (planned, "fault 1", 1),
    ]
    assert planned not in batch["ids"]
