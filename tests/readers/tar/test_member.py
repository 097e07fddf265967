"""Files in a tar: read in part or whole, and verified where they came from afar."""

import shutil
from pathlib import Path

import pytest

from penstock.readers.errors import ContentError
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.member import MemberFile
from penstock.store.blob import Store
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.entry import CacheEntry
from penstock.store.local import LocalBlob, LocalStore
from tests.readers.tar.archives import write_tar
from tests.readers.tar.records import place_of, reader_of
from tests.same_stat import overwrite_keeping_stat
from tests.store.folder_remote import FolderRemote

DATA = bytes(number * 7 % 251 for number in range(10_000))
PART = 1_000


class Hasty(FolderRemote):
    """A store whose next answer arrives with a flipped bit."""

    damage_next = False

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        data = bytearray(super().get_range(key, start, end, etag))
        if self.damage_next:
            data[len(data) // 2] ^= 1
        self.damage_next = False
        return memoryview(data)


@pytest.fixture
def remote(tmp_path: Path) -> Hasty:
    write_tar(tmp_path / "bucket" / "en" / "0.tar", [("first.wav", b"-" * 5_000), ("clip.wav", DATA)])
    return Hasty(tmp_path / "bucket")


@pytest.fixture
def manifest(tmp_path: Path, remote: Hasty) -> TarManifest:
    return index_shards(LocalStore(remote.folder), ["en/0.tar"], tmp_path / "indexed")


def cached(tmp_path: Path, remote: Hasty) -> CachedStore:
    return CachedStore(remote, NodeCache(tmp_path / "cache", 1_000_000, part_bytes=PART))


def the_clip(store: Store, manifest: TarManifest) -> MemberFile:
    reader = reader_of(store, manifest)
    [record] = reader.read([place_of(reader, manifest, 1)])
    assert isinstance(record, dict)
    return record["wav"]


def part(file: MemberFile, offset: int, size: int) -> bytes:
    buffer = bytearray(size)
    file.readinto(memoryview(buffer), offset)
    return bytes(buffer)


def flip(remote: Hasty, at: int) -> None:
    """Damage one byte of the clip where it lies."""
    path = remote.folder / "en" / "0.tar"
    whole = bytearray(path.read_bytes())
    whole[whole.index(DATA) + at] ^= 1
    path.write_bytes(whole)


def test_of_what_came_from_afar_the_whole_file_is_verified_once_per_download(
    tmp_path: Path, remote: Hasty, manifest: TarManifest
) -> None:
    store = cached(tmp_path, remote)
    counters = store.cache.counters
    assert part(the_clip(store, manifest), 100, 18) == DATA[100:118]
    assert counters.mine().bytes_read == len(DATA) + 18
    assert part(the_clip(store, manifest), 4_000, 18) == DATA[4_000:4_018]
    assert counters.mine().bytes_read == len(DATA) + 18 + 18
    maintenance.clear(store.cache)
    assert part(the_clip(store, manifest), 100, 18) == DATA[100:118]
    assert counters.mine().bytes_read == 2 * (len(DATA) + 18) + 18


def test_damage_anywhere_in_a_file_from_afar_is_met_by_who_reads_a_part_of_it(
    tmp_path: Path, remote: Hasty, manifest: TarManifest
) -> None:
    flip(remote, 9_000)
    file = the_clip(cached(tmp_path, remote), manifest)
    for _ in range(2):
        with pytest.raises(ContentError, match=r"en/0.tar: .wav is damaged: its checksum is not the one in the"):
            part(file, 0, 10)
        with pytest.raises(ContentError, match="damaged"):
            file.read()


def test_damage_done_on_the_way_is_undone(tmp_path: Path, remote: Hasty, manifest: TarManifest) -> None:
    store = cached(tmp_path, remote)
    remote.damage_next = True
    assert part(the_clip(store, manifest), 0, 10_000) == DATA
    assert the_clip(store, manifest).read() == DATA


def test_of_a_copy_of_what_was_indexed_every_file_is_verified_once_per_open(
    tmp_path: Path, remote: Hasty, manifest: TarManifest
) -> None:
    shutil.copytree(remote.folder, tmp_path / "copy")
    copy = Hasty(tmp_path / "copy")
    assert part(the_clip(LocalStore(copy.folder), manifest), 5, 10) == DATA[5:15]
    flip(copy, 9_000)
    store = LocalStore(copy.folder)
    reader = reader_of(store, manifest)
    [first, clip] = [record["wav"] for record in reader.read([place_of(reader, manifest, row) for row in (0, 1)])]
    for _ in range(2):
        assert part(first, 0, 5) == b"-----"
        for use in (lambda: part(clip, 0, 5), clip.in_place, clip.read):
            with pytest.raises(ContentError, match=r"damaged: .* is not the file that was indexed: .* index it again"):
                use()


def test_of_the_very_file_that_was_indexed_one_file_is_verified_per_open(remote: Hasty, manifest: TarManifest) -> None:
    reader = reader_of(LocalStore(remote.folder), manifest)
    [first, clip] = [record["wav"] for record in reader.read([place_of(reader, manifest, row) for row in (0, 1)])]
    assert part(first, 0, 5) == b"-----"
    blob = clip.blobs.get(clip.shard.path)
    assert isinstance(blob, LocalBlob) and blob.is_checked(clip.member.offset, clip.member.offset + clip.member.size)
    assert clip.in_place() == DATA


def test_of_a_file_made_anew_with_the_same_inode_size_and_mtime_every_file_is_verified(
    remote: Hasty, manifest: TarManifest
) -> None:
    path = remote.folder / "en" / "0.tar"
    data = bytearray(path.read_bytes())
    data[9_000] ^= 1
    overwrite_keeping_stat(path, bytes(data))
    store = LocalStore(remote.folder)
    reader = reader_of(store, manifest)
    [first, clip] = [record["wav"] for record in reader.read([place_of(reader, manifest, row) for row in (0, 1)])]
    assert first.in_place() == b"-" * 5_000
    for use in (lambda: part(clip, 0, 5), clip.in_place, clip.read):
        with pytest.raises(ContentError, match=r"damaged: .* is not the file that was indexed: .* index it again"):
            use()
    assert first.in_place() == b"-" * 5_000


def test_only_a_local_file_is_seen_where_it_lies(tmp_path: Path, remote: Hasty, manifest: TarManifest) -> None:
    assert the_clip(LocalStore(remote.folder), manifest).in_place() == DATA
    assert the_clip(cached(tmp_path, remote), manifest).in_place() is None


def test_a_record_holds_nothing_open(tmp_path: Path, remote: Hasty, manifest: TarManifest) -> None:
    store = cached(tmp_path, remote)
    reader = reader_of(store, manifest)
    [record] = reader.read([place_of(reader, manifest, 1)])
    assert isinstance(record, dict)
    record["wav"].read()
    reader.close()
    assert maintenance.stat(store.cache).pinned == 0
    assert record["wav"].read() == DATA, "it is opened again"


def test_a_copy_that_stays_wrong_after_its_repair_is_a_content_error(
    tmp_path: Path, remote: Hasty, manifest: TarManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = the_clip(cached(tmp_path, remote), manifest)
    remote.damage_next = True
    monkeypatch.setattr(CacheEntry, "repair", lambda *_: None)
    with pytest.raises(ContentError, match="checksum"):
        clip.read()
