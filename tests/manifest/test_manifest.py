"""Rows are arithmetic over the sizes of groups, and a fingerprint is of all that it is given."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.manifest.manifest import Manifest, fingerprint

SIZES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=5)


def manifest_of(sizes: list[list[int]], **amounts: list[int]) -> Manifest:
    names = [f"source {number}" for number in range(len(sizes))]
    return Manifest(
        names,
        [np.array(each, dtype=np.int32) for each in sizes],
        fingerprints=[fingerprint(each) for each in sizes],
        group_names=[[f"{source}/{group}.tar" for group in range(len(each))] for source, each in enumerate(sizes)],
        amounts=amounts,
    )


def every_item(sizes: list[list[int]]) -> list[tuple[int, int, int]]:
    """Source, group and place of all items, in the order of their rows."""
    return [
        (source, group, item)
        for source, counts in enumerate(sizes)
        for group, count in enumerate(counts)
        for item in range(count)
    ]


@given(SIZES)
def test_rows_count_through_all_items_of_all_groups_of_all_sources(sizes: list[list[int]]) -> None:
    manifest = manifest_of(sizes)
    places = every_item(sizes)
    source, group, item = np.array(places).T
    assert manifest.rows(source, group, item).tolist() == list(range(len(places)))
    assert len(manifest) == len(places)
    for number, place in enumerate(places):
        assert int(manifest.rows(*place)) == number


@given(SIZES, st.randoms())
def test_locate_undoes_rows_in_any_order(sizes: list[list[int]], rng: random.Random) -> None:
    manifest = manifest_of(sizes)
    places = every_item(sizes)
    rows = list(range(len(places)))
    rng.shuffle(rows)
    source, group, item = manifest.locate(rows)
    found = list(zip(source.tolist(), group.tolist(), item.tolist(), strict=True))
    assert found == [places[row] for row in rows]
    assert tuple(int(each) for each in manifest.locate(rows[0])) == places[rows[0]]


def test_rows_of_a_whole_group_are_asked_for_at_once() -> None:
    manifest = manifest_of([[3, 5], [2]])
    assert manifest.rows(0, 1, np.arange(5)).tolist() == [3, 4, 5, 6, 7]
    assert manifest.rows(np.array([[0], [1]]), 0, np.array([0, 1])).tolist() == [[0, 1], [8, 9]]


@given(SIZES)
def test_sizes_come_back_source_by_source(sizes: list[list[int]]) -> None:
    manifest = manifest_of(sizes)
    assert [manifest.group_sizes(source).tolist() for source in range(len(sizes))] == sizes
    assert manifest.items == tuple(map(sum, sizes))


def test_items_are_an_amount_and_others_stand_beside_it() -> None:
    manifest = manifest_of([[3, 5], [2]], hours=[3_600_000_000, 0], tokens=[7, 8])
    assert manifest.amounts == {"items": (8, 2), "hours": (3_600_000_000, 0), "tokens": (7, 8)}
    assert manifest_of([[1]]).amounts == {"items": (1,)}


def test_groups_have_names_for_people() -> None:
    assert manifest_of([[3, 5], [2]]).group_name(0, 1) == "0/1.tar"


@pytest.mark.parametrize("sizes", [[], [[]], [[3, 0]], [[3], [-1, 2]]])
def test_no_group_at_all_and_an_empty_one_are_refused(sizes: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="at least one group, and no group is empty"):
        manifest_of(sizes)


def test_sources_may_have_limits_and_modalities_and_by_default_have_none() -> None:
    sizes = [np.array([3]), np.array([2])]
    plain = Manifest(["a", "b"], sizes, fingerprints=["1", "2"])
    assert (plain.limits, plain.modalities, plain.growing) == ((None, None), ("", ""), None)
    capped = Manifest(["a", "b"], sizes, fingerprints=["1", "2"], limits=[None, 5], modalities=["text", "image"])
    assert (capped.limits, capped.modalities) == ((None, 5), ("text", "image"))
    with pytest.raises(ValueError, match="a limit of items per epoch must be 1 or more, not 0"):
        Manifest(["a", "b"], sizes, fingerprints=["1", "2"], limits=[3, 0])
    with pytest.raises(ValueError, match="a manifest of 2 sources needs as many modalities, not 1"):
        Manifest(["a", "b"], sizes, fingerprints=["1", "2"], modalities=["text"])


PARTS = st.lists(
    st.one_of(st.text(max_size=5), st.lists(st.integers(0, 99), max_size=4), st.integers()), min_size=1, max_size=4
)


@given(PARTS, PARTS)
def test_a_fingerprint_is_of_every_part_in_order(one: list[object], other: list[object]) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)


def test_a_fingerprint_is_of_the_numbers_of_an_array_and_of_where_it_ends() -> None:
    numbers = np.arange(10, dtype="<i8")
    assert fingerprint(numbers) == fingerprint(np.arange(20, dtype="<i8").reshape(10, 2)[:, 0] // 2)
    assert fingerprint(numbers[:3], numbers[3:]) != fingerprint(numbers[:4], numbers[4:])
    letters = np.frombuffer(b"abcd", np.uint8)
    assert fingerprint(letters[:1], letters[1:]) != fingerprint(letters[:2], letters[2:])
    assert fingerprint(letters[:0]) != fingerprint()


def test_the_fingerprint_is_a_promise() -> None:
    assert (
        fingerprint(["a.tar"], [2], np.array([3, 4], "<i8"), np.frombuffer(b"onetwos", np.uint8)) == "94a056006a7b1f68"
    )
