"""Excluded clips and a quadratic term in batches by length, on real clips."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.feed import Feed
from penstock.feed.excluding import find_named
from penstock.observe.forgetting import read_reported, trace
from penstock.observe.lineage import lineage
from penstock.observe.lines import read_lines
from penstock.observe.proof import prove
from penstock.observe.runlog import RunLog
from tests.cli.commands import run
from tests.clips import RATE, clip_run, write_clips
from tests.readers.tar.archives import write_tar

STEPS = 15


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(clip_run(folder, **options), rank=0, world=1)


def planned(feed: Feed) -> list[list[str]]:
    return [[line.item for line in feed.lines(step)] for step in range(STEPS)]


def test_an_excluded_clip_is_replaced_within_the_budget_and_all_others_stay(clips: Path) -> None:
    before = planned(opened(clips))
    names = [before[0][0], before[7][1], before[9][-1]]
    feed = opened(clips, exclude=[{"items": names}])
    after = planned(feed)
    changed = 0
    for one, other in zip(before, after, strict=True):
        for was, now in zip(one, other, strict=True):
            assert now == was if was not in names else now not in names
            changed += was in names
    assert changed >= 3
    for step in range(10):
        assert all(batch["wav"].numel() <= 12 * RATE and not batch["bad"] for batch in feed.units(step))
    assert (0, 0) in [(use.step, use.slot) for _, use in feed.where(after[0][0])]


def test_a_clip_is_excluded_from_a_sample_on_and_only_later_states_know_it(clips: Path) -> None:
    plain = opened(clips)
    second = plain.timeline(1).window(0).steps
    stop = plain.timeline(1).window(0).stop
    name = planned(plain)[0][0]
    later = opened(clips, exclude=[{"at": stop, "items": [name]}])
    assert planned(later)[:second] == planned(plain)[:second]
    assert not any(name in step for step in planned(later)[second:])
    assert later.resume(plain.state(second)) == second
    with pytest.raises(penstock.StateError, match="exclude"):
        later.resume(plain.state(second + 1))
    again = opened(clips, exclude=[{"at": stop, "items": [name]}])
    assert again.resume(later.state(second + 1)) == second + 1


def test_the_ledger_of_a_run_without_some_clips_is_proven(clips: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    options = {"exclude": [{"items": ["bengali-1.tar"]}]}
    feed = opened(clips, usage={"log": log, "every": 5, "ids": True}, **options)
    with feed.loader(threads=0) as loader:
        while loader.step < STEPS:
            assert not any(name.startswith("bengali_1_") for name in next(loader)["ids"])
        loader.state_dict()
    lines = [line for line in read_lines(log) if line is not None]
    assert prove(opened(clips, **options), lines, lineage(lines)).wrong == []
    assert prove(opened(clips), lines, lineage(lines)).wrong


def test_a_shard_that_is_excluded_whole_is_not_fetched(clips: Path) -> None:
    for names, is_fetched in ([], True), (["bengali-1.tar"], False):
        feed = opened(clips, exclude=[{"items": names}] if names else [])
        cut = feed.plan.cut(feed.timeline(1))
        groups = {each for step in range(STEPS) for each in cut.residents(step, feed.planned(step).slot)}
        fetched = {feed.catalog.group_name(*each) for each in groups}
        assert ("bengali-1.tar" in fetched) is is_fetched and "bengali-0.tar" in fetched


def test_forget_goes_back_to_the_start_of_a_window(tmp_path: Path) -> None:
    write_clips(tmp_path)
    config = tmp_path / "run.yaml"
    log = tmp_path / "usage.jsonl"
    options = json.loads(json.dumps(clip_run(tmp_path, usage={"log": log, "every": 5}), default=str))
    config.write_text(yaml.safe_dump(options))
    feed = penstock.open(config, rank=0, world=1)
    with feed.loader(threads=0) as loader:
        while loader.step < STEPS:
            next(loader)
        loader.state_dict()
    before = planned(feed)
    window = feed.timeline(1).window(STEPS - 2)
    name = next(name for name in before[STEPS - 2] if not any(name in step for step in before[: window.first]))
    told = run("forget", config, name, "--ledger", log)
    assert told.exit_code == 0, told.output
    assert re.search(rf"clean: checkpoints of step {window.first} \(sample {window.start}\)", told.stdout)
    forgotten = penstock.open(tmp_path / "run.forget.yaml", rank=0, world=1, usage=None)
    assert yaml.safe_load((tmp_path / "run.forget.yaml").read_text())["exclude"][0]["at"] == window.start
    assert forgotten.resume(feed.state(window.first)) == window.first
    after = planned(forgotten)
    assert after[: window.first] == before[: window.first] and not any(name in step for step in after)


def test_forgetting_a_bad_clip_goes_back_to_before_the_sums_that_count_it(tmp_path: Path) -> None:
    write_clips(tmp_path)
    shard = tmp_path / "bengali-1.tar"
    with tarfile.open(shard) as tar:
        files = [(member.name, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]  # files
    write_tar(shard, [(name, b"no sound" if name == "bengali_1_3.wav" else data) for name, data in files])
    log = tmp_path / "usage.jsonl"
    feed = opened(tmp_path, usage={"log": log, "every": 5}, max_bad=1.0)
    with feed.loader(threads=0) as loader:
        sums = [next(loader)["global_seconds"] for _ in iter(lambda: loader.step < STEPS, False)]
        loader.state_dict()
    named, _ = find_named(["bengali_1_3"], feed.catalog)
    found = trace(feed, named, read_reported(RunLog([log], feed)), lambda *_: None)
    planned_in = next(step for step in range(STEPS) if "bengali_1_3" in planned(feed)[step])
    assert (found.steps, found.clean) == ([], feed.timeline(1).window(planned_in).first)
    without = opened(tmp_path, exclude=[{"items": ["bengali_1_3"]}], max_bad=1.0)
    units = [unit["global_seconds"] for step in range(STEPS) for unit in without.units(step)]
    assert units != sums[: len(units)]


def test_a_source_that_is_excluded_whole_is_refused(clips: Path) -> None:
    with pytest.raises(penstock.ConfigError, match="all 30 items of source 'bengali' are excluded"):
        opened(clips, exclude=[{"items": [f"bengali-{number}.tar" for number in range(3)]}])


def test_a_quadratic_term_gives_long_clips_smaller_batches(clips: Path) -> None:
    batch = {"seconds": 24, "units": 2, "window": 48}
    feed = opened(clips, batch={**batch, "quadratic_after": 4})
    for step in range(8):
        for unit in feed.units(step):
            count, width = unit["wav"].shape
            seconds = width / RATE
            assert count * (seconds + seconds**2 / 4) <= 24
    with pytest.raises(penstock.StateError, match="items"):
        opened(clips, batch=batch).resume(feed.state(3))
    with pytest.raises(penstock.ConfigError, match="quadratic_after: is one length"):
        opened(clips, batch={**batch, "tokens": 100, "quadratic_after": 4})
