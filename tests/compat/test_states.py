"""A count of batches, the sizes they had, and the place in the run that follows from them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.states import read_state, timeline_of, write_state
from penstock.feed.identity import Identity
from penstock.feed.state import StateError

IDENTITY = Identity(1, (("a", "b"),), "endless", 1, 16, ())


def sample_of(state: dict[str, object], batch_size: int, world: int, epoch_samples: int) -> int:
    """The sample at which a run goes on from a state."""
    start = read_state(state, batch_size, world, epoch_samples, IDENTITY)
    timeline = timeline_of(start, batch_size * world, epoch_samples)
    assert 0 <= start.batches < -(-epoch_samples // 1)
    return timeline.batch(timeline.step(start.epoch * epoch_samples) + start.batches)[0]


@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(0, 40)), min_size=1, max_size=5),
)
def test_a_run_goes_on_where_it_stopped_however_sizes_and_ranks_change(
    epoch_samples: int, runs: list[tuple[int, int, int]]
) -> None:
    position = 0
    state: dict[str, object] = {"batches_consumed": 0, "batch_size": 1}
    batches = 0
    for batch_size, world, count in runs:
        assert sample_of(state, batch_size, world, epoch_samples) == position
        start = read_state(state, batch_size, world, epoch_samples, IDENTITY)
        timeline = timeline_of(start, batch_size * world, epoch_samples)
        for _ in range(count):
            left = epoch_samples - position % epoch_samples
            position += min(left, batch_size * world)
        batches += count
        state = json.loads(json.dumps(write_state(batches, None, batch_size, world, timeline, IDENTITY)))
        epoch = position // epoch_samples
        within = batches - timeline.step(epoch * epoch_samples)
        same = write_state(within, epoch, batch_size, world, timeline, IDENTITY)
        assert sample_of(same, batch_size, world, epoch_samples) == position
    assert sample_of(state, batch_size, world, epoch_samples) == position


def test_another_identity_is_refused_by_what_differs() -> None:
    start = read_state({"batches_consumed": 0, "batch_size": 4}, 4, 1, 10, IDENTITY)
    state = write_state(3, None, 4, 1, timeline_of(start, 4, 10), IDENTITY)
    with pytest.raises(StateError, match=r"pool \(16 then, 8 now\)"):
        read_state(state, 4, 1, 10, IDENTITY._replace(pool=8))
    with pytest.raises(StateError, match=r"epoch \(10 then, 11 now\)"):
        read_state(state, 4, 1, 11, IDENTITY)


def test_a_change_of_the_batch_size_after_the_batches_is_left_out_and_refused() -> None:
    before = read_state({"batches_consumed": 10, "batch_size": 4}, 6, 1, 100, IDENTITY)
    timeline = timeline_of(before, 6, 100)
    assert timeline.segments == ((0, 0, 4), (10, 40, 6))
    assert write_state(10, None, 6, 1, timeline, IDENTITY)["segments"] == [[0, 0, 4], [10, 40, 6]]
    earlier = write_state(7, None, 6, 1, timeline, IDENTITY)
    assert earlier["segments"] == [[0, 0, 4]]
    assert sample_of(earlier, 6, 1, 100) == 28
    with pytest.raises(StateError, match=r"its segment \[10, 40, 6\] begins after the 7 batches"):
        read_state({**earlier, "segments": [[0, 0, 4], [10, 40, 6]]}, 6, 1, 100, IDENTITY)


@pytest.mark.parametrize("value", [2.5, 2.0, True, "2", float("inf"), -1])
@pytest.mark.parametrize("name", ["batches_consumed", "batch_size", "world_size", "epoch"])
def test_what_is_no_whole_number_is_refused_by_its_name(name: str, value: object) -> None:
    state = {"batches_consumed": 3, "batch_size": 4, "world_size": 1, "epoch": 0, name: value}
    with pytest.raises(StateError, match=f"not a state of a stream: {name} is .*; expected a non-negative integer"):
        read_state(state, 4, 1, 10, IDENTITY)
