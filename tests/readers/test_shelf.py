"""What was learnt about an object is found again, or not at all."""

from pathlib import Path

import pytest

from penstock.readers.shelf import Shelf, Subject

ABOUT = Subject("s3://bucket", "en/0.tar", "v1")
BODY = bytes(range(256)) * 8


def test_only_the_same_store_path_version_and_kind_find_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "not yet there", "a 1")
    assert shelf.get(ABOUT) is None
    shelf.put(ABOUT, BODY)
    assert shelf.get(ABOUT) == BODY
    for other in (ABOUT._replace(store="s3://other"), ABOUT._replace(path="b"), ABOUT._replace(version="v2")):
        assert shelf.get(other) is None
    assert Shelf(tmp_path / "not yet there", "a 2").get(ABOUT) is None


def test_kinds_lie_side_by_side_and_what_is_put_later_counts(tmp_path: Path) -> None:
    one = Shelf(tmp_path, "one 1")
    two = Shelf(tmp_path, "two 1")
    one.put(ABOUT, b"")
    two.put(ABOUT, BODY)
    assert one.get(ABOUT) == b"" and two.get(ABOUT) == BODY
    two.put(ABOUT, b"newer")
    assert two.get(ABOUT) == b"newer"


@pytest.mark.parametrize("place", range(0, len(BODY) + 60, 37))
def test_a_torn_or_damaged_file_is_not_found_and_is_made_again(tmp_path: Path, place: int) -> None:
    shelf = Shelf(tmp_path, "a 1")
    shelf.put(ABOUT, BODY)
    (path,) = tmp_path.glob("*.learnt")
    whole = path.read_bytes()
    for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]):
        path.write_bytes(damaged)
        assert shelf.get(ABOUT) is None
    shelf.put(ABOUT, BODY)
    assert shelf.get(ABOUT) == BODY


def test_a_whole_file_under_the_name_of_another_is_not_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, "a 1")
    shelf.put(ABOUT, BODY)
    (path,) = tmp_path.glob("*.learnt")
    shelf.put(ABOUT._replace(version="v2"), BODY)
    (other,) = set(tmp_path.glob("*.learnt")) - {path}
    path.write_bytes(other.read_bytes())
    assert shelf.get(ABOUT) is None


def test_what_a_killed_writer_left_is_overwritten(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, "a 1")
    shelf.put(ABOUT, BODY)
    (path,) = tmp_path.glob("*.learnt")
    path.unlink()
    left = tmp_path / f".{path.name}.partial"
    left.write_bytes(b"half" * 10_000)
    shelf.put(ABOUT, BODY)
    assert shelf.get(ABOUT) == BODY
    assert not left.exists()
