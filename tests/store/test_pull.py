import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.store.pull import CONCURRENT_FILES, PIECE_BYTES, PullProgress, check_disk_space, pull
from penstock.store.pulled import PULL_STATE, PulledFolder
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, StoreError
from tests.same_stat import overwrite_keeping_stat
from tests.servers.faultproxy import Rule
from tests.servers.hub import Hub


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and PULL_STATE not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def objects(s3) -> dict[str, bytes]:
    sizes = {"a.bin": 0, "b/c.bin": 1, "b/d e.bin": 70_000, "big.bin": PIECE_BYTES + 12_345}
    made = {key: random.Random(key).randbytes(size) for key, size in sizes.items()}
    for key, data in made.items():
        s3.put(key, data)
    return made


def test_every_object_becomes_a_file_and_a_second_pull_asks_for_no_bytes(s3, proxy, objects, tmp_path: Path) -> None:
    seen: list[PullProgress] = []
    total = sum(map(len, objects.values()))
    result = pull(s3.url, tmp_path / "out", seen.append, s3.through(proxy))
    assert files_in(tmp_path / "out") == objects
    assert result == seen[-1] == PullProgress(4, 4, total, total)
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)
    proxy.clear()
    assert pull(s3.url, tmp_path / "out", options=s3.through(proxy)) == result
    assert [r for r in proxy.log("GET") if r.key] == []


def test_what_is_missing_touched_or_replaced_is_fetched_again_and_nothing_else(
    s3, proxy, objects, tmp_path: Path
) -> None:
    pull(s3.url, tmp_path, options=s3.options)
    (tmp_path / "b" / "c.bin").unlink()
    (tmp_path / "b" / "d e.bin").write_bytes(b"x" * 70_000)
    s3.put("a.bin", b"a new version")
    pull(s3.url, tmp_path, options=s3.through(proxy))
    assert files_in(tmp_path) == objects | {"a.bin": b"a new version"}
    asked = {r.key.removeprefix(s3.prefix + "/") for r in proxy.log("GET") if r.key}
    assert asked == {"b/c.bin", "b/d e.bin", "a.bin"}


def test_a_killed_pull_goes_on_from_its_pieces(s3, proxy, tmp_path: Path) -> None:
    data = random.Random(0).randbytes(5 * PIECE_BYTES)
    s3.put("one.bin", data)
    proxy.rules(Rule("slow", bytes_per_second=20e6))
    code = "import sys; from penstock.store.pull import pull; from penstock.store.remote.options import StoreOptions;"
    code += f"pull({s3.url!r}, {str(tmp_path)!r}, lambda p: print(p.bytes_done, flush=True), {s3.through(proxy)!r})"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 2 * PIECE_BYTES:
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert files_in(tmp_path) == {}, "no torn file is ever in its place"
    proxy.clear()
    pull(s3.url, tmp_path, options=s3.through(proxy))
    assert files_in(tmp_path) == {"one.bin": data}
    assert min(r.start for r in proxy.log("GET") if r.key) >= 2 * PIECE_BYTES
    assert list((tmp_path / PULL_STATE).glob("*.part")) == []


def test_corrupted_bytes_are_noticed_by_the_etag_and_fetched_once_more(s3, proxy, objects, tmp_path: Path) -> None:
    proxy.rules(Rule("corrupt", key="d e", after=5, times=1))
    pull(s3.url, tmp_path, options=s3.through(proxy))
    assert files_in(tmp_path) == objects


def test_bytes_that_stay_wrong_are_an_error_that_names_the_object(tmp_path: Path, monkeypatch) -> None:
    with Hub("org/name", {"x.bin": b"some bytes" * 200}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        pull("hf://datasets/org/name", tmp_path / "right")
        hub.files["x.bin"] = hub.files["x.bin"].replace(b"s", b"z")
        with pytest.raises(StoreError, match=r"x\.bin: downloaded twice, .* sha256"):
            pull("hf://datasets/org/name", tmp_path / "wrong")
        assert files_in(tmp_path / "wrong") == {}


def test_where_no_etag_is_an_md5_everything_comes_and_is_told_to_be_unverified(s3, proxy, tmp_path: Path) -> None:
    """Each object having the same wrong bytes whenever it is read is how an encrypted bucket looks."""
    for number in range(30):
        s3.put(f"{number}.bin", b"ciphertext's hash")
    proxy.rules(Rule("corrupt", after=5))
    done = pull(s3.url, tmp_path, options=s3.through(proxy))
    assert (done.files_done, done.files, done.unverified) == (30, 30, 30)
    assert len([r for r in proxy.log("GET") if r.key]) <= 30 + CONCURRENT_FILES, "not all of them twice to find out"
    assert len(files_in(tmp_path)) == 30
    proxy.clear()
    assert pull(s3.url, tmp_path, options=s3.through(proxy)) == done
    assert [r for r in proxy.log("GET") if r.key] == []


def test_a_rotten_object_among_good_ones_is_an_error_in_every_pull(s3, proxy, objects, tmp_path: Path) -> None:
    for _ in range(3):
        proxy.rules(Rule("corrupt", key="d e", after=5))
        with pytest.raises(StoreError, match=r"b/d e\.bin: .* md5"):
            pull(s3.url, tmp_path, options=s3.through(proxy))
        assert "b/d e.bin" not in files_in(tmp_path)
    proxy.clear()
    assert pull(s3.url, tmp_path, options=s3.through(proxy)).unverified == 0
    assert files_in(tmp_path) == objects


def test_a_rotten_object_is_not_believed_because_it_came_first(s3, proxy, tmp_path: Path) -> None:
    s3.put("a.bin", b"rotten in the store")
    s3.put("b.bin", os.urandom(1_000_000))
    proxy.rules(Rule("corrupt", key="a.bin", after=5), Rule("slow", key="b.bin", bytes_per_second=1e6))
    with pytest.raises(StoreError, match=r"a\.bin: its bytes do not match the store.s md5"):
        pull(s3.url, tmp_path, options=s3.through(proxy))
    assert list(files_in(tmp_path)) == ["b.bin"]


def test_faults_change_nothing_but_time(s3, proxy, objects, tmp_path: Path) -> None:
    proxy.rules(
        Rule("status", probability=0.2),
        Rule("reset", probability=0.2),
        Rule("cut", after=1000, probability=0.2),
        seed=3,
    )
    pull(s3.url, tmp_path, options=s3.through(proxy))
    assert files_in(tmp_path) == objects
    assert {r.fault for r in proxy.log()} > {""}


def test_an_object_that_is_replaced_on_the_way_stops_the_pull(s3, proxy, tmp_path: Path) -> None:
    s3.put("one.bin", os.urandom(2 * PIECE_BYTES))
    done = threading.Event()

    def replace(progress: PullProgress) -> None:
        if progress.bytes_done and not done.is_set():
            done.set()
            s3.put("one.bin", os.urandom(2 * PIECE_BYTES))

    with pytest.raises(StoreError, match=r"one\.bin: the object was replaced"):
        pull(s3.url, tmp_path, replace, s3.options)
    assert files_in(tmp_path) == {}


def test_a_folder_without_objects_is_an_error(s3, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match="no objects there"):
        pull(s3.url, tmp_path, options=s3.options)


def test_a_local_folder_can_be_pulled_too(tmp_path: Path) -> None:
    (tmp_path / "from" / "x").mkdir(parents=True)
    (tmp_path / "from" / "x" / "y").write_bytes(b"local")
    assert pull((tmp_path / "from").as_uri(), tmp_path / "to", options=StoreOptions()).unverified == 1
    assert files_in(tmp_path / "to") == {"x/y": b"local"}


@pytest.mark.parametrize(
    "key", ["../x", "/etc/x", "a/../../x", "a//b", "./a", "a\0b", "x" * 300, f"{PULL_STATE}/done", ""]
)
def test_a_hostile_key_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    here = PulledFolder(tmp_path)
    with pytest.raises(ValueError, match=r"refused|cannot be a file|longer than"):
        here.place(key)
    here.close()


def test_a_file_and_a_folder_of_one_name_are_refused_before_anything_is_fetched(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Hub("org/name", {"a": b"1", "a/b": b"2"}) as hub:
        with pytest.raises(StoreError, match="'a' cannot be both a file and the folder of 'a/b'"):
            pull("hf://datasets/org/name", tmp_path / "out", options=StoreOptions(endpoint=hub.url))
        assert hub.count("/resolve/") == 0


def test_a_second_pull_into_the_folder_at_the_same_time_is_refused(tmp_path: Path) -> None:
    first = PulledFolder(tmp_path)
    with pytest.raises(RuntimeError, match="another pull"):
        PulledFolder(tmp_path)
    first.close()
    PulledFolder(tmp_path).close()


def test_a_note_cut_by_a_kill_is_ignored(tmp_path: Path) -> None:
    info = ObjectInfo(3, "abc")
    here = PulledFolder(tmp_path)
    here.piece("x", info).write_bytes(b"123")
    here.finish("x", info)
    here.close()
    with (tmp_path / PULL_STATE / "done").open("a") as done:
        done.write('["y", 3, "ab')
    again = PulledFolder(tmp_path)
    assert again.has("x", info)
    assert not again.has("y", info)
    again.close()


def test_a_disk_without_room_is_told_in_bytes_before_anything_is_pulled(tmp_path: Path) -> None:
    here = PulledFolder(tmp_path)
    with pytest.raises(OSError, match=r": the pull needs 1,000,000,000,000,000,000 bytes, but only [\d,]+ are free$"):
        check_disk_space(here, {"x": ObjectInfo(10**18, "v1")})
    here.close()


def test_a_file_made_anew_with_the_same_inode_size_and_mtime_is_pulled_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.bin").write_bytes(b"one")
    pull(source.as_uri(), tmp_path / "out")
    overwrite_keeping_stat(source / "a.bin", b"two")
    pull(source.as_uri(), tmp_path / "out")
    assert (tmp_path / "out" / "a.bin").read_bytes() == b"two"
