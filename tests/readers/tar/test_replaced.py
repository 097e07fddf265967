"""Whole runs over shards that have namesakes, or are replaced while the run goes on: never another item's bytes."""

import os
from contextlib import closing
from pathlib import Path

import pytest

import penstock
from penstock.readers.blobs import OPEN_FILES
from penstock.store.remote.remote import ObjectChanged
from tests.same_stat import overwrite_keeping_stat
from tests.shards import content, small_run, write_shard, write_shards

SHARDS = 300
ITEMS = 4


def items(shard: str) -> dict[str, bytes]:
    names = [f"{shard.removesuffix('.tar').replace('-', '_')}_{place}" for place in range(ITEMS)]
    return {name: content(shard, name) for name in names}


def wrong(batch: dict[str, object]) -> list[str]:
    return [
        name
        for name, files in zip(batch["ids"], batch["records"], strict=True)  # type: ignore[call-overload]
        if not files["txt"].endswith(f":{name}".encode())
    ]


def test_a_shard_replaced_by_rename_during_a_run_never_gives_another_items_bytes(tmp_path: Path) -> None:
    assert SHARDS > OPEN_FILES
    write_shards(tmp_path, {"english": [ITEMS] * SHARDS})
    feed = penstock.open(**small_run(tmp_path, batch_size=8, pool=SHARDS))
    steps = SHARDS * ITEMS // 8
    assert not any(wrong(feed.batch(step)) for step in range(steps))
    for number in range(0, SHARDS, 2):
        path = tmp_path / f"english-{number}.tar"
        before = path.stat()
        write_shard(path.with_suffix(".new"), dict(reversed(items(path.name).items())))
        os.utime(path.with_suffix(".new"), ns=(before.st_atime_ns, before.st_mtime_ns))
        path.with_suffix(".new").rename(path)
    told = 0
    for step in range(steps):
        try:
            assert wrong(feed.batch(step)) == []
        except ObjectChanged as error:
            assert "was replaced during the run" in str(error)
            told += 1
    assert told > 0
    again = penstock.open(**small_run(tmp_path, batch_size=8, pool=SHARDS))
    assert not any(wrong(again.batch(step)) for step in range(steps)), "a new run uses the new shards"


def test_two_folders_with_shards_of_the_same_name_size_and_time_share_no_index(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        write_shards(folder, {"english": [ITEMS]})
        if folder.name == "two":
            write_shard(folder / "english-0.tar", dict(reversed(items("english-0.tar").items())))
        os.utime(folder / "english-0.tar", ns=(1, 1))
    for folder in (tmp_path / "one", tmp_path / "two"):
        run = small_run(folder, batch_size=ITEMS, cache={"dir": tmp_path / "cache", "size": "1GB"})
        assert wrong(penstock.open(**run).batch(0)) == []


@pytest.mark.parametrize("damage", [b"", b"not an index" * 100])
def test_a_learnt_index_that_was_damaged_is_made_again(tmp_path: Path, damage: bytes) -> None:
    write_shards(tmp_path, {"english": [ITEMS]})
    run = small_run(tmp_path, batch_size=ITEMS)
    first = penstock.open(**run).batch(0)["ids"]
    [kept] = (tmp_path / "cache" / ".penstock" / "indexes").glob("[!.]*")
    whole = kept.read_bytes()
    kept.write_bytes(damage)
    again = penstock.open(**run).batch(0)
    assert again["ids"] == first and wrong(again) == []
    assert kept.read_bytes() == whole


def test_a_shard_made_anew_with_the_same_inode_size_and_mtime_is_scanned_anew(tmp_path: Path) -> None:
    write_shards(tmp_path, {"english": [ITEMS]})
    with closing(penstock.open(**small_run(tmp_path, batch_size=ITEMS))) as feed:
        assert wrong(feed.batch(0)) == []
    write_shard(tmp_path / "new.tar", dict(reversed(items("english-0.tar").items())))
    overwrite_keeping_stat(tmp_path / "english-0.tar", (tmp_path / "new.tar").read_bytes())
    with closing(penstock.open(**small_run(tmp_path, batch_size=ITEMS))) as feed:
        assert wrong(feed.batch(0)) == []
