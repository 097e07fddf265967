"""The policy of the node cache as functions of sizes and times."""

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.cache.policy import REQUEST_BYTES, fits, fitting, make_room, missing_runs

SIZES = st.integers(1, 100)


@dataclass
class Entry:
    size: int
    pinned: bool


ENTRIES = st.lists(st.builds(Entry, SIZES, st.booleans()), max_size=20)


def evicted_by(held: int | None, size: int, bound: int, entries: list[Entry]) -> tuple[list[Entry], int, int]:
    """Return the evicted entries, and what ``make_room`` says of the bytes held and pinned."""
    evicted: list[Entry] = []

    def evict(entry: Entry) -> bool:
        if not entry.pinned:
            evicted.append(entry)
        return not entry.pinned

    room = make_room(held, size, bound, lambda: entries, evict)
    return evicted, room.held, room.pinned


@given(ENTRIES, SIZES, st.integers(1, 1_000))
def test_what_fits_evicts_nothing(entries: list[Entry], size: int, bound: int) -> None:
    total = sum(entry.size for entry in entries)
    if fits(total, size, bound):
        assert evicted_by(total, size, bound, entries) == ([], total, 0)
        assert evicted_by(None, size, bound, entries)[0] == []


@given(ENTRIES, SIZES, st.integers(1, 1_000))
def test_the_least_recently_used_entries_that_are_not_pinned_are_evicted_first(
    entries: list[Entry], size: int, bound: int
) -> None:
    evicted, held, _ = evicted_by(None, size, bound, entries)
    loose = [entry for entry in entries if not entry.pinned]
    assert evicted == loose[: len(evicted)]
    assert held == sum(entry.size for entry in entries) - sum(entry.size for entry in evicted)


@given(ENTRIES, SIZES, st.integers(1, 1_000))
def test_there_is_room_unless_pinned_entries_take_it(entries: list[Entry], size: int, bound: int) -> None:
    _, held, pinned = evicted_by(None, size, bound, entries)
    all_pinned = sum(entry.size for entry in entries if entry.pinned)
    assert fits(held, size, bound) == fits(all_pinned, size, bound)
    if not fits(held, size, bound):
        assert held == pinned == all_pinned


@given(ENTRIES, SIZES, st.integers(1, 1_000))
def test_no_more_is_evicted_than_a_twentieth_of_the_bound_and_one_entry(
    entries: list[Entry], size: int, bound: int
) -> None:
    evicted, held, _ = evicted_by(None, size, bound, entries)
    if evicted:
        assert held + evicted[-1].size + size > int(bound * 0.95)


@given(st.lists(SIZES, max_size=20), st.integers(1, 500))
def test_the_first_that_fit_are_kept_with_room_for_one_more(sizes: list[int], bound: int) -> None:
    found = fitting(dict(enumerate(sizes)), bound)
    assert found == set(range(len(found)))
    if len(found) > 1:
        assert sum(sizes[: len(found)]) + max(sizes) <= bound
    assert bool(found) == bool(sizes), "the first is always kept: without it no step could be made"


@given(st.binary(max_size=60).map(lambda data: bytes(each & 1 for each in data)), st.integers(0, 40))
def test_runs_are_the_missing_parts_in_order_and_cross_no_border_of_requests(known: bytes, first: int) -> None:
    part_bytes = REQUEST_BYTES // 8
    runs = list(missing_runs(known, first, part_bytes))
    parts = [part for low, high in runs for part in range(low, high)]
    assert parts == [first + at for at, here in enumerate(known) if not here]
    assert all(low // 8 == (high - 1) // 8 for low, high in runs)
    for (_, end), (begin, _) in itertools.pairwise(runs):
        assert begin > end or begin % 8 == 0, "adjacent parts are one request, up to its size"


def test_a_part_larger_than_a_request_is_a_request() -> None:
    assert list(missing_runs(b"\0\0", 3, 2 * REQUEST_BYTES)) == [(3, 4), (4, 5)]
