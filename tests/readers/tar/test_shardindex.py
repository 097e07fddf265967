"""The index of a shard: what it finds, and its bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.readers.errors import ContentError
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import TarSample
from penstock.readers.tar.shardindex import TarIndex

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
MEMBERS = st.lists(
    st.builds(Member, NAMES, st.integers(0, 2**62), st.integers(0, 2**62), st.none()),
    max_size=4,
    unique_by=lambda m: m.ext,
)
SAMPLES = st.lists(st.builds(TarSample, NAMES, MEMBERS.map(tuple)), max_size=20, unique_by=lambda sample: sample.key)


@settings(max_examples=60, deadline=None)
@given(SAMPLES)
def test_an_index_comes_back_from_its_bytes(samples: list[TarSample]) -> None:
    found = TarIndex.from_bytes(TarIndex.of(samples, "a.tar").to_bytes(), "a.tar")
    assert [found.members(sample.key) for sample in samples] == [sample.members for sample in samples]


def test_a_key_that_is_missing_or_there_twice_is_a_content_error() -> None:
    twice = [
        TarSample("a", (Member("wav", 512, 1, None),)),
        TarSample("b", ()),
        TarSample("a", (Member("wav", 2048, 1, None),)),
    ]
    index = TarIndex.of(twice, "en/0.tar")
    with pytest.raises(ContentError, match=r"en/0.tar:c: no such sample in the shard, which has 3"):
        index.members("c")
    with pytest.raises(ContentError, match=r"en/0.tar:a: 2 samples with this key in the shard, at bytes 512 and 2048"):
        index.members("a")
    assert index.members("b") == ()


def test_an_index_is_small() -> None:
    index = TarIndex.of(
        [TarSample(f"english_{n:08d}", (Member("wav", n, 9, None), Member("json", n, 9, None))) for n in range(2500)],
        "a",
    )
    places = index.places
    held = sum(column.nbytes for column in (index.starts, index.hashes, index.order, places.ext, places.offset))
    assert (held + places.size.nbytes + index.keys.nbytes) / 2500 < 100
