"""Metadata of an object is found again, or not at all."""

from pathlib import Path

import pytest

from penstock.readers.metadatacache import MetadataCache, ObjectVersion

VERSION = ObjectVersion("s3://bucket", "en/0.tar", "v1")
BODY = bytes(range(256)) * 8


def test_only_the_same_store_path_version_and_kind_find_it(tmp_path: Path) -> None:
    cache = MetadataCache(tmp_path / "not yet there", "a 1")
    assert cache.get(VERSION) is None
    cache.put(VERSION, BODY)
    assert cache.get(VERSION) == BODY
    for other in (VERSION._replace(store="s3://other"), VERSION._replace(path="b"), VERSION._replace(version="v2")):
        assert cache.get(other) is None
    assert MetadataCache(tmp_path / "not yet there", "a 2").get(VERSION) is None


def test_kinds_lie_side_by_side_and_what_is_put_later_counts(tmp_path: Path) -> None:
    one = MetadataCache(tmp_path, "one 1")
    two = MetadataCache(tmp_path, "two 1")
    one.put(VERSION, b"")
    two.put(VERSION, BODY)
    assert one.get(VERSION) == b"" and two.get(VERSION) == BODY
    two.put(VERSION, b"newer")
    assert two.get(VERSION) == b"newer"


@pytest.mark.parametrize("place", range(0, len(BODY) + 60, 37))
def test_a_torn_or_damaged_file_is_not_found_and_is_made_again(tmp_path: Path, place: int) -> None:
    cache = MetadataCache(tmp_path, "a 1")
    cache.put(VERSION, BODY)
    (path,) = tmp_path.glob("*.learnt")
    whole = path.read_bytes()
    for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]):
        path.write_bytes(damaged)
        assert cache.get(VERSION) is None
    cache.put(VERSION, BODY)
    assert cache.get(VERSION) == BODY


def test_a_whole_file_under_the_name_of_another_is_not_found(tmp_path: Path) -> None:
    cache = MetadataCache(tmp_path, "a 1")
    cache.put(VERSION, BODY)
    (path,) = tmp_path.glob("*.learnt")
    cache.put(VERSION._replace(version="v2"), BODY)
    (other,) = set(tmp_path.glob("*.learnt")) - {path}
    path.write_bytes(other.read_bytes())
    assert cache.get(VERSION) is None


def test_what_a_killed_writer_left_is_overwritten(tmp_path: Path) -> None:
    cache = MetadataCache(tmp_path, "a 1")
    cache.put(VERSION, BODY)
    (path,) = tmp_path.glob("*.learnt")
    path.unlink()
    left = tmp_path / f".{path.name}.partial"
    left.write_bytes(b"half" * 10_000)
    cache.put(VERSION, BODY)
    assert cache.get(VERSION) == BODY
    assert not left.exists()
