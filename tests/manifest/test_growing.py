"""A manifest whose index grows: rows are numbers of items, whoever extends the index and however far."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.manifest.growing import GrowingManifest
from tests.plan.indexes import PrefixIndex


def manifest(sizes: list[int], **options: object) -> GrowingManifest:
    return GrowingManifest("web", PrefixIndex(np.array(sizes)), fingerprint="abc", **options)


def test_nothing_is_known_at_first_and_that_is_what_it_says() -> None:
    found = manifest([3, 2], limit=4, modality="image")
    assert (found.sources, found.fingerprints, found.limits, found.modalities) == (("web",), ("abc",), (4,), ("image",))
    assert (len(found), found.items, found.amounts) == (0, (0,), {"items": (0,)})
    assert found.group_sizes(0).tolist() == []
    found.growing.starts(1)
    assert (len(found), found.group_sizes(0).tolist(), found.group_name(0, 0)) == (3, [3], "web/0")


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.data())
def test_rows_count_the_items_and_are_found_again_by_an_index_that_knows_nothing(
    sizes: list[int], data: st.DataObject
) -> None:
    places = [(group, item) for group, size in enumerate(sizes) for item in range(size)]
    asked = data.draw(st.lists(st.integers(0, len(places) - 1), min_size=1, max_size=6))
    source, group, item = manifest(sizes).locate(asked)
    assert list(zip(group.tolist(), item.tolist(), strict=True)) == [places[row] for row in asked]
    assert not source.any()
    known = manifest(sizes)
    known.growing.starts(100)
    assert known.rows(source, group, item).tolist() == asked


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="a limit of items per epoch must be 1 or more, not 0"):
        manifest([3], limit=0)
