"""Records by row: from a plain filelist as from an index, by many threads, with damage told."""

import os
import pickle
import random
import subprocess
import sys
import textwrap
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from penstock.readers.errors import ContentError
from penstock.readers.tar.filelist import compile_filelist
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import Place, TarReader
from penstock.store.extents import Extent, Unit
from penstock.store.local import LocalBlob, LocalStore
from penstock.store.remote.remote import ObjectChanged
from tests.readers.tar.archives import write_tar
from tests.readers.tar.records import place_of, read_record, reader_of, uses_of

SHARDS = [f"{language}/{number}.tar" for language in ("as", "en") for number in range(3)]
CLIPS = 20


def wav(shard: str, clip: int) -> bytes:
    return f"{shard} {clip} ".encode() * (50 + clip)


class Counting(LocalStore):
    """A local store that counts the bytes read from it."""

    read = 0

    def open_file(self, path: str) -> LocalBlob:
        store = self

        class Counted(LocalBlob):
            def readinto(self, buffer: memoryview, offset: int) -> None:
                store.read += buffer.nbytes
                super().readinto(buffer, offset)

        return Counted(self.root / path)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    lines = []
    for shard in SHARDS:
        files = [
            (f"clip{n}.{ext}", data) for n in range(CLIPS) for ext, data in (("wav", wav(shard, n)), ("txt", b"x"))
        ]
        write_tar(tmp_path / "data" / shard, files)
        # Not in byte order: an index with this filelist must keep its order.
        lines += [f"{shard}\tclip{n}\t{shard[:2]}\t{n + 1}\n" for n in reversed(range(CLIPS))]
    (tmp_path / "train.tsv").write_text("".join(lines))
    return Counting(tmp_path / "data")


@pytest.fixture
def plain(tmp_path: Path, store: Counting) -> TarManifest:
    return compile_filelist(tmp_path / "train.tsv", tmp_path / "plain")


@pytest.fixture
def indexed(tmp_path: Path, store: Counting) -> TarManifest:
    return index_shards(store, SHARDS, tmp_path / "indexed", filelist=tmp_path / "train.tsv")


def expected(manifest: TarManifest, row: int) -> dict[str, bytes]:
    shard = manifest.shard(int(manifest.shard_of(row))).path
    return {"wav": wav(shard, int(manifest.ids(row)[0].removeprefix("clip"))), "txt": b"x"}


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_every_row_reads_its_own_bytes_from_any_thread(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: TarManifest = request.getfixturevalue(kind)
    reader = reader_of(store, manifest)

    def work(seed: int) -> None:
        rows = list(range(len(manifest)))
        random.Random(seed).shuffle(rows)
        for row in rows:
            assert read_record(reader, manifest, row) == expected(manifest, row)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    reader.close()


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_a_part_of_a_member_or_one_of_several_is_read_alone(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: TarManifest = request.getfixturevalue(kind)
    reader = reader_of(store, manifest)
    row = 33
    data = expected(manifest, row)["wav"]
    [record] = reader.read([place_of(reader, manifest, row)])
    assert {ext: file.size for ext, file in record.items()} == {"wav": len(data), "txt": 1}
    record["wav"].readinto(memoryview(bytearray(1)), 0)  # with an index, the first file of a shard is verified
    store.read = 0
    part = bytearray(18)
    record["wav"].readinto(memoryview(part), 5)
    assert bytes(part) == data[5:23]
    assert store.read == 18
    assert record["txt"].read() == b"x"
    assert store.read == 19


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_only_the_files_that_were_asked_for_are_there_and_an_item_with_none_of_them_is_told(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: TarManifest = request.getfixturevalue(kind)
    assert read_record(reader_of(store, manifest, ["txt", "json"]), manifest, 33) == {"txt": b"x"}
    reader = reader_of(store, manifest, ["flac", "mp3"])
    with pytest.raises(ContentError, match=r"as/1.tar: has wav, txt, but none of flac, mp3"):
        place_of(reader, manifest, 33)


def test_an_indexed_manifest_reads_only_the_bytes_of_the_record(store: Counting, indexed: TarManifest) -> None:
    store.read = 0
    read_record(reader_of(store, indexed), indexed, 5)
    assert store.read == sum(len(data) for data in expected(indexed, 5).values())


def test_plain_and_indexed_are_the_same_items_in_the_same_order(plain: TarManifest, indexed: TarManifest) -> None:
    assert plain.sources == indexed.sources
    assert plain.fingerprints == indexed.fingerprints
    rows = range(len(plain))
    assert plain.ids(rows) == indexed.ids(rows)
    assert plain.seconds(rows).tolist() == indexed.seconds(rows).tolist()
    assert plain.amounts == indexed.amounts


READ = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from penstock.readers.tar.manifest import TarManifest
    from penstock.readers.tar.reader import TarReader
    from penstock.store.local import LocalStore
    from tests.readers.tar.records import read_record
    data, manifest, metadata = map(Path, sys.argv[1:])
    manifest = TarManifest(manifest)
    reader = TarReader(manifest, lambda: LocalStore(data), metadata=metadata)
    for row in range(len(manifest)):
        read_record(reader, manifest, row)
    """
)


def reader_from_disk(tmp_path: Path, store: Counting, manifest: TarManifest) -> TarReader:
    """A new reader, which knows only what is in the metadata cache."""
    return TarReader(manifest, lambda: store, metadata=tmp_path / "metadata")


def test_what_one_process_learnt_about_a_shard_the_next_need_not_scan(
    tmp_path: Path, store: Counting, plain: TarManifest
) -> None:
    arguments = [str(store.root), str(plain.path), str(tmp_path / "metadata")]
    subprocess.run([sys.executable, "-c", READ, *arguments], cwd=Path(__file__).parents[3], check=True)
    store.read = 0
    assert read_record(reader_from_disk(tmp_path, store, plain), plain, 3) == expected(plain, 3)
    assert store.read == sum(len(data) for data in expected(plain, 3).values())


def test_a_shard_that_changed_is_scanned_anew(tmp_path: Path, store: Counting, plain: TarManifest) -> None:
    assert read_record(reader_from_disk(tmp_path, store, plain), plain, 0) == expected(plain, 0)
    shard = plain.shard(int(plain.shard_of(0))).path
    clip = plain.ids(0)[0]
    write_tar(store.root / shard, [("other.wav", b"-" * 999), (f"{clip}.wav", b"new")])
    assert read_record(reader_from_disk(tmp_path, store, plain), plain, 0) == {"wav": b"new"}


def test_a_torn_file_in_the_metadata_cache_is_made_again(tmp_path: Path, store: Counting, plain: TarManifest) -> None:
    read_record(reader_from_disk(tmp_path, store, plain), plain, 0)
    (path,) = (tmp_path / "metadata").glob("*.learnt")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert read_record(reader_from_disk(tmp_path, store, plain), plain, 0) == expected(plain, 0)
    assert path.read_bytes() == whole


def test_an_id_that_its_shard_lacks_is_a_content_error(tmp_path: Path, store: Counting) -> None:
    (tmp_path / "wrong.tsv").write_text("en/0.tar\tclip99\ten\t1\nen/0.tar\tclip1\ten\t1\n")
    manifest = compile_filelist(tmp_path / "wrong.tsv", tmp_path / "wrong")
    reader = reader_of(store, manifest)
    with pytest.raises(ContentError, match=r"en/0.tar:clip99: no such sample") as caught:
        read_record(reader, manifest, 0)
    assert (caught.value.shard, caught.value.item) == ("en/0.tar", "clip99")
    assert read_record(reader, manifest, 1)["txt"] == b"x"


def test_what_is_wrong_with_an_item_leaves_the_others_in_place(tmp_path: Path, store: Counting) -> None:
    (tmp_path / "wrong.tsv").write_text("".join(f"en/0.tar\tclip{n}\ten\t1\n" for n in (3, 99, 1)))
    manifest = compile_filelist(tmp_path / "wrong.tsv", tmp_path / "wrong")
    first, wrong, last = reader_of(store, manifest).locate(uses_of(manifest, [0, 1, 2]))
    assert isinstance(wrong, ContentError)
    assert isinstance(first, Place) and isinstance(last, Place)
    assert first.members[0].offset > last.members[0].offset, "the fourth clip and the second"


def test_a_broken_shard_is_a_content_error_each_time_and_is_scanned_once(
    tmp_path: Path, store: Counting, plain: TarManifest
) -> None:
    shard = plain.shard(int(plain.shard_of(0))).path
    os.truncate(store.root / shard, 5000)
    reader = reader_from_disk(tmp_path, store, plain)
    scanned = set()
    for row in (0, 1, 0):
        with pytest.raises(ContentError, match=f"{shard}: is cut short"):
            read_record(reader, plain, row)
        reader.close()
        scanned.add(store.read)
    assert len(scanned) == 1 and 0 not in scanned


class SameVersion(LocalStore):
    """A store whose objects all have the same version, as copies with the same mtime once had."""

    def open_file(self, path: str) -> LocalBlob:
        blob = super().open_file(path)
        blob._version = "v1"
        return blob


def test_what_was_learnt_of_a_shard_is_not_used_for_its_namesake_in_another_store(
    tmp_path: Path, store: Counting, plain: TarManifest
) -> None:
    for shard in SHARDS:  # the same clips, the other way round
        files = [
            (f"clip{n}.{ext}", data)
            for n in reversed(range(CLIPS))
            for ext, data in (("wav", wav(shard, n)), ("txt", b"x"))
        ]
        write_tar(tmp_path / "other" / shard, files)
    for root in (store.root, tmp_path / "other", store.root):
        reader = TarReader(plain, partial(SameVersion, root), metadata=tmp_path / "metadata")
        for row in range(len(plain)):
            assert read_record(reader, plain, row) == expected(plain, row)
    assert len(list((tmp_path / "metadata").glob("*.learnt"))) == 2 * len(SHARDS)


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_a_shard_that_is_replaced_by_rename_is_an_error_when_it_is_opened_again(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: TarManifest = request.getfixturevalue(kind)
    reader = reader_of(store, manifest)
    rows = range(len(manifest))
    for row in rows:
        read_record(reader, manifest, row)
    path = store.root / SHARDS[0]
    before = path.stat()
    files = [
        (f"clip{n}.{ext}", data)
        for n in reversed(range(CLIPS))
        for ext, data in (("wav", wav(SHARDS[0], n)), ("txt", b"x"))
    ]
    write_tar(path.with_suffix(".new"), files)
    assert path.with_suffix(".new").stat().st_size == before.st_size
    os.utime(path.with_suffix(".new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_suffix(".new").rename(path)
    assert read_record(reader, manifest, 0) == expected(manifest, 0), "the old one is still open"
    reader.close()
    for row in rows:
        if manifest.shard(int(manifest.shard_of(row))).path == SHARDS[0]:
            with pytest.raises(ObjectChanged, match=r"as/0.tar: was replaced during the run .* start the run again"):
                read_record(reader, manifest, row)
        else:
            assert read_record(reader, manifest, row) == expected(manifest, row)
    if kind == "plain":
        assert read_record(reader_of(store, manifest), manifest, 0) == expected(manifest, 0), (
            "a new run uses the new one"
        )


def test_a_flipped_bit_is_found_by_the_checksum(store: Counting, indexed: TarManifest) -> None:
    reader = reader_of(store, indexed)
    row = 7
    place = place_of(reader, indexed, row)
    shard = store.root / place.shard.path
    member = next(member for member in place.members if member.ext == "wav")
    data = bytearray(shard.read_bytes())
    data[member.offset + 10] ^= 4
    shard.write_bytes(data)
    with pytest.raises(ContentError, match=r"\.wav is damaged"):
        read_record(reader, indexed, row)
    assert read_record(reader_of(store, indexed, ["txt"]), indexed, row) == {"txt": b"x"}


def test_a_shard_of_another_size_than_was_indexed_stops_the_run(store: Counting, indexed: TarManifest) -> None:
    shard = store.root / indexed.shard(int(indexed.shard_of(0))).path
    with open(shard, "ab") as file:
        file.write(bytes(512))
    with pytest.raises(OSError, match="when it was indexed; index it again"):
        read_record(reader_of(store, indexed), indexed, 0)


def test_a_missing_shard_is_an_io_error_and_not_a_content_error(store: Counting, plain: TarManifest) -> None:
    (store.root / plain.shard(int(plain.shard_of(0))).path).unlink()
    with pytest.raises(FileNotFoundError):
        read_record(reader_of(store, plain), plain, 0)


def test_a_shard_is_scanned_once_however_many_threads_wait_for_it(store: Counting, plain: TarManifest) -> None:
    alone = reader_of(store, plain)
    store.read = 0
    place_of(alone, plain, 0)
    once = store.read
    store.read = 0
    reader = reader_of(store, plain)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: place_of(reader, plain, row), [0, 1, 2, 3] * 10))
    assert store.read == once


def test_a_forked_child_reads_on_its_own(store: Counting, plain: TarManifest) -> None:
    reader = reader_of(store, plain)
    read_record(reader, plain, 0)
    child = os.fork()
    if child == 0:
        try:
            right = all(read_record(reader, plain, row) == expected(plain, row) for row in range(len(plain)))
            os._exit(0 if right else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_record(reader, plain, 0) == expected(plain, 0)


def test_another_process_gets_a_reader_that_opens_files_for_itself(store: Counting, plain: TarManifest) -> None:
    reader = TarReader(plain, partial(LocalStore, store.root), ["wav"])
    read_record(reader, plain, 0)
    pickled = pickle.dumps(reader)
    assert len(pickled) < 2_000
    copy = pickle.loads(pickled)
    assert read_record(copy, plain, 5) == {"wav": expected(plain, 5)["wav"]}


def test_a_reader_that_is_dropped_keeps_nothing_open(store: Counting, indexed: TarManifest) -> None:
    reader = reader_of(store, indexed)
    reader.wants(uses_of(indexed, [0, 1]))
    read_record(reader, indexed, 0)
    dropped = weakref.ref(reader)
    del reader
    assert dropped() is None, "at once, not when garbage is collected"


def test_the_store_is_opened_when_bytes_are_first_needed(plain: TarManifest) -> None:
    def not_yet() -> LocalStore:
        raise AssertionError("opened")

    reader = TarReader(plain, not_yet)
    assert reader.names(uses_of(plain, [0, 1])) == plain.ids([0, 1])
    assert reader.find("as/1.tar:clip6", epoch=3) == [33]
    reader.close()
    with pytest.raises(AssertionError, match="opened"):
        reader.wants(uses_of(plain, 0))


def test_an_indexed_manifest_wants_the_bytes_of_the_items_and_no_others(store: Counting, indexed: TarManifest) -> None:
    reader = reader_of(store, indexed)
    rows = [33, 5, 33, 119]
    for row, [extent] in zip(rows, reader.wants(uses_of(indexed, rows)), strict=True):
        place = place_of(reader, indexed, row)
        assert extent.unit == Unit(store, place.shard.path)
        assert extent.start == min(member.offset for member in place.members)
        assert extent.end == max(member.offset + member.size for member in place.members)


def test_of_a_shard_that_was_never_scanned_all_is_wanted(store: Counting, plain: TarManifest) -> None:
    reader = reader_of(store, plain)
    wanted = reader.wants(uses_of(plain, [33, 5]))
    assert wanted == [(Extent(Unit(store, shard), 0, None),) for shard in ("as/1.tar", "as/0.tar")]
    assert store.read == 0, "it never waits"


def test_the_shard_of_a_resident_group_is_kept_and_nothing_is_fetched_for_it(
    store: Counting, indexed: TarManifest
) -> None:
    assert reader_of(store, indexed).resident(1, 2) == (Extent(Unit(store, "en/2.tar"), 0, 0),)
