"""A source in file order: item after item, pass after pass, whether its size is known or not."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.draws import Ints
from penstock.plan.endless import Endless
from penstock.plan.fileorder import FileOrder
from penstock.plan.finite import Finite
from penstock.plan.mixture import Mixture
from penstock.plan.order import Source
from tests.plan.indexes import PrefixIndex
from tests.plan.runs import rows

group_sizes = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)


@dataclass(frozen=True)
class Case:
    """A source in file order, twice: with all sizes known, and with an index that grows."""

    sizes: list[int]
    limit: int | None
    repeat: int
    both: tuple[FileOrder, ...]

    def walked(self, epochs: int) -> list[tuple[int, int, int, int]]:
        """(epoch, repeat, group, item) of some epochs, item after item."""
        return walked(self.sizes, self.limit, self.repeat, epochs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(group_sizes)
    limit = draw(st.one_of(st.none(), st.integers(1, 70)))
    repeat = draw(st.integers(1, 3))
    both = (np.array(sizes), PrefixIndex(np.array(sizes)))
    return Case(sizes, limit, repeat, tuple(FileOrder(each, 2, "a", limit=limit, repeat=repeat) for each in both))


def walked(sizes: list[int], limit: int | None, repeat: int, epochs: int) -> list[tuple[int, int, int, int]]:
    one = [(group, item) for group, size in enumerate(sizes) for item in range(size)][:limit]
    return [(epoch, nth, *place) for epoch in range(epochs) for place in one for nth in range(repeat)]


def picked(stream: FileOrder, indices: list[int]) -> list[tuple[int, int, int, int]]:
    picks = stream.picks(np.array(indices, dtype=np.int64))
    columns = (picks.epoch, picks.repeat, picks.group, picks.item)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@settings(deadline=None, max_examples=200)
@given(cases(), st.lists(st.lists(st.integers(0, 500), max_size=8), max_size=6))
def test_items_come_in_the_order_of_their_files_wherever_one_begins(case: Case, asked: list[list[int]]) -> None:
    expected = case.walked(3)
    for stream in case.both:
        for indices in asked:
            near = [index % len(expected) for index in indices]
            assert picked(stream, near) == [expected[index] for index in near]
        assert picked(stream, list(range(len(expected)))) == expected
        assert (stream.count_items(), stream.count_indices()) == (len(expected) // 3 // case.repeat, len(expected) // 3)


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, 10**9))
def test_a_far_epoch_is_like_the_first(case: Case, epoch: int) -> None:
    for stream in case.both:
        first = picked(stream, list(range(stream.count_indices())))
        far = picked(stream, list(range(epoch * stream.count_indices(), (epoch + 1) * stream.count_indices())))
        assert far == [(epoch, *rest) for _, *rest in first]


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, 3))
def test_indices_undo_picks_and_no_other_item_has_any(case: Case, epoch: int) -> None:
    expected = case.walked(epoch + 1)
    for stream in case.both:
        for group, size in enumerate([*case.sizes, 3]):
            for item in range(size + 1):
                indices = [
                    index for index, (at, _, *place) in enumerate(expected) if at == epoch and place == [group, item]
                ]
                assert stream.indices(group, item, epoch).tolist() == indices


@settings(deadline=None, max_examples=100)
@given(cases(), st.integers(0, 10**6))
def test_substitutes_go_around_the_group_before_they_come_back(case: Case, index: int) -> None:
    for stream in case.both:
        [(epoch, nth, group, item)] = picked(stream, [index])
        assert stream.neighbour(index, 0) == index
        end = min(case.sizes[group], stream.count_items() - sum(case.sizes[:group]))  # the limit may cut the group
        ring = picked(stream, [stream.neighbour(index, attempt) for attempt in range(end + 1)])
        assert ring == [(epoch, nth, group, (item + attempt) % end) for attempt in range(end + 1)]


@settings(deadline=None, max_examples=100)
@given(group_sizes, st.one_of(st.none(), st.integers(1, 70)), st.integers(1, 5), st.integers(0, 200))
def test_resident_are_the_group_and_those_that_follow_over_the_seam_of_two_passes(
    sizes: list[int], limit: int | None, residents: int, index: int
) -> None:
    stream = FileOrder(np.array(sizes), residents, "a", limit=limit)
    ahead = picked(stream, list(range(index, index + stream.count_indices())))
    following = list(dict.fromkeys(group for _, _, group, _ in ahead))
    assert stream.residents(index) == following[:residents]


def test_a_growing_index_is_read_no_further_than_what_is_asked_for() -> None:
    index = PrefixIndex(np.array([4, 0, 4, 4]))
    stream = FileOrder(index, 3, "a")
    assert (stream.residents(0), index.groups) == ([], 0)
    picked(stream, [0, 3])
    assert (stream.residents(3), index.groups) == ([0], 1)
    stream.neighbour(3, 1)
    assert (stream.indices(0, 2, 0).tolist(), index.groups) == ([2], 1)
    picked(stream, [4])
    assert (stream.residents(2), stream.residents(4), index.groups) == ([0, 2], [2], 3)
    assert (stream.residents(8), index.groups) == ([], 3)
    assert (stream.indices(3, 1, 0).tolist(), index.groups) == ([9], 4)
    assert stream.residents(11) == [3, 0, 2]


def test_a_limit_ends_a_pass_before_the_index_does() -> None:
    index = PrefixIndex(np.array([4, 4, 4]))
    stream = FileOrder(index, 3, "a", limit=5)
    assert picked(stream, [10**6]) == [(200_000, 0, 0, 0)]
    assert stream.indices(2, 0, 0).tolist() == []
    assert (stream.count_items(), stream.residents(4), index.groups) == (5, [1, 0], 2)


def test_a_source_without_items_is_an_error() -> None:
    with pytest.raises(ValueError, match="source 'a' has no items"):
        FileOrder(PrefixIndex(np.array([0, 0])), 1, "a").picks(np.arange(3))


def test_threads_may_extend_an_index_while_others_ask() -> None:
    sizes = np.full(400, 3)

    class Locked(PrefixIndex):
        lock = threading.Lock()

        def starts(self, items: int) -> Ints:
            with self.lock:
                return super().starts(items)

    stream = FileOrder(Locked(sizes), 2, "a")
    expected = walked(sizes.tolist(), None, 1, 2)
    wrong = []

    def ask(first: int) -> None:
        for index in range(first, 2400, 4):
            [(_, _, group, _)] = picked(stream, [index])
            if picked(stream, [index]) != [expected[index]] or stream.residents(index)[0] != group:
                wrong.append(index)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_source_whose_index_grows_can_not_be_shuffled_or_passed_over_a_number_of_times() -> None:
    index = PrefixIndex(np.array([3, 3]))
    with pytest.raises(ValueError, match=r"source 'a' is indexed while it is read.*file order"):
        Source("a", index)
    with pytest.raises(ValueError, match=r"source 'a' is indexed while it is read.*passes"):
        Finite([Source("a", index, shuffled=False)], passes=1, residents=2, seed=0)


def test_a_run_in_file_order_takes_batches_as_they_lie() -> None:
    sizes = [np.array([3, 4]), np.array([5])]
    sources = [Source(name, each, shuffled=False) for name, each in zip("ab", sizes, strict=True)]
    order = Endless(sources, Mixture([(0, (2, 1))], 1), residents=2, seed=9, arranged=False)
    planned = order.look_up(order.arrange([0, 6], 6).ravel())
    assert planned.slot.tolist() == list(range(12))
    assert rows(planned)[-1] == rows(order.look_up(np.array([11])))[0]
    own = [[(group, item) for _, source, _, _, group, item in rows(planned) if source == each] for each in range(2)]
    assert own == [[(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (0, 0)], [(0, 0), (0, 1), (0, 2), (0, 3)]]
    [(_, source, epoch, _, group, item)] = rows(order.stand_in(4, 1))
    assert rows(order.look_up(np.array([4])))[0][1:] != (source, epoch, 0, group, item)


def test_lanes_do_not_split_a_source_in_file_order() -> None:
    sizes = np.full(12, 500)
    order = Endless([Source("a", sizes, shuffled=False)], Mixture([(0, (1,))], 3), residents=2, seed=9, arranged=False)
    found = rows(order.look_up(np.arange(6001)))
    assert [(group, item) for *_, group, item in found[:501]] == [*((0, item) for item in range(500)), (1, 0)]
    assert found[6000][2:] == (1, 0, 0, 0)
    assert order.slots_of(0, 11, 499, 1) == [11_999]


def test_a_growing_source_is_looked_up_no_further_than_its_slots() -> None:
    indexes = [PrefixIndex(np.full(1000, 1)) for _ in range(3)]
    sources = [Source(f"source-{number}", index, shuffled=False) for number, index in enumerate(indexes)]
    order = Endless(sources, Mixture([(0, (1, 1, 1))], 1), residents=2, seed=9, arranged=False)
    order.look_up(np.arange(3))
    order.residents(np.arange(3))
    order.stand_in(2, 1)
    assert [index.groups for index in indexes] == [1, 1, 1]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 2),
    st.lists(st.one_of(st.none(), st.integers(1, 20)), min_size=3, max_size=3),
    st.booleans(),
)
def test_a_finite_run_takes_the_sources_one_after_the_other_up_to_their_limits(
    several: list[list[int]], passes: int, limits: list[int | None], shuffled: bool
) -> None:
    sources = [
        Source(f"s{number}", np.array(sizes), limits[number], shuffled=shuffled) for number, sizes in enumerate(several)
    ]
    order = Finite(sources, passes=passes, residents=2, seed=3)
    expected = [
        (source, group, item)
        for source, sizes in enumerate(several)
        for group, item in [(group, item) for group, size in enumerate(sizes) for item in range(size)][: limits[source]]
    ]
    assert order.length == passes * len(expected)
    found = [(source, group, item) for _, source, _, _, group, item in rows(order.look_up(np.arange(order.length)))]
    for nth in range(passes):
        one = found[nth * len(expected) : (nth + 1) * len(expected)]
        assert (sorted(one) if shuffled else one) == expected
    for slot, (source, group, item) in enumerate(found[: len(expected)]):
        assert order.slots_of(source, group, item, 0) == [slot]
