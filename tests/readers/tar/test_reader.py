"""Records by row: from a plain filelist as from an index, by many threads, with damage told."""

import os
import random
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.readers.errors import ContentError
from penstock.readers.tar.filelist import compile_filelist
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import Manifest
from penstock.readers.tar.reader import Place, TarSource
from penstock.store.local import LocalBlob, LocalStore
from tests.readers.tar.archives import write_tar

SHARDS = [f"{language}/{number}.tar" for language in ("as", "en") for number in range(3)]
CLIPS = 20


def wav(shard: str, clip: int) -> bytes:
    return f"{shard} {clip} ".encode() * (50 + clip)


class Counting(LocalStore):
    """A local store that counts the bytes read from it."""

    read = 0

    def open(self, path: str) -> LocalBlob:
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
def plain(tmp_path: Path, store: Counting) -> Manifest:
    return compile_filelist(tmp_path / "train.tsv", tmp_path / "plain")


@pytest.fixture
def indexed(tmp_path: Path, store: Counting) -> Manifest:
    return index_shards(store, SHARDS, tmp_path / "indexed", filelist=tmp_path / "train.tsv")


def found(source: TarSource, row: int) -> Place:
    [place] = source.look_up([row])
    assert isinstance(place, Place)
    return place


def expected(manifest: Manifest, row: int) -> dict[str, bytes]:
    shard = manifest.shard(int(manifest.shard_of(row))).path
    return {"wav": wav(shard, int(manifest.ids(row)[0].removeprefix("clip"))), "txt": b"x"}


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_every_row_reads_its_own_bytes_from_any_thread(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: Manifest = request.getfixturevalue(kind)
    source = TarSource(store, manifest)

    def work(seed: int) -> None:
        rows = list(range(len(manifest)))
        random.Random(seed).shuffle(rows)
        for row in rows:
            assert source.record(row) == expected(manifest, row)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    source.close()


@pytest.mark.parametrize("kind", ["plain", "indexed"])
def test_a_part_of_a_member_or_one_of_several_is_read_alone(
    store: Counting, kind: str, request: pytest.FixtureRequest
) -> None:
    manifest: Manifest = request.getfixturevalue(kind)
    source = TarSource(store, manifest)
    row = 33
    data = expected(manifest, row)["wav"]
    place = found(source, row)
    blob, members = source.blob(place.shard), {member.ext: member for member in place.members}
    assert {ext: member.size for ext, member in members.items()} == {"wav": len(data), "txt": 1}
    store.read = 0
    part = bytearray(18)
    blob.readinto(memoryview(part), members["wav"].offset + 5)
    assert bytes(part) == data[5:23]
    assert store.read == 18
    assert source.record(row, files=["txt"]) == {"txt": b"x"}
    assert store.read == 19


def test_an_indexed_manifest_reads_only_the_bytes_of_the_record(store: Counting, indexed: Manifest) -> None:
    store.read = 0
    TarSource(store, indexed).record(5)
    assert store.read == sum(len(data) for data in expected(indexed, 5).values())


def test_plain_and_indexed_are_the_same_items_in_the_same_order(plain: Manifest, indexed: Manifest) -> None:
    assert plain.fingerprint == indexed.fingerprint
    rows = range(len(plain))
    assert plain.ids(rows) == indexed.ids(rows)
    assert plain.seconds(rows).tolist() == indexed.seconds(rows).tolist()
    assert plain.microseconds == indexed.microseconds


READ = textwrap.dedent(
    """
    import sys
    from penstock.readers.tar.manifest import Manifest
    from penstock.readers.tar.reader import Place, TarSource
    from penstock.store.local import LocalStore
    data, manifest, shelf = sys.argv[1:]
    source = TarSource(LocalStore(data), Manifest.open(manifest), shelf=shelf)
    for row in range(len(Manifest.open(manifest))):
        source.record(row)
    """
)


def test_what_one_process_learnt_about_a_shard_the_next_need_not_scan(
    tmp_path: Path, store: Counting, plain: Manifest
) -> None:
    shelf = tmp_path / "shelf"
    subprocess.run([sys.executable, "-c", READ, str(store.root), str(plain.path), str(shelf)], check=True)
    source = TarSource(store, plain, shelf=shelf)
    store.read = 0
    assert source.record(3) == expected(plain, 3)
    assert store.read == sum(len(data) for data in expected(plain, 3).values())


def test_a_shard_that_changed_is_scanned_anew(tmp_path: Path, store: Counting, plain: Manifest) -> None:
    assert TarSource(store, plain, shelf=tmp_path / "shelf").record(0) == expected(plain, 0)
    shard, clip = plain.shard(int(plain.shard_of(0))).path, plain.ids(0)[0]
    write_tar(store.root / shard, [("other.wav", b"-" * 999), (f"{clip}.wav", b"new")])
    assert TarSource(store, plain, shelf=tmp_path / "shelf").record(0) == {"wav": b"new"}


def test_a_torn_file_on_the_shelf_is_made_again(tmp_path: Path, store: Counting, plain: Manifest) -> None:
    TarSource(store, plain, shelf=tmp_path / "shelf").record(0)
    (path,) = (tmp_path / "shelf").glob("*.index")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert TarSource(store, plain, shelf=tmp_path / "shelf").record(0) == expected(plain, 0)
    assert path.read_bytes() == whole


def test_an_id_that_its_shard_lacks_is_a_content_error(tmp_path: Path, store: Counting) -> None:
    (tmp_path / "wrong.tsv").write_text("en/0.tar\tclip99\ten\t1\nen/0.tar\tclip1\ten\t1\n")
    source = TarSource(store, compile_filelist(tmp_path / "wrong.tsv", tmp_path / "wrong"))
    with pytest.raises(ContentError, match=r"en/0.tar:clip99: no such sample") as caught:
        source.record(0)
    assert (caught.value.shard, caught.value.item) == ("en/0.tar", "clip99")
    assert source.record(1)["txt"] == b"x"


def test_a_broken_shard_is_a_content_error_each_time(tmp_path: Path, store: Counting, plain: Manifest) -> None:
    shard = plain.shard(int(plain.shard_of(0))).path
    os.truncate(store.root / shard, 5000)
    source = TarSource(store, plain, shelf=tmp_path / "shelf")
    for row in (0, 1, 0):
        with pytest.raises(ContentError, match=f"{shard}: is cut short"):
            source.record(row)


def test_a_flipped_bit_is_found_by_the_checksum(store: Counting, indexed: Manifest) -> None:
    source = TarSource(store, indexed)
    row = 7
    shard = store.root / indexed.shard(int(indexed.shard_of(row))).path
    member = next(member for member in found(source, row).members if member.ext == "wav")
    data = bytearray(shard.read_bytes())
    data[member.offset + 10] ^= 4
    shard.write_bytes(data)
    with pytest.raises(ContentError, match=rf"{indexed.ids(row)[0]}: .wav is damaged"):
        source.record(row)
    assert source.record(row, files=["txt"]) == {"txt": b"x"}


def test_a_shard_of_another_size_than_was_indexed_stops_the_run(store: Counting, indexed: Manifest) -> None:
    shard = store.root / indexed.shard(int(indexed.shard_of(0))).path
    with open(shard, "ab") as file:
        file.write(bytes(512))
    with pytest.raises(OSError, match="when it was indexed; index it again"):
        TarSource(store, indexed).record(0)


def test_a_missing_shard_is_an_io_error_and_not_a_content_error(store: Counting, plain: Manifest) -> None:
    (store.root / plain.shard(int(plain.shard_of(0))).path).unlink()
    with pytest.raises(FileNotFoundError):
        TarSource(store, plain).record(0)


def test_a_shard_is_scanned_once_however_many_threads_wait_for_it(store: Counting, plain: Manifest) -> None:
    alone = TarSource(store, plain)
    store.read = 0
    found(alone, 0)
    once = store.read
    store.read = 0
    source = TarSource(store, plain)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: found(source, row), [0, 1, 2, 3] * 10))
    assert store.read == once


def test_a_forked_child_reads_on_its_own(store: Counting, plain: Manifest) -> None:
    source = TarSource(store, plain)
    source.record(0)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if all(source.record(row) == expected(plain, row) for row in range(len(plain))) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.record(0) == expected(plain, 0)
