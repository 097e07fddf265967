"""The node cache as a reader meets it: right bytes, warm starts, no mixed versions, errors that say what to do."""

import os
import pickle
import random
import threading
import time
from pathlib import Path

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.admission import CacheTooSmall
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.disk import CacheDiskError
from penstock.store.remote.remote import ObjectChanged, ObjectMissing
from tests.store.folder_remote import FolderRemote, open_in

PART = 1000


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    return FolderRemote(tmp_path / "bucket")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def cache_of(folder: Path, max_bytes: int = 100_000, patience: float = 0) -> NodeCache:
    return NodeCache(folder, max_bytes, part_bytes=PART, patience=patience)


def read(blob: CachedBlob, start: int = 0, end: int | None = None) -> bytes:
    buffer = bytearray((blob.size if end is None else end) - start)
    blob.readinto(memoryview(buffer), start)
    return bytes(buffer)


def test_random_reads_give_the_objects_bytes(remote: FolderRemote, folder: Path) -> None:
    rng = random.Random(0)
    objects = {f"speech/{i}.tar": remote.put(f"speech/{i}.tar", rng.randbytes(rng.randrange(30_000))) for i in range(9)}
    cache = cache_of(folder, 60_000)
    store = CachedStore(remote, cache)
    for _ in range(300):
        key = rng.choice(list(objects))
        start, end = sorted((rng.randint(0, len(objects[key])), rng.randint(0, len(objects[key]))))
        blob = store.open(key)
        assert read(blob, start, end) == objects[key][start:end]
        blob.close()
    assert maintenance.stat(cache).reserved <= 60_000
    assert cache.counters.mine().evictions > 0


def test_a_read_waits_only_for_its_own_part(remote: FolderRemote, folder: Path) -> None:
    data = remote.put("a", os.urandom(50_500))
    blob = open_in(cache_of(folder), remote, "a")
    assert read(blob, 20_500, 20_600) == data[20_500:20_600]
    assert remote.gets == [("a", 20_000, 21_000)]


def test_a_whole_object_takes_no_more_requests_than_it_has_parts(remote: FolderRemote, folder: Path) -> None:
    data = remote.put("a", os.urandom(50_500))
    blob = open_in(cache_of(folder), remote, "a")
    for start in random.Random(1).sample(range(0, 50_500, 100), 505):
        assert read(blob, start, start + 100) == data[start : start + 100]
    assert len(remote.gets) + len(remote.heads) <= 50_500 / PART + 2
    assert sum(end - start for _, start, end in remote.gets) == 50_500


def test_a_second_run_starts_warm_without_a_request(remote: FolderRemote, folder: Path) -> None:
    data = remote.put("a", os.urandom(5_500))
    known = {"a": remote.info("a")}
    first = CachedStore(remote, cache_of(folder), known)
    blob = first.open("a")
    read(blob)
    blob.close()
    first.close()
    remote.gets.clear()
    blob = CachedStore(remote, cache_of(folder), known).open("a")
    assert read(blob) == data
    assert remote.gets == [] and remote.heads == []


def test_without_a_known_version_the_store_is_asked_once_a_run(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 100)
    store = CachedStore(remote, cache_of(folder))
    for _ in range(3):
        store.open("a").close()
    assert remote.heads == ["a"]


def test_a_replaced_object_is_detected_between_two_ranges(remote: FolderRemote, folder: Path) -> None:
    old = remote.put("a", os.urandom(5_000))
    cache = cache_of(folder)
    blob = open_in(cache, remote, "a")
    assert read(blob, 0, 500) == old[:500]
    new = remote.put("a", os.urandom(5_000))
    with pytest.raises(ObjectChanged, match=r"s3://bucket/pre/a"):
        read(blob, 0, 5_000)
    assert read(blob, 0, 1_000) == old[:1_000], "what was there is still the old version, unmixed"
    assert read(open_in(cache, remote, "a")) == new


def test_an_answer_that_is_too_short_is_detected(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 1_500)
    known = remote.info("a")
    blob = open_in(cache_of(folder), remote, "a", type(known)(2_500, known.etag))
    with pytest.raises(ObjectChanged, match=r"pre/a: bytes 0..2500 of 2500 were requested and 1500 received"):
        read(blob)


def test_a_missing_object_takes_no_room(remote: FolderRemote, folder: Path) -> None:
    cache = cache_of(folder)
    with pytest.raises(ObjectMissing):
        open_in(cache, remote, "nowhere")
    assert maintenance.stat(cache).objects == 0


def test_a_bound_too_small_for_the_working_set_fails_at_the_start(folder: Path) -> None:
    cache = cache_of(folder, 5_000)
    cache.require(5_000)
    with pytest.raises(CacheTooSmall, match=r"the working set of the run needs 5,001: set its size to at least 5,001"):
        cache.require(5_001)


def test_what_is_open_stays_whatever_else_is_read(remote: FolderRemote, folder: Path) -> None:
    data = {key: remote.put(key, os.urandom(3_000)) for key in "abcdef"}
    cache = cache_of(folder, 7_000)
    held = open_in(cache, remote, "a")
    assert read(held) == data["a"]
    for key in "bcdef":
        blob = open_in(cache, remote, key)
        assert read(blob) == data[key]
        blob.close()
    assert read(held) == data["a"]
    assert sum(key == "a" for key, _, _ in remote.gets) == 1


def test_a_blob_that_is_forgotten_is_unpinned(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 3_000)
    cache = cache_of(folder)
    blob = open_in(cache, remote, "a")
    assert maintenance.stat(cache).pinned == 1
    del blob
    assert maintenance.stat(cache).pinned == 0


def test_a_closed_blob_says_so(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 10)
    blob = open_in(cache_of(folder), remote, "a")
    blob.close()
    blob.close()
    with pytest.raises(ValueError, match="pre/a after it was closed"):
        read(blob)


def test_a_read_past_the_end_asks_the_store_for_nothing(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 10)
    with pytest.raises(EOFError, match=r"pre/a: bytes 5..11 requested, but the file has 10"):
        read(open_in(cache_of(folder), remote, "a"), 5, 11)
    assert remote.gets == []


def test_hostile_keys_stay_inside_and_apart(remote: FolderRemote, folder: Path, tmp_path: Path) -> None:
    keys = ["../../escape", "/etc/passwd", "a/../b", "b", "~", "a" * 700, "." * 300, ".penstock/admission", "x\0y"]
    cache = cache_of(folder)
    data = {}
    for number, key in enumerate(keys):
        data[key] = remote.put(f"{number}", os.urandom(1_500))

        class Renamed(FolderRemote):
            def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
                return super().get_range(str(keys.index(key)), start, end, etag)

        blob = open_in(cache, Renamed(remote.folder), key, remote.info(f"{number}"))
        assert read(blob) == data[key]
        assert blob.path.resolve().is_relative_to(folder / "s3" / "bucket")
        blob.close()
    assert maintenance.stat(cache).objects == len(keys)
    assert {path.name for path in tmp_path.iterdir()} == {"bucket", "cache"}


def test_a_forked_child_reads_what_its_parent_opened_and_leaves_the_parents_pin(
    remote: FolderRemote, folder: Path
) -> None:
    data = remote.put("a", os.urandom(9_000))
    cache = cache_of(folder)
    blob = open_in(cache, remote, "a")
    assert read(blob, 0, 4_000) == data[:4_000]
    child = os.fork()
    if child == 0:
        right = read(blob) == data and cache.counters.mine().misses == 1
        blob.close()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert maintenance.stat(cache).pinned == 1
    assert read(blob) == data
    assert remote.gets == [("a", 0, 4_000)], "the child fetched the rest, for both"


def test_a_cache_and_its_store_can_be_sent_to_another_process(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", b"x" * 10)
    again = pickle.loads(pickle.dumps(cache_of(folder)))
    assert (again.root, again.max_bytes, again.part_bytes) == (folder, 100_000, PART)


def test_parts_of_another_size_are_refused_and_no_size_takes_what_is_there(folder: Path) -> None:
    cache_of(folder)
    assert NodeCache(folder, 100).part_bytes == PART
    with pytest.raises(ValueError, match=r"has parts of 1,000 bytes, not 2,000"):
        NodeCache(folder, 100, part_bytes=2_000)


def test_two_caches_side_by_side_know_nothing_of_each_other(remote: FolderRemote, tmp_path: Path) -> None:
    data = remote.put("a", os.urandom(2_000))
    for name in ("one", "two"):
        assert read(open_in(cache_of(tmp_path / name), remote, "a")) == data
    assert len(remote.gets) == 2


def test_threads_that_read_one_object_share_the_download(remote: FolderRemote, folder: Path) -> None:
    data = remote.put("a", os.urandom(30_000))
    cache = cache_of(folder)
    remote.before_get = lambda start, end: time.sleep(0.002)
    wrong = []

    def reader(seed: int) -> None:
        blob = open_in(cache, remote, "a")
        for start in random.Random(seed).sample(range(0, 30_000, 500), 60):
            if read(blob, start, start + 500) != data[start : start + 500]:
                wrong.append(start)
        blob.close()

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sum(end - start for _, start, end in remote.gets) == 30_000
    counts = cache.counters.mine()
    assert counts.hits + counts.misses == 360 and counts.requests == len(remote.gets) and counts.waited_ns > 0


def test_a_folder_of_other_files_is_refused_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "iris.data").write_text("5.1,3.5,1.4,0.2,Iris-setosa")
    (tmp_path / ".penstock" / "manifests").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"contains other files \(uci\); nothing in it was changed"):
        NodeCache(tmp_path, 10)
    assert (tmp_path / "uci" / "iris.data").exists() and not (tmp_path / ".penstock" / "part_bytes").exists()


def test_a_folder_of_notes_alone_or_a_fresh_disk_becomes_a_cache(tmp_path: Path) -> None:
    (tmp_path / ".penstock" / "manifests").mkdir(parents=True)
    (tmp_path / "lost+found").mkdir()
    NodeCache(tmp_path, 10)


def test_files_that_someone_puts_into_a_cache_are_never_evicted(remote: FolderRemote, folder: Path) -> None:
    remote.put("a", os.urandom(500))
    open_in(cache_of(folder), remote, "a").fetch_whole()
    own = [folder / "uci" / "iris.data", folder / "top~1.data", folder / "s3" / "bucket" / "iris.data"]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 5_000)
    (folder / ".penstock" / "boot").write_text("another boot")
    cache = cache_of(folder, max_bytes=1)
    assert maintenance.clear(cache) == (0, 0) and maintenance.stat(cache).objects == 0
    assert all(path.exists() for path in own)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheDiskError, match=rf"cache {tmp_path}/file/below: a file lies where"):
        NodeCache(tmp_path / "file" / "below", 100)


def test_a_cache_that_vanishes_is_named_and_not_made_anew_on_another_disk(remote: FolderRemote, folder: Path) -> None:
    data = {key: remote.put(key, os.urandom(2_500)) for key in "ab"}
    cache = cache_of(folder)
    blob = open_in(cache, remote, "a")
    folder.rename(folder.with_name("elsewhere"))
    assert read(blob) == data["a"], "what is open has its files"
    with pytest.raises(CacheDiskError, match=rf"cache {folder}: the folder is gone"):
        open_in(cache, remote, "b")
    cache.close()
    assert not folder.exists()


def test_verify_finds_a_flipped_byte_and_clear_leaves_what_is_in_use(remote: FolderRemote, folder: Path) -> None:
    for key in "abc":
        remote.put(key, os.urandom(2_500))
    cache = cache_of(folder)
    blobs = {key: open_in(cache, remote, key) for key in "abc"}
    read(blobs["a"])
    read(blobs["b"])
    assert maintenance.verify(cache) == maintenance.VerifyResult(good=2, incomplete=1, unchecked=0, bad=())
    with blobs["b"].path.open("r+b") as file:
        file.seek(1_234)
        byte = file.read(1)
        file.seek(1_234)
        file.write(bytes([byte[0] ^ 1]))
    assert maintenance.verify(cache) == maintenance.VerifyResult(
        good=1, incomplete=1, unchecked=0, bad=(str(blobs["b"].path),)
    )
    cache.close()
    blobs["a"].close()
    blobs["b"].close()
    assert maintenance.clear(cache) == (5_000, 2_500)
    assert maintenance.stat(cache).objects == 1
