"""Workers of one ``for`` begin at the same place, whatever they are seeded with and whenever they begin."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.compat.starts import LoaderWorker, Start, Starts


def same(start: Start) -> Start:
    return start


def team(count: int, seed: int, first: int) -> list[LoaderWorker]:
    return [LoaderWorker(number, count, seed, first) for number in range(count)]


def begin(starts: Starts, workers: Iterable[LoaderWorker]) -> list[int]:
    return [starts.begin(worker, same).epoch for worker in workers]


def test_a_process_that_is_no_worker_takes_one_epoch_after_another() -> None:
    starts = Starts()
    assert [starts.begin(None, same).epoch for _ in range(3)] == [0, 1, 2]


@settings(max_examples=30)
@given(st.integers(1, 4), st.data())
def test_workers_of_a_for_get_the_same_start_in_any_order(count: int, data: st.DataObject) -> None:
    starts = Starts()
    workers = team(count, 7, 0)
    for epoch in range(3):  # persistent ones
        assert begin(starts, data.draw(st.permutations(workers))) == [epoch] * count


@settings(max_examples=30)
@given(st.integers(1, 4), st.data())
def test_a_for_that_some_workers_never_began_is_over_with_the_next(count: int, data: st.DataObject) -> None:
    starts = Starts()
    for epoch in range(3):
        workers = team(count, 7, epoch * count)  # the user fixed the seed
        began = data.draw(st.lists(st.sampled_from(workers), min_size=1, unique=True))
        assert begin(starts, began) == [epoch] * len(began)


def test_a_process_that_was_started_in_between_does_not_part_a_team() -> None:
    starts = Starts()
    moved = [LoaderWorker(0, 3, 7, 10), LoaderWorker(1, 3, 7, 11), LoaderWorker(2, 3, 7, 11)]
    assert begin(starts, moved) == [0, 0, 0]
    assert begin(starts, reversed(moved)) == [1, 1, 1]


def test_two_loaders_at_once_have_an_epoch_each() -> None:
    starts = Starts()
    one = team(2, 1, 0)
    other = team(2, 2, 2)
    assert begin(starts, [one[0], other[0], other[1], one[1]]) == [0, 1, 1, 0]


def test_a_new_start_is_for_the_next_for_and_leaves_a_running_one_alone() -> None:
    starts = Starts()
    workers = team(2, 1, 0)
    starts.begin(workers[0], same)
    starts.set_next(Start(5, 3, 4))
    assert starts.begin(workers[1], same) == Start()
    assert [starts.begin(worker, same) for worker in workers] == [Start(5, 3, 4)] * 2
    assert [starts.begin(worker, same) for worker in workers] == [Start(6)] * 2


def test_a_start_is_settled_once_for_all_workers() -> None:
    starts = Starts()
    starts.set_next(Start(0, 25, 4))
    asked = []

    def settle(start: Start) -> Start:
        asked.append(start)
        return Start(start.epoch + 2, 5, 4)

    workers = team(2, 1, 0)
    assert [starts.begin(worker, settle) for worker in workers] == [Start(2, 5, 4)] * 2
    assert asked == [Start(0, 25, 4)]
    assert starts.next() == Start(3)
