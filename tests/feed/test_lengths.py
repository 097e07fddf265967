"""Runs with batches by length, on real clips: the same batches for every world, and what is refused."""

import json
import re
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import penstock
from penstock.config import ConfigError
from penstock.feed import Feed
from penstock.media.audio.wav import wav_bytes
from penstock.observe.lineage import lineage
from penstock.observe.lines import read_lines
from penstock.observe.proof import prove
from penstock.pipelines.speech import SpeechPipeline
from penstock.readers.tar.archive import add_file
from penstock.readers.tar.index import index_shards
from penstock.store.local import LocalStore
from tests.clips import RATE, clip_run, write_clips
from tests.shards import write_shards

Ids = list[list[str]]


def streamed_wav(samples: int) -> bytes:
    """A WAV file whose header is too long for the index to find its duration."""
    data = wav_bytes(np.full(samples, 0.1, np.float32), RATE)
    more = b"LIST" + (8_000).to_bytes(4, "little") + bytes(8_000)
    return data[:4] + (len(data) - 8 + len(more)).to_bytes(4, "little") + data[8:12] + more + data[12:]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder)
    return folder


def opened(folder: Path, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    return penstock.open(clip_run(folder, **options), rank=rank, world=world)


def ids(feed: Feed, step: int, world: int = 1) -> Ids:
    """Ids of all units of a step over all ranks, by the plan."""
    return [[line.item for line in feed.lines(step, rank, world)] for rank in range(world)]


def loaded(feed: Feed, start: int, stop: int, **options: Any) -> Iterator[dict[str, Any]]:
    with feed.loader(start, **options) as loader:
        while loader.step < stop:
            yield next(loader)


def test_a_batch_is_padded_to_its_longest_clip_and_never_exceeds_the_budget(clips: Path) -> None:
    feed = opened(clips)
    for batch in loaded(feed, 0, 14):
        count, width = batch["wav"].shape
        assert count * width <= 12 * RATE
        assert batch["length"].max() == width and (batch["length"] > 0).all()
        assert batch["valid"].all() and not batch["bad"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_yields_the_list_of_a_ranks_batches_of_each_step(clips: Path, workers: int) -> None:
    feed = opened(clips, 1, 2)
    expected = [[batch["ids"] for batch in feed.units(step)] for step in range(3, 14)]
    more = {"multiprocessing_context": "fork"} if workers else {}
    loader: DataLoader[Any] = DataLoader(
        feed,  # type: ignore[arg-type]
        batch_size=None,
        sampler=feed.steps(3),
        num_workers=workers,
        **more,
    )
    steps = list(islice(loader, 11))
    assert [[batch["ids"] for batch in units] for units in steps] == expected
    assert all(batch["unit"] == number for units in steps for number, batch in enumerate(units))
    with feed.loader(3) as plain:
        assert [[batch["ids"] for batch in plain.next_step()] for _ in range(11)] == expected


def test_sums_over_all_ranks_and_units_come_with_every_batch(clips: Path) -> None:
    batches = list(loaded(opened(clips), 3, 5))
    assert [(batch["step"], batch["unit"], batch["units"]) for batch in batches] == [
        (step, unit, 4) for step in (3, 4) for unit in range(4)
    ]
    for step in (3, 4):
        own = [batch for batch in batches if batch["step"] == step]
        assert {batch["global_samples"] for batch in own} == {sum(len(batch["ids"]) for batch in own)}
        seconds = sum(int(batch["length"].sum()) for batch in own) / RATE
        assert own[0]["global_seconds"] == pytest.approx(seconds)


@pytest.mark.parametrize("options", [{"threads": 0}, pytest.param({"workers": 2}, marks=pytest.mark.length)])
def test_ranks_and_workers_get_the_units_of_the_same_global_batches(clips: Path, options: dict[str, int]) -> None:
    alone = [batch["ids"] for batch in loaded(opened(clips), 0, 9)]
    shared = [list(loaded(opened(clips, rank, 2), 0, 9, **options)) for rank in range(2)]
    by_step = [[batch["ids"] for rank in shared for batch in rank if batch["step"] == step] for step in range(9)]
    assert [unit for step in by_step for unit in step] == alone


def test_a_run_continues_at_every_step_of_a_window_on_other_ranks(clips: Path) -> None:
    first = opened(clips)
    planned = [ids(first, step) for step in range(10)]
    for step in range(7):  # all of a window, and the first of the next one
        state = json.loads(json.dumps(first.state(step)))
        assert len(json.dumps(state)) < 1000
        again = opened(clips, 0, 2)
        assert again.resume(state) == step
        for later in range(step, step + 3):
            assert [[item for rank in ids(again, later, 2) for item in rank]] == planned[later]


def test_units_are_those_of_the_first_start_unless_they_are_set(clips: Path) -> None:
    batch = {"seconds": 12, "window": 48}
    started = opened(clips, 0, 4, batch=batch)
    assert [segment.units for segment in started.timeline(4).segments] == [4]
    resumed = opened(clips, 0, 2, batch=batch)
    resumed.resume(started.state(5))
    units = ids(started, 7, 4)
    assert ids(resumed, 7, 2) == [[*units[0], *units[1]], [*units[2], *units[3]]]
    with pytest.raises(ValueError, match="4 units, which do not divide over 3 ranks"):
        resumed.batch(7, 0, 3)


def test_another_budget_applies_from_the_next_step_on_and_loses_no_clip(clips: Path) -> None:
    before = opened(clips)
    window = before.timeline(1).window(8)
    changed = opened(clips, batch={"seconds": 8, "units": 2, "window": 48})
    assert changed.resume(before.state(8)) == 8
    assert [ids(changed, step) for step in range(8)] == [ids(before, step) for step in range(8)]
    rest = changed.timeline(1).window(8)
    assert (rest.first, rest.stop, rest.rest) == (8, window.stop, True)
    slots = [slot for step in range(rest.first + rest.steps) for slot in changed.planned(step).slot.tolist()]
    assert sorted(slots) == list(range(window.stop))
    assert len(changed.state(9)["segments"]) == 2
    again = opened(clips, batch={"seconds": 8, "units": 2, "window": 48})
    assert again.resume(changed.state(11)) == 11
    assert [ids(again, step) for step in range(8, 15)] == [ids(changed, step) for step in range(8, 15)]


def test_a_state_between_the_units_of_a_step_repeats_the_step(clips: Path) -> None:
    with opened(clips).loader() as loader:
        units = [next(loader)["ids"] for _ in range(6)]
        assert loader.step == 1
        again = opened(clips)
        assert [batch["ids"] for batch in loaded(again, again.resume(loader.state_dict()), 2)][:2] == units[4:]


def test_the_ledger_is_proven_and_where_names_the_steps(clips: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    for rank in range(2):
        list(loaded(opened(clips, rank, 2, usage={"log": log, "every": 5, "ids": True}), 0, 13))
    feed = opened(clips)
    lines = [line for line in read_lines(log) if line is not None]
    proof = prove(feed, lines, lineage(lines))
    assert proof.wrong == [] and proof.proven
    [(_, use), *_] = feed.where("bengali_1_3", world=2)
    found = [line.item for line in feed.lines(use.step, use.rank, 2) if line.slot == use.slot]
    assert found == ["bengali_1_3"]


def test_a_finite_run_has_every_clip_once_per_pass(clips: Path) -> None:
    feed = opened(clips, passes=2)
    steps = feed.remaining().stop
    assert steps is not None
    used = [line.item for step in range(steps) for line in feed.lines(step)]
    assert len(used) == 2 * len(set(used)) == 2 * 93


def test_a_unit_without_a_clip_is_one_row_of_padding(clips: Path, caplog: pytest.LogCaptureFixture) -> None:
    *_, last = opened(clips, passes=1, batch={"seconds": 12, "units": 94}).units(0)
    assert last["wav"].shape == (1, RATE) and last["valid"].tolist() == [False]
    assert last["global_samples"] == 93
    assert "divide their sum by a number over all ranks, such as global_samples" in caplog.text


def test_a_clip_that_is_longer_than_planned_is_replaced_by_one_that_fits(tmp_path: Path) -> None:
    filelist = write_clips(tmp_path, {"hindi": [24, 24]})
    lines = filelist.read_text().splitlines()
    shard, name, source, _ = lines[5].split("\t")
    lines[5] = "\t".join([shard, name, source, "0.5"])
    filelist.write_text("\n".join(lines) + "\n")
    feed = opened(tmp_path, max_bad=1.0)
    bad = []
    for batch in loaded(feed, 0, 12):
        assert batch["wav"].numel() <= 12 * RATE
        bad += batch["bad"]
    assert {each.id for each in bad} == {name}
    assert "its duration in the manifest is wrong" in bad[0].reason


def test_clips_above_the_budget_are_left_out_or_alone(clips: Path, caplog: pytest.LogCaptureFixture) -> None:
    batch = {"seconds": 3, "units": 2, "window": 48}
    skipped = opened(clips, batch=batch, passes=1)
    names = [line.item for step in range(len(skipped.remaining())) for line in skipped.lines(step)]
    assert 30 < len(names) < 93
    next(loaded(skipped, 0, 1))
    assert re.search(r"longer than the budget and left out, such as \w+-\d.tar:\w+;", caplog.text)
    alone = opened(clips, batch={**batch, "too_long": "alone"}, passes=1)
    assert len([line for step in range(len(alone.remaining())) for line in alone.lines(step)]) == 93
    for batch in loaded(alone, 0, 4):
        assert batch["wav"].numel() <= 3 * RATE or len(batch["ids"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": {}}, "give the budget of a unit"),
        ({"batch_size": 4}, "remove batch_size"),
        ({"shuffle": False}, "ends file order"),
        ({"drop_last": True}, "no incomplete last batch"),
        ({"mixture": {"rounds": {"repeat": 2}}}, "part the repeats of a sample"),
        ({"batch": {"tokens": 4096}}, "the lengths of speech are seconds; give the budget of a unit in seconds"),
        ({"speech": {"crop": "6s"}}, "does not plan the lengths of its samples"),
        ({"recipe": "raw", "speech": {}}, "does not plan the lengths of its samples"),
        ({"batch": {"seconds": 1.5, "units": 1}}, "half of the samples are longer than the budget"),
        ({"lanes": 2, "batch": {"seconds": 12, "units": 3}}, "2 lanes do not divide the 3 units of a step"),
    ],
)
def test_what_does_not_fit_batches_by_length_is_refused(clips: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        opened(clips, **options).batch(0)


def test_clips_without_durations_are_refused_with_the_command_that_finds_them(tmp_path: Path) -> None:
    write_shards(tmp_path, {"hindi": [4]})
    index_shards(LocalStore(tmp_path), ["hindi-0.tar"], tmp_path / "index")
    with pytest.raises(ConfigError, match=r"no durations are known of .*; make an index with `penstock index`"):
        opened(tmp_path, filelist=None, manifest=tmp_path / "index")


def test_single_clips_of_unknown_duration_are_bad_if_they_are_empty_or_long(tmp_path: Path) -> None:
    write_clips(tmp_path, {"tamil": [40]})
    with tarfile.open(tmp_path / "tamil-0.tar", "a", format=tarfile.GNU_FORMAT) as tar:
        add_file(tar, "empty.wav", b"")
        add_file(tar, "short.wav", streamed_wav(RATE // 2))
        add_file(tar, "long.wav", streamed_wav(2 * RATE))
    index_shards(LocalStore(tmp_path), ["tamil-0.tar"], tmp_path / "index")
    feed = opened(tmp_path, filelist=None, manifest=tmp_path / "index", max_bad=1.0)
    batches = list(loaded(feed, 0, 12))
    assert {bad.id for batch in batches for bad in batch["bad"]} == {"empty", "long"}
    assert any("short" in batch["ids"] for batch in batches)
    assert all(batch["wav"].numel() <= 12 * RATE for batch in batches)


def test_a_run_keeps_what_it_does_with_long_clips(clips: Path) -> None:
    batch = {"seconds": 3, "units": 2, "window": 48}
    alone = opened(clips, batch={**batch, "too_long": "alone"})
    assert opened(clips, batch={**batch, "too_long": "alone"}).resume(alone.state(3)) == 3
    with pytest.raises(penstock.StateError, match=r"run \(endless, too_long: alone then, endless now\)"):
        opened(clips, batch=batch).resume(alone.state(3))


def test_a_run_keeps_the_kind_of_its_batches(clips: Path) -> None:
    with pytest.raises(penstock.StateError, match="keeps the kind of its batches"):
        opened(clips, batch=None, batch_size=4).resume(opened(clips).state(3))
    with pytest.raises(penstock.StateError, match="keeps the kind of its batches"):
        opened(clips).resume(opened(clips, batch=None, batch_size=4).state(3))


def test_not_strict_goes_on_from_the_same_step_with_epochs_of_another_length(clips: Path) -> None:
    state = opened(clips).state(5)
    finite = opened(clips, passes=2)
    with pytest.raises(penstock.StateError, match=r"epoch .*strict=False"):
        finite.resume(state)
    assert finite.resume(state, strict=False) == 5
    whole = opened(clips, passes=2)
    assert finite.remaining(5).stop == whole.remaining().stop
    assert ids(finite, 5) == ids(whole, 5)


def test_lanes_that_do_not_divide_the_units_of_a_state_are_refused(clips: Path) -> None:
    state = opened(clips, batch={"seconds": 12, "units": 3}).state(5)
    with pytest.raises(ConfigError, match="2 lanes do not divide the 3 units of a step"):
        opened(clips, batch={"seconds": 12}, lanes=2).resume(state, strict=False)


def test_several_recipes_share_a_step_each_within_its_budget(clips: Path) -> None:
    own = clip_run(clips)
    where = {"filelist": own["filelist"], "store": own["store"]}
    sources = [{"name": name, "recipe": recipe, **where} for name, recipe in (("a", "speech"), ("b", "voices"))]
    options = {key: value for key, value in own.items() if key not in where}
    options |= {"sources": sources, "voices": {"crop": "full", "features": False}}
    feed = penstock.open(options, pipelines={"voices": SpeechPipeline()}, rank=0, world=1)
    assert [segment.budget for segment in feed.timeline(1).segments] == [(120, 120)]
    for batch in loaded(feed, 0, 8):
        parts = [batch["speech"], batch["voices"]]
        assert sum(part["wav"].numel() for part in parts if len(part["ids"])) <= 12 * RATE
        assert sorted(slot for part in parts for slot in part["slots"].tolist()) == list(
            range(sum(len(part["ids"]) for part in parts))
        )
        assert all(part["global_samples"] >= len(part["ids"]) for part in parts)
        assert batch["units"] == 4


def test_a_mixture_of_longer_clips_has_other_steps_per_window_from_the_next_window_on(tmp_path: Path) -> None:
    filelist = write_clips(tmp_path, {"hindi": [40] * 4, "tamil": [40] * 4}, rate=1_000)
    lines = [line.split("\t") for line in filelist.read_text().splitlines()]
    short = {"hindi": "1.0", "tamil": "4.0"}
    filelist.write_text("".join("\t".join([*line[:3], short[line[2]]]) + "\n" for line in lines))
    mixture = [{"weights": {"hindi": 1}}, {"at": 100, "weights": {"tamil": 1}}]
    options = {"batch": {"seconds": 12, "units": 2, "window": 48}, "mixture": mixture}
    feed = opened(tmp_path, **options)
    first, then = feed.timeline(1).segments
    assert (then.slot, first.steps * 3, then.step) == (144, then.step, then.step) and then.steps > 2 * first.steps
    slots = [slot for step in range(then.step + then.steps) for slot in feed.planned(step).slot.tolist()]
    assert sorted(slots) == list(range(192))
    planned = [ids(feed, step) for step in range(then.step + 5)]
    for step in (0, first.steps, then.step - 1, then.step, then.step + 1):
        again = opened(tmp_path, **options)
        again.resume(json.loads(json.dumps(feed.state(step))))
        assert again.timeline(1) == feed.timeline(1)
        assert [ids(again, each) for each in range(step, then.step + 5)] == planned[step:]
    later = [*mixture, {"at": 150, "weights": {"hindi": 1}}]
    assert opened(tmp_path, **{**options, "mixture": later}).resume(feed.state(5)) == 5
    with pytest.raises(penstock.StateError, match="mixture"):
        opened(tmp_path, **{**options, "mixture": later}).resume(feed.state(then.step + 1))


@pytest.mark.parametrize("options", [{}, {"passes": 1}, {"lanes": 2}], ids=str)
def test_a_unit_without_a_sample_is_a_row_of_padding(clips: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    log = tmp_path / "usage.jsonl"
    own = {"batch": {"seconds": 4, "units": 4, "window": 24}, **options}
    feed = opened(clips, usage={"log": log, "every": 5, "ids": True}, **own)
    end = feed.remaining().stop or 25
    batches = list(loaded(feed, 0, end))
    empty = [batch for batch in batches if not batch["valid"].any()]
    assert empty and all(batch["ids"] for batch in batches)
    for batch in empty:
        assert batch["ids"] == [""] and batch["valid"].tolist() == [False]
        assert batch["wav"].shape == (1, RATE) and not batch["wav"].any() and batch["length"].tolist() == [0]
        assert batch["global_samples"] >= 1
    assert all(len([own for own in batches if own["step"] == step]) % 4 == 0 for step in range(end))
    proof = prove(feed, lines := [line for line in read_lines(log) if line is not None], lineage(lines))
    assert proof.wrong == [] and proof.proven


def test_a_state_is_refused_if_two_clips_have_swapped_their_durations(clips: Path, tmp_path: Path) -> None:
    state = opened(clips).state(3)
    lines = (clips / "train.tsv").read_text().splitlines()
    fields = [line.split("\t") for line in lines]
    first, other = 0, next(at for at, each in enumerate(fields) if each[3] != fields[0][3])
    assert fields[first][2] == fields[other][2]
    fields[first][3], fields[other][3] = fields[other][3], fields[first][3]
    changed = tmp_path / "train.tsv"
    changed.write_text("".join("\t".join(each) + "\n" for each in fields))
    with pytest.raises(penstock.StateError, match="assamese"):
        opened(clips, filelist=changed).resume(state)
    fixed = opened(clips, batch=None, batch_size=4).state(3)
    assert opened(clips, batch=None, batch_size=4, filelist=changed).resume(fixed) == 3
