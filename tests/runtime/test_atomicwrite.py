"""A file written aside is there whole, or what was there before still is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.runtime.atomicwrite import write_atomically
from tests.smalldisk import small_disk


def test_a_file_appears_when_it_is_whole_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "total.json"
    path.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"one, "
        assert path.read_bytes() == b"old"
        yield b"two"

    write_atomically(path, pieces())
    assert path.read_bytes() == b"one, two"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there_and_the_next_writer_overwrites_what_it_left(tmp_path: Path) -> None:
    path = tmp_path / "total.json"
    write_atomically(path, [b"old"])

    def pieces() -> Iterator[bytes]:
        yield b"half of something longer"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_atomically(path, pieces())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("[!.]*")) == [path], "what is left behind is hidden"
    write_atomically(path, [b"new"])
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_all_bytes_are_synced_before_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, [b"few bytes"], sync=True)
    assert synced == [(9, False)]


def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        write_atomically(disk / "a", [b"old"])
        with pytest.raises(OSError, match="No space left"):
            write_atomically(disk / "a", [bytes(2 << 20)])
        assert [path.name for path in disk.iterdir()] == ["a"] and (disk / "a").read_bytes() == b"old"
