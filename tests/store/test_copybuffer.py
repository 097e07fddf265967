"""Pieces of mapped files, copied by the kernel in one call."""

import os
from pathlib import Path

import pytest

from penstock.store.local import CopyBuffer, LocalStore


@pytest.mark.parametrize("count", [0, 1, 3, 2_500])
def test_pieces_lie_one_behind_the_other(count: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 100)
    blob = LocalStore(tmp_path).open("file")
    pieces = [blob.view(10 * number, 7) for number in range(count)]
    copied = CopyBuffer(7 * count)
    copied.memory[:] = b"\xff" * (7 * count)
    copied.put(pieces)
    assert copied.memory == b"".join(pieces)


@pytest.mark.parametrize("whole", [0, 2, 1_100])
def test_what_was_cut_off_is_zeros_and_no_crash(whole: int, tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"x" * 8_192)
    (tmp_path / "cut").write_bytes(b"y" * 81_920)
    store = LocalStore(tmp_path)
    pieces = [store.open("whole").view(0, 4)] * whole + [store.open("cut").view(20_000, 4)] * 3
    copied = CopyBuffer(4 * len(pieces) + 2)
    copied.memory[:] = b"\xff" * len(copied.memory)
    os.truncate(tmp_path / "cut", 100)
    copied.put(pieces)
    assert bytes(copied.memory) == b"x" * (4 * whole) + bytes(12) + b"\xff" * 2, "and nothing else is touched"


def test_no_descriptor_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        CopyBuffer(100).put([b"abc"])
    assert len(os.listdir("/proc/self/fd")) == before
