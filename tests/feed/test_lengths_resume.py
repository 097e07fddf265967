"""Batches by length over all seams: the same for 1, 2 and 8 ranks, any workers, and after a resume at every step."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.feed import Feed
from tests.clips import clip_run, write_clips

pytestmark = pytest.mark.length


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder, rate=1_000)
    return folder


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a run by length: endless with a change of mixture, by rounds with short windows, or finite."""
    batch = {"seconds": draw(st.integers(5, 24)), "units": 8, "window": 8 * draw(st.integers(3, 9))}
    batch["too_long"] = draw(st.sampled_from(["skip", "alone"]))
    if draw(st.booleans()):
        batch["quadratic_after"] = draw(st.integers(2, 20))
        batch["seconds"] = 4 * batch["seconds"]
    kind = draw(st.sampled_from(["mixtures", "rounds", "passes"]))
    options: dict[str, Any] = {"batch": batch, "seed": draw(st.integers(0, 99)), "pool": draw(st.integers(1, 4))}
    if kind == "passes":
        return {**options, "passes": 2}
    if kind == "rounds":
        return {**options, "mixture": {"rounds": {"max_per_epoch": draw(st.integers(40, 120))}}}
    changes = [{"weights": "equal"}, {"at": draw(st.integers(1, 150)), "weights": {"assamese": 3, "bengali": 1}}]
    lanes = draw(st.sampled_from([1, 2, 4]))
    exclude = draw(st.sampled_from([[], [{"at": 60, "items": ["bengali_1_3", "assamese-1.tar"]}]]))
    return {**options, "mixture": changes, "lanes": lanes, "exclude": exclude}


def opened(clips: Path, options: dict[str, Any], rank: int = 0, world: int = 1) -> Feed:
    return penstock.open(clip_run(clips, **options), rank=rank, world=world)


def ids(feed: Feed, step: int) -> list[str]:
    return feed.catalog.ids(feed.planned(step))


@settings(deadline=None, max_examples=25)
@given(options=runs(), world=st.sampled_from([1, 2, 8]), data=st.data())
def test_a_resume_at_every_step_of_a_window_on_other_ranks_gives_the_same_global_batches(
    clips: Path, options: dict[str, Any], world: int, data: st.DataObject
) -> None:
    whole = opened(clips, options)
    timeline = whole.timeline(1)
    end = whole.remaining().stop or timeline.window(120).first
    window = timeline.window(data.draw(st.integers(0, min(end, 60) - 1)))
    stop = min(end, window.first + window.steps + 2)
    planned = {step: ids(whole, step) for step in range(window.first, min(end, stop + 2))}
    for step in range(window.first, min(end, stop)):
        state = json.loads(json.dumps(whole.state(step)))
        assert len(json.dumps(state)) < 1_000
        ranks = [opened(clips, options, rank, world) for rank in range(world)]
        assert {feed.resume(state) for feed in ranks} == {step}
        for later in range(step, min(end, step + 2)):
            assert [name for feed in ranks for name in ids(feed, later)] == planned[later]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_any_number_of_workers_makes_the_same_batches_over_windows_epochs_and_mixtures(
    clips: Path, workers: int
) -> None:
    mixture = [{"weights": "equal"}, {"at": 100, "weights": {"assamese": 3, "gujarati": 1}}]
    options = {"batch": {"seconds": 12, "units": 2, "window": 48}, "mixture": mixture, "lanes": 2}
    whole = opened(clips, options)
    steps = 40
    planned = [ids(whole, step) for step in range(steps)]
    found: list[list[str]] = [[] for _ in range(steps)]
    for rank in range(2):
        with opened(clips, options, rank, 2).loader(threads=0, workers=workers) as loader:
            while loader.step < steps:
                batch = next(loader)
                found[batch["step"]] += batch["ids"]
    assert found == planned
