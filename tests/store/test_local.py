import os
import threading
import time
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.blob import Blob, Store
from penstock.store.local import _RECHECK_SECONDS, LocalStore
from penstock.store.remote.remote import ObjectChanged

DATA = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("local")
    (root / "a").mkdir()
    (root / "a" / "b.bin").write_bytes(DATA)
    return root


def test_it_is_what_the_protocols_ask_for(folder: Path) -> None:
    store: Store = LocalStore(folder)
    blob: Blob = store.open("a/b.bin")
    assert blob.size == len(DATA)
    blob.close()
    store.close()


@given(offset=st.integers(0, len(DATA)), size=st.integers(0, 3_000))
def test_a_buffer_is_filled_from_the_offset(folder: Path, offset: int, size: int) -> None:
    blob = LocalStore(folder).open("a/b.bin")
    buffer = bytearray(size)
    if offset + size > len(DATA):
        with pytest.raises(EOFError, match=r"b\.bin"):
            blob.readinto(memoryview(buffer), offset)
    else:
        blob.readinto(memoryview(buffer), offset)
        assert buffer == DATA[offset : offset + size]
    blob.close()


@given(offset=st.integers(0, len(DATA)), size=st.integers(0, 3_000))
def test_a_view_is_of_the_bytes_from_the_offset(folder: Path, offset: int, size: int) -> None:
    blob = LocalStore(folder).open("a/b.bin")
    if offset + size > len(DATA):
        with pytest.raises(EOFError, match=r"b\.bin"):
            blob.view(offset, size)
    else:
        view = blob.view(offset, size)
        blob.close()
        assert view == DATA[offset : offset + size] and view.readonly


def test_a_view_of_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes(DATA)
    blob = LocalStore(tmp_path).open("cut.bin")
    assert blob.view(5_000, 100) == DATA[5_000:5_100]
    os.truncate(path, 5_050)
    time.sleep(_RECHECK_SECONDS)
    with pytest.raises(EOFError, match="was truncated to 5050 bytes"):
        blob.view(5_000, 100)
    blob.close()
    with pytest.raises(ValueError, match="after it was closed"):
        blob.view(0, 1)


def test_a_read_that_comes_in_pieces_is_put_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:100]], offset))
    out = bytearray(1_234)
    LocalStore(folder).open("a/b.bin").readinto(memoryview(out), 7)
    assert out == DATA[7 : 7 + len(out)]


def test_buffers_of_wider_items_are_filled_by_their_bytes(folder: Path) -> None:
    out = numpy.zeros(16, dtype=numpy.float64)
    LocalStore(folder).open("a/b.bin").readinto(memoryview(out), 3)
    assert out.tobytes() == DATA[3 : 3 + out.nbytes]


def test_many_threads_read_one_blob(folder: Path) -> None:
    blob = LocalStore(folder).open("a/b.bin")
    wrong: list[int] = []

    def read(seed: int) -> None:
        for i in range(300):
            offset = (seed * 7919 + i * 104729) % (len(DATA) - 512)
            out = bytearray(512)
            blob.readinto(memoryview(out), offset)
            if out != DATA[offset : offset + 512]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_file_cut_while_open_raises_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes(b"x" * 100)
    blob = LocalStore(tmp_path).open("cut.bin")
    os.truncate(path, 50)
    with pytest.raises(EOFError, match=r"cut\.bin.*truncated at byte 50"):
        blob.readinto(memoryview(bytearray(60)), 40)


def test_the_version_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    store = LocalStore(tmp_path)
    before = store.open("v.bin").version
    assert store.open("v.bin").version == before
    path.write_bytes(b"two")  # the same size, a later time
    assert store.open("v.bin").version != before


def test_the_version_changes_with_a_file_of_the_same_size_and_time_that_is_renamed_over_it(tmp_path: Path) -> None:
    for name in ("v.bin", "new.bin"):
        (tmp_path / name).write_bytes(name[:1].encode())
        os.utime(tmp_path / name, ns=(1, 1))
    store = LocalStore(tmp_path)
    before = store.open("v.bin").version
    (tmp_path / "new.bin").rename(tmp_path / "v.bin")
    assert store.open("v.bin").version != before


def test_the_stamp_of_a_file_changed_just_now_is_that_after_the_next_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    path = tmp_path / "a.bin"
    path.write_bytes(b"0")
    time.sleep(0.05)
    settled = store.stamps(["a.bin"])
    assert settled == [(store.open_file("a.bin").stamp, 1)]
    path.write_bytes(b"1")
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(b"23"))  # within the tick
    assert store.stamps(["a.bin"]) == [(store.open_file("a.bin").stamp, 2)] != settled


def test_a_view_of_a_file_that_was_written_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(DATA)
    blob = LocalStore(tmp_path).open("v.bin")
    assert blob.view(0, 100) == DATA[:100]
    path.write_bytes(bytes(reversed(DATA)))
    os.utime(path, ns=(1, 1))  # whatever the clock's tick
    time.sleep(_RECHECK_SECONDS)
    with pytest.raises(ObjectChanged, match=r"v\.bin: the file was written to while it was open"):
        blob.view(0, 100)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a/..", "a\0b"])
def test_a_path_that_would_leave_the_folder_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(ValueError, match="is refused"):
        LocalStore(folder).open(path)


def test_what_is_missing_or_a_folder_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^/.*/a/missing: no such file \(in store"):
        LocalStore(folder).open("a/missing")
    with pytest.raises(FileNotFoundError, match=r"^/.*/a/b\.bin/c: no such file \(in store"):
        LocalStore(folder).open("a/b.bin/c")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        LocalStore(folder).open("a")


def test_a_read_after_close_raises_and_a_second_close_does_nothing(folder: Path) -> None:
    blob = LocalStore(folder).open("a/b.bin")
    blob.close()
    blob.close()
    with pytest.raises(ValueError, match="after it was closed"):
        blob.readinto(memoryview(bytearray(1)), 0)


def test_a_store_keeps_its_folder_when_the_process_changes_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    store = LocalStore("a")
    monkeypatch.chdir("/")
    assert store.open("b.bin").size == len(DATA)
