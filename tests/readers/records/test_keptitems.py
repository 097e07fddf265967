"""What is kept of items is found item by item, or not at all."""

from pathlib import Path

import pytest

from penstock.readers.metadatacache import ObjectVersion
from penstock.readers.records.keptitems import KeptItems

KEPT = [b"one", b"", b"three" * 1000]


def items(folder: Path, version: str = "1") -> KeptItems:
    return KeptItems(folder, "lines of a judge", lambda: ObjectVersion("store", "rows.jsonl", version))


def test_items_come_back_one_by_one_also_to_who_comes_later(tmp_path: Path) -> None:
    items(tmp_path).put(3, KEPT)
    assert [items(tmp_path).get(3, number) for number in range(3)] == KEPT
    assert items(tmp_path).has(3, 3)


@pytest.mark.parametrize("other", [items, lambda folder: items(folder, version="2")])
def test_of_other_segments_versions_and_items_nothing_is_kept(other, tmp_path: Path) -> None:
    items(tmp_path).put(3, KEPT)
    assert other(tmp_path).get(4, 0) is None
    assert items(tmp_path, "2").get(3, 0) is None
    assert items(tmp_path).get(3, 3) is None
    assert not items(tmp_path).has(3, 2)


def test_an_item_that_is_damaged_is_missing_and_the_others_are_not(tmp_path: Path) -> None:
    items(tmp_path).put(0, KEPT)
    [path] = tmp_path.glob("*.items")
    path.write_bytes(b"ONE" + path.read_bytes()[3:])
    assert [items(tmp_path).get(0, number) for number in range(3)] == [None, *KEPT[1:]]


def test_without_its_metadata_a_file_counts_as_missing(tmp_path: Path) -> None:
    items(tmp_path).put(0, KEPT)
    [entry] = tmp_path.glob("*.learnt")
    entry.unlink()
    assert not items(tmp_path).has(0, 3)


def test_what_is_put_again_is_seen_at_once(tmp_path: Path) -> None:
    kept = items(tmp_path)
    assert kept.get(0, 0) is None
    kept.put(0, KEPT)
    assert kept.get(0, 0) == b"one"


def test_names_on_disk_stay_so_that_kept_tokens_of_older_versions_are_found(tmp_path: Path) -> None:
    items(tmp_path).put(3, KEPT)
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert names == {"2bb653fa4128ab75f6c1899999373fd3.learnt", "37848c697fe633230124f78bbd3dd107.items"}
