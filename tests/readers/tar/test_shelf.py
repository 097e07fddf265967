"""What was learnt about a shard is found again, or not at all."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.readers.errors import ContentError
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import Sample
from penstock.readers.tar.shardindex import TarIndex
from penstock.readers.tar.shelf import Shelf

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
MEMBERS = st.lists(
    st.builds(Member, NAMES, st.integers(0, 2**62), st.integers(0, 2**62), st.none()),
    max_size=4,
    unique_by=lambda m: m.ext,
)
SAMPLES = st.lists(st.builds(Sample, NAMES, MEMBERS.map(tuple)), max_size=20, unique_by=lambda sample: sample.key)


@settings(max_examples=60, deadline=None)
@given(SAMPLES)
def test_an_index_comes_back_as_it_was_put(tmp_path_factory: pytest.TempPathFactory, samples: list[Sample]) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    shelf.put("v1", TarIndex.of(samples, "a.tar"))
    found = shelf.get("a.tar", "v1")
    assert found is not None
    assert [found.members(sample.key) for sample in samples] == [sample.members for sample in samples]


def an_index(shard: str = "a.tar") -> TarIndex:
    return TarIndex.of([Sample(f"clip{n}", (Member("wav", 512 * n, 9, None),)) for n in range(30)], shard)


def test_another_shard_or_version_is_not_on_the_shelf(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "not yet there")
    assert shelf.get("a.tar", "v1") is None
    shelf.put("v1", an_index())
    assert shelf.get("a.tar", "v1") is not None
    assert shelf.get("a.tar", "v2") is None
    assert shelf.get("b.tar", "v1") is None


def test_a_torn_damaged_or_foreign_file_counts_as_absent(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("v1", an_index())
    (path,) = tmp_path.glob("*.index")
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        assert shelf.get("a.tar", "v1") is None
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        assert shelf.get("a.tar", "v1") is None
    shelf.put("v2", an_index())
    (other,) = set(tmp_path.glob("*.index")) - {path}
    path.write_bytes(other.read_bytes())
    assert shelf.get("a.tar", "v1") is None, "a whole file under another's name"
    shelf.put("v1", an_index())
    assert shelf.get("a.tar", "v1") is not None


def test_what_a_killed_writer_left_is_overwritten(tmp_path: Path) -> None:
    Shelf(tmp_path).put("v1", an_index())
    (path,) = tmp_path.glob("*.index")
    path.unlink()
    left = tmp_path / f".{path.name}.partial"
    left.write_bytes(b"half" * 10_000)
    Shelf(tmp_path).put("v1", an_index())
    assert Shelf(tmp_path).get("a.tar", "v1") is not None
    assert not left.exists()


def test_a_key_that_is_missing_or_there_twice_is_a_content_error() -> None:
    twice = [Sample("a", (Member("wav", 512, 1, None),)), Sample("b", ()), Sample("a", (Member("wav", 2048, 1, None),))]
    index = TarIndex.of(twice, "en/0.tar")
    with pytest.raises(ContentError, match=r"en/0.tar:c: no such sample in the shard, which has 3"):
        index.members("c")
    with pytest.raises(ContentError, match=r"en/0.tar:a: 2 samples with this key in the shard, at bytes 512 and 2048"):
        index.members("a")
    assert index.members("b") == ()


def test_an_index_is_small() -> None:
    index = TarIndex.of(
        [Sample(f"english_{n:08d}", (Member("wav", n, 9, None), Member("json", n, 9, None))) for n in range(2500)], "a"
    )
    places = index.places
    held = sum(column.nbytes for column in (index.starts, index.hashes, index.order, places.ext, places.offset))
    assert (held + places.size.nbytes + index.keys.nbytes) / 2500 < 100
