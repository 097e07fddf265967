"""Extents that are joined cover the same bytes, in fewer requests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.extents import Extent, Unit, joined

STORE: Any = object()
GRAIN = 10


@st.composite
def extents(draw: st.DrawFn) -> list[Extent]:
    found = []
    for path, start, size in draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99), st.integers(0, 30)))):
        found.append(Extent(Unit(STORE, path), start, start + size))
    return found


def pieces(extent: Extent) -> set[tuple[str, int]]:
    """The pieces of the grain that an extent touches."""
    assert extent.end is not None
    return {(extent.unit.path, piece) for piece in range(extent.start // GRAIN, -(-extent.end // GRAIN))}


@given(extents())
def test_joined_extents_touch_the_same_pieces_each_once_and_none_beside_another(wanted: list[Extent]) -> None:
    found = joined(wanted, GRAIN)
    touched = [piece for extent in found for piece in pieces(extent)]
    needed = set().union(*map(pieces, wanted))
    assert needed <= set(touched) and len(touched) == len(set(touched))
    assert {extent.unit for extent in found} == {extent.unit for extent in wanted}
    for path, piece in touched:
        others = [extent for extent in found if extent.unit.path == path and (path, piece) not in pieces(extent)]
        assert not any((path, piece + 1) in pieces(extent) for extent in others)


def test_units_keep_their_order_and_neighbours_become_one() -> None:
    a = Unit(STORE, "a")
    b = Unit(STORE, "b")
    wanted = [Extent(b, 21, 22), Extent(a, 0, 5), Extent(b, 1, 2), Extent(b, 9, 20), Extent(b, 45, 50)]
    assert joined(wanted, GRAIN) == [Extent(b, 1, 22), Extent(b, 45, 50), Extent(a, 0, 5)]


def test_an_extent_to_the_end_takes_in_all_that_follows() -> None:
    a = Unit(STORE, "a")
    assert joined([Extent(a, 50, 60), Extent(a, 20), Extent(a, 0, 5)], GRAIN) == [Extent(a, 0, 5), Extent(a, 20)]
