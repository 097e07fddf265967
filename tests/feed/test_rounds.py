"""Rounds and file order from the config to the batch: caps, epochs, an index that grows, states, the ledger."""

import json
import logging
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import penstock
from penstock.feed import Feed
from tests.cli.commands import run
from tests.feed.texts import TextPipeline
from tests.shards import small_run, write_shards

STEPS = 25
SIZES = {"code": [3, 4], "photos": [2, 2, 2], "tools": [9]}
MODALITIES = {"code": "text", "photos": "image", "tools": "text"}


def texts(name: str) -> list[list[str]]:
    return [[f"{name}-{group}-{item}" for item in range(size)] for group, size in enumerate(SIZES[name])]


def entries(**limits: int) -> list[dict[str, Any]]:
    return [
        {"name": name, "texts": texts(name), "limit": limits.get(name), "modality": modality}
        for name, modality in MODALITIES.items()
    ]


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Any]:
    return {
        "recipe": "texts",
        "pipelines": {"texts": "tests.feed.texts:TextPipeline"},
        "sources": entries(),
        "global_batch_size": 4,
        "mixture": "rounds",
        "shuffle": False,
        "cache": {"dir": str(tmp_path / "cache"), "size": "1GB"},
    }


def opened(keys: dict[str, Any], *, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    return penstock.open({**keys, **options}, rank=rank, world=world)


def rounds(**options: Any) -> dict[str, Any]:
    return {"rounds": options}


def walked(feed: Feed, steps: int) -> list[list[str]]:
    return [feed.batch(step)["texts"] for step in range(steps)]


def test_without_caps_rounds_take_one_of_each_source_for_ever(keys: dict[str, Any]) -> None:
    feed = opened(keys)
    flat = {name: [text for group in texts(name) for text in group] for name in SIZES}
    expected = [flat[name][nth % len(flat[name])] for nth in range(40) for name in SIZES]
    assert [text for batch in walked(feed, 30) for text in batch] == expected
    assert feed.plan.epoch is None


def test_caps_end_an_epoch_and_positions_go_on(keys: dict[str, Any]) -> None:
    caps = rounds(max_per_source=4, max_per_modality={"image": 1}, max_per_epoch=6, repeat=2)
    feed = opened(keys, sources=entries(tools=2), mixture=caps)
    names = ["code-0-0", "photos-0-0", "tools-0-0", "code-0-1", "tools-0-1", "code-0-2"]
    later = ["code-1-0", "photos-0-1", "tools-0-2", "code-1-1", "tools-0-3", "code-1-2"]
    twice = [[name for name in epoch for _ in range(2)] for epoch in (names, later)]
    assert walked(feed, 6) == [epoch[at : at + 4] for epoch in twice for at in (0, 4, 8)]
    assert feed.plan.epoch == 12
    wide = opened(keys, sources=entries(tools=2), mixture=caps, global_batch_size=5)
    assert [len(batch) for batch in walked(wide, 6)] == [5, 5, 2] * 2
    assert [line.epoch for line in wide.lines(0)] == [0] * 5


def test_an_index_that_grows_gives_the_run_that_a_whole_one_gives(keys: dict[str, Any]) -> None:
    caps = rounds(max_per_source=4, max_per_epoch=9)
    growing = opened(keys, mixture=caps)
    known = opened(keys, mixture=caps)
    manifests = [part.manifest for part in growing.catalog.parts]
    assert [len(manifest) for manifest in manifests] == [0, 0, 0], "opening reads no data"
    assert growing.batch(0)["texts"] == ["code-0-0", "photos-0-0", "tools-0-0", "code-0-1"]
    assert [len(manifest) for manifest in manifests] == [3, 2, 9], "a group of each"
    for part in known.catalog.parts:
        part.manifest.growing.starts(100)
    assert walked(growing, STEPS) == walked(known, STEPS)
    for step in range(STEPS):
        assert growing.catalog.rows(growing.planned(step)) == known.catalog.rows(known.planned(step))
    assert opened(keys, mixture=caps).batch(STEPS)["texts"] == known.batch(STEPS)["texts"]


@pytest.mark.parametrize(
    "options", [{}, {"pool": 3}, {"mixture": {"weights": "equal"}}, {"mixture": {"weights": {"code": 2, "photos": 1}}}]
)
def test_sizes_are_not_needed_in_file_order(keys: dict[str, Any], options: dict[str, Any]) -> None:
    assert all(part.manifest.growing for part in opened(keys, **options).catalog.parts)


@pytest.mark.parametrize(
    "options", [{"shuffle": True}, {"mixture": {}}, {"mixture": {"weights": "items"}}, {"mixture": {}, "passes": 1}]
)
def test_sizes_are_needed_where_the_order_depends_on_them(keys: dict[str, Any], options: dict[str, Any]) -> None:
    assert not any(part.manifest.growing for part in opened(keys, **options).catalog.parts)


def test_one_source_in_file_order_needs_no_sizes_unless_its_epochs_are_whole(keys: dict[str, Any]) -> None:
    keys |= {"sources": entries()[:1], "mixture": {}}
    growing = opened(keys)
    whole = opened(keys, whole_epochs=True)
    assert growing.catalog.growing(0) is not None
    assert whole.catalog.growing(0) is None
    assert walked(growing, STEPS) == walked(opened(keys, mixture={"weights": "items"}), STEPS)


def test_whole_epochs_have_every_item_once_and_end_with_a_short_batch(keys: dict[str, Any]) -> None:
    keys |= {"sources": entries()[:1], "mixture": {}, "shuffle": True, "whole_epochs": True}
    batches = walked(opened(keys), 4)
    assert [len(batch) for batch in batches] == [4, 3, 4, 3]
    for epoch in (batches[:2], batches[2:]):
        assert sorted(chain.from_iterable(epoch)) == [*chain.from_iterable(texts("code"))]
    with pytest.raises(penstock.ConfigError, match="whole_epochs: needs a single source; the epochs of 3 sources end"):
        opened(keys, sources=entries())
    with pytest.raises(penstock.StateError, match=r"it differs in epoch \(7 then, None now\)"):
        opened(keys, whole_epochs=False).loader(threads=0).load_state_dict(opened(keys).state(3))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (3, 0), (None, 2)])
def test_resume_at_every_step_is_the_uninterrupted_run(
    keys: dict[str, Any], threads: int | None, workers: int, shuffle: bool
) -> None:
    keys |= {"mixture": rounds(max_per_source=4, max_per_epoch=9, repeat=2), "shuffle": shuffle}
    whole = walked(opened(keys), STEPS)
    assert len({text for batch in whole for text in batch}) > 15
    for stop in range(STEPS - 3) if not workers else (7,):
        state = json.loads(json.dumps(opened(keys).state(stop)))
        assert len(json.dumps(state)) < 1_000
        with opened(keys).loader(threads=threads, workers=workers) as loader:
            loader.load_state_dict(state)
            assert [batch["texts"] for batch in islice(loader, 3)] == whole[stop : stop + 3]
            assert loader.state_dict() == opened(keys).state(stop + 3)


def test_shuffled_sources_keep_their_places_in_a_round(keys: dict[str, Any]) -> None:
    feed = opened(keys, shuffle=True, global_batch_size=6)
    lines = [line for step in range(12) for line in feed.lines(step)]
    assert [line.source for line in lines] == [*SIZES] * 24
    assert [line.item for line in lines] != [text for batch in walked(opened(keys), 18) for text in batch]


def test_ranks_take_the_batch_in_the_order_of_its_slots(keys: dict[str, Any]) -> None:
    keys |= {"mixture": rounds(max_per_epoch=11), "global_batch_size": 6}
    for step in range(6):
        parts = [opened(keys).batch(step, rank, 3)["texts"] for rank in range(3)]
        assert [text for part in parts for text in part] == opened(keys).batch(step)["texts"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"mixture": rounds(max_per_epoch=8, repeat=2)}, r"differs in mixture \(.*\), epoch \(18 then, 16 now\);"),
        (
            {"mixture": rounds(max_per_epoch=9, max_per_source=3, repeat=2)},
            r"differs in mixture \(\w+ then, \w+ now\), epoch \(18 then, 16 now\);",
        ),
        (
            {"mixture": rounds(max_per_epoch=9, max_per_modality={"image": 2}, repeat=2)},
            r"in mixture \(\w+ then, \w+ now\);",
        ),
        ({"sources": entries(tools=1)}, r"differs in mixture \(\w+ then, \w+ now\);"),
        (
            {"mixture": rounds(max_per_epoch=9)},
            r"run \(rounds, repeat 2, in file order then, rounds, in file order now",
        ),
        ({"shuffle": True}, r"run \(rounds, repeat 2, in file order then, rounds, repeat 2 now\), pool \(None then"),
        ({"mixture": {"weights": "equal"}}, r"run \(rounds, repeat 2, in file order then, endless, in file order now"),
        ({"sources": entries()[:2]}, r"items \("),
    ],
)
def test_a_state_of_another_order_is_refused_and_what_differs_is_named(
    keys: dict[str, Any], changed: dict[str, Any], named: str
) -> None:
    keys |= {"mixture": rounds(max_per_epoch=9, repeat=2), "sources": entries(tools=2)}  # 4, 3 and 2 per epoch
    state = opened(keys).state(5)
    with pytest.raises(penstock.StateError, match=named):
        opened(keys, **changed).resume(state)


def test_what_does_not_change_the_order_is_no_mismatch(keys: dict[str, Any]) -> None:
    keys |= {"mixture": rounds(max_per_epoch=9), "sources": entries(tools=5)}
    state = opened(keys).state(5)
    assert opened(keys, pool=7, sources=entries(tools=6)).resume(state) == 5  # an epoch has 3 of it in any case
    assert opened(keys, mixture=rounds(max_per_epoch=9, max_per_source=3)).resume(state) == 5


def test_a_limit_outside_of_rounds_is_part_of_the_sources_identity(keys: dict[str, Any]) -> None:
    keys |= {"mixture": {"weights": "equal"}, "shuffle": True}
    state = opened(keys, sources=entries(tools=5)).state(5)
    with pytest.raises(penstock.StateError, match=r"differs in items \(of tools\); restore"):
        opened(keys, sources=entries(tools=6)).resume(state)


def test_not_strict_goes_on_from_the_same_step_where_epochs_have_another_length(keys: dict[str, Any]) -> None:
    state = opened(keys, mixture=rounds(max_per_epoch=9)).state(5)
    for mixture, epoch in ((rounds(max_per_epoch=6), 6), ({"weights": "equal"}, None)):
        other = opened(keys, mixture=mixture)
        assert other.resume(state, strict=False) == 5
        assert other.timeline(1).epoch == epoch
        assert walked(other, 12) == walked(opened(keys, mixture=mixture), 12)
        assert opened(keys, mixture=mixture).resume(other.state(7)) == 7


def test_a_limit_makes_an_epoch_of_a_source_shorter_and_its_weight_smaller(keys: dict[str, Any]) -> None:
    keys |= {"mixture": {"weights": "items"}, "sources": entries(tools=3)}
    for shuffle in (False, True):
        lines = [line for step in range(40) for line in opened(keys, shuffle=shuffle).lines(step)]
        drawn = Counter(line.source for line in lines)
        assert drawn == {"code": 70, "photos": 60, "tools": 30}
        epochs = Counter(line.epoch for line in lines if line.source == "tools")
        assert set(epochs.values()) == {3}
    ids = [text for batch in opened(keys, mixture={}, passes=1).loader(threads=0) for text in batch["texts"] if text]
    assert ids == [
        text
        for name in SIZES
        for text in [text for group in texts(name) for text in group][: 3 if name == "tools" else None]
    ]


def test_a_bad_text_is_replaced_by_the_next_of_its_group(keys: dict[str, Any]) -> None:
    bad = [["one", "bad two", "three"], ["bad four", "five"]]
    feed = opened(keys, sources=[{"name": "a", "texts": bad}], global_batch_size=5, max_bad=1)
    batch = feed.batch(0)
    assert batch["texts"] == ["one", "three", "three", "five", "five"]
    assert [each.id for each in batch["bad"]] == ["bad two", "bad four"]


def test_shards_come_in_file_order_and_shuffled_ones_do_not(tmp_path: Path) -> None:
    write_shards(tmp_path)
    order = [
        f"{source}_{number}_{place}"
        for source, sizes in {"assamese": [5, 7, 4], "bengali": [6, 5]}.items()
        for number, size in enumerate(sizes)
        for place in range(size)
    ]
    finite = small_run(tmp_path, passes=1, shuffle=False, global_batch_size=9)
    ids = [item for batch in penstock.open(finite, rank=0, world=1).loader(threads=0) for item in batch["ids"]]
    assert ids[: len(order)] == order
    endless = small_run(tmp_path, shuffle=False, global_batch_size=9)
    ids = [item for step in range(3) for item in penstock.open(endless, rank=0, world=1).batch(step)["ids"]]
    for source, count in {"assamese": 9, "bengali": 9}.items():
        assert [item for item in ids if item.startswith(source)] == [item for item in order if item.startswith(source)][
            :count
        ]
    assert penstock.open(endless, rank=0, world=1).state(3)["pool"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sources": entries(code=3)}, "mixture.rounds: photos, tools have no cap, so an epoch would never end"),
        ({"mixture": rounds(max_per_modality={"imgae": 3})}, "no source has the modality 'imgae'; did you mean image?"),
        (
            {"mixture": rounds(max_per_modality={"sound": 3})},
            "no source has the modality 'sound'; there are text, image",
        ),
        (
            {"mixture": rounds(max_per_modality={"text": 0, "image": 0})},
            "mixture.rounds: an epoch has no samples: every",
        ),
    ],
)
def test_caps_that_make_no_run_are_an_error_that_says_what_to_do(
    keys: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(penstock.ConfigError) as caught:
        opened(keys, **options)
    assert said in str(caught.value)


def test_the_ledger_agrees_with_the_plan_and_commands_know_rounds(keys: dict[str, Any], tmp_path: Path) -> None:
    usage = {"log": str(tmp_path / "usage.jsonl"), "every": 3, "ids": True}
    caps = rounds(max_per_source=4, max_per_modality={"image": 3}, repeat=2)
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**keys, "mixture": caps, "usage": usage}))
    feed = penstock.open(path, rank=0, world=1)
    with feed.loader(threads=2) as loader:
        drawn = Counter(source for batch in islice(loader, 14) for source in batch["sources"])
    checked = run("usage", tmp_path / "usage.jsonl", "--check", path)
    assert checked.exit_code == 0 and "✓" in checked.output, checked.output
    assert checked.output.count("+0.00") == 3
    mixed = [json.loads(line) for line in run("mix", path, "--steps", "14", "--json").stdout.splitlines()]
    assert {row["source"]: row["samples"] for row in mixed} == drawn
    assert [row["items"] for row in mixed] == [row["epochs"] for row in mixed] == [None] * 3
    assert "an epoch has 22 samples" in run("mix", path).stdout
    found = [
        json.loads(line) for line in run("where", path, "photos-1-0", "--epochs", "2", "--json").stdout.splitlines()
    ]
    for use in found:
        assert feed.batch(use["step"])["texts"][use["slot"]] == "photos-1-0"
    assert len(found) == 4


def test_mix_counts_passes_over_a_source_without_its_repeats(keys: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**keys, "mixture": rounds(repeat=2), "shuffle": True, "global_batch_size": 6}))
    rows = [json.loads(line) for line in run("mix", path, "--steps", "9", "--json").stdout.splitlines()]
    assert [row["epochs"] for row in rows] == pytest.approx([9 / 7, 9 / 6, 9 / 9])


def test_an_epoch_whose_last_batch_is_uneven_over_the_ranks_is_logged_once(
    keys: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    keys |= {"mixture": rounds(max_per_epoch=9), "global_batch_size": 8}
    with caplog.at_level(logging.WARNING, "penstock"):
        for rank in range(4):
            opened(keys, rank=rank, world=4).loader(threads=0)
        opened(keys, mixture=rounds(max_per_epoch=12), world=4).loader(threads=0)
    assert [record.getMessage() for record in caplog.records] == [
        "an epoch has 9 samples and its last batch 1 instead of 8: of 4 ranks some get 0 and others 1"
    ]


def test_a_pipeline_that_grows_where_sizes_are_needed_is_refused(keys: dict[str, Any]) -> None:
    class Careless(TextPipeline):
        def open(self, source: Any, needs: Any, context: Any) -> Any:
            return super().open(source, needs, context._replace(needs_sizes=False))

    for options in ({"shuffle": True}, {"mixture": {}}):
        with pytest.raises(ValueError, match=r"the pipeline 'texts' returned a GrowingManifest"):
            penstock.open({**keys, **options, "pipelines": {}}, pipelines={"texts": Careless()})


def test_planned_rows_of_a_growing_source_are_found_again(keys: dict[str, Any]) -> None:
    feed = opened(keys)
    planned = feed.planned(4)
    rows = feed.catalog.rows(planned)
    again = opened(keys).catalog.locate(rows)  # an index that knows nothing yet
    assert again == list(zip(planned.source.tolist(), planned.group.tolist(), planned.item.tolist(), strict=True))
    assert np.array_equal(feed.catalog.rows(planned), rows)
