"""Steps and samples: batches follow each other without gap or overlap, over changes of the batch size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan.timeline import Timeline

Segments = tuple[tuple[int, int, int], ...]
changes = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=6)


def timeline_of(first: int, later: list[tuple[int, int]]) -> tuple[Timeline, list[int]]:
    """A timeline made by changes, in any order of steps, and the size of each of its first steps by hand."""
    timeline, sizes = Timeline.constant(first), [first] * 80
    for step, size in later:
        timeline = timeline.changed(step, size)
        sizes[step:] = [size] * (80 - step)
    return timeline, sizes


@given(st.integers(1, 40), changes)
def test_a_change_keeps_what_came_before_its_step_and_sets_all_that_follows(
    first: int, later: list[tuple[int, int]]
) -> None:
    timeline, sizes = timeline_of(first, later)
    assert [timeline.batch(step) for step in range(80)] == [(sum(sizes[:step]), sizes[step]) for step in range(80)]
    assert timeline.batch(10**9) == (sum(sizes) + (10**9 - 80) * sizes[-1], sizes[-1])


@given(st.integers(1, 40), changes)
def test_step_undoes_batch_for_every_sample_of_it(first: int, later: list[tuple[int, int]]) -> None:
    timeline, sizes = timeline_of(first, later)
    assert [timeline.step(sample) for sample in range(sum(sizes))] == [s for s, n in enumerate(sizes) for _ in range(n)]


@given(st.integers(1, 40), changes)
def test_segments_only_grow_where_the_size_changes(first: int, later: list[tuple[int, int]]) -> None:
    timeline, sizes = timeline_of(first, later)
    expected = [(s, sum(sizes[:s]), sizes[s]) for s in range(80) if s == 0 or sizes[s] != sizes[s - 1]]
    assert list(timeline.segments) == expected
    assert Timeline(timeline.segments) == timeline


def test_resuming_at_the_step_of_a_change_keeps_it() -> None:
    timeline = Timeline.constant(4).changed(10, 8)
    assert timeline.segments == ((0, 0, 4), (10, 40, 8))
    assert timeline.changed(10, 8) == timeline
    assert timeline.changed(10, 4) == Timeline.constant(4)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((), "begin with"),
        (((1, 4, 4),), "begin with"),
        (((0, 0, 0),), "at least 1"),
        (((0, 0, 4), (5, 21, 8)), r"\[5, 21, 8\] does not continue \[0, 0, 4\]"),
        (((0, 0, 4), (5, 20, 8), (4, 12, 2)), "does not continue"),
        (((0, 0, 4), (5, 20, 8), (5, 20, 2)), "does not continue"),
    ],
)
def test_segments_that_do_not_join_are_refused(segments: Segments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Timeline(segments)


def test_a_step_before_the_first_is_refused() -> None:
    with pytest.raises(IndexError, match="step -1"):
        Timeline.constant(4).batch(-1)


@given(st.integers(1, 40), changes, st.integers(1, 200))
def test_no_batch_crosses_the_end_of_an_epoch(first: int, later: list[tuple[int, int]], epoch: int) -> None:
    timeline = Timeline.constant(first, epoch)
    sizes = [first] * 80
    for step, size in later:
        timeline = timeline.changed(step, size)
        sizes[step:] = [size] * (80 - step)
    start = 0
    for step, full in enumerate(sizes):
        size = min(full, epoch - start % epoch)
        assert timeline.batch(step) == (start, size) and timeline.full_size(step) == full
        assert timeline.step(start) == timeline.step(start + size - 1) == step
        start += size
    assert Timeline(timeline.segments, epoch) == timeline


def test_a_far_step_of_short_batches_is_found_at_once() -> None:
    timeline = Timeline.constant(4, epoch=10)  # 4, 4, 2
    assert timeline.batch(3 * 10**12 + 2) == (10**13 + 8, 2)
    assert timeline.step(10**13 + 9) == 3 * 10**12 + 2


def test_an_epoch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Timeline.constant(4, epoch=0)
