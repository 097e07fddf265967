"""Checksums of blocks: what is used is checked, what is not used is not."""

from pathlib import Path

import numpy as np
import pytest

from penstock.manifest.checked import BLOCK_BYTES, CheckedFile, Column, block_checksums
from penstock.manifest.errors import ManifestError
from penstock.manifest.sealed import SealedFolder, seal

BLOCKS = 5
NUMBERS = np.arange(BLOCKS * BLOCK_BYTES // 8 - 100, dtype=np.int64)
PER_BLOCK = BLOCK_BYTES // 8


def column(path: Path, damaged_block: int) -> Column[np.int64]:
    path.write_bytes(NUMBERS.tobytes())
    checksums = block_checksums(path)
    assert len(checksums) == BLOCKS
    with open(path, "r+b") as file:
        file.seek(damaged_block * BLOCK_BYTES + 77)
        file.write(b"damage")
    opened = CheckedFile(path, NUMBERS.nbytes, checksums)
    return Column(opened, np.frombuffer(opened.memory, np.int64))


@pytest.mark.parametrize("damaged", range(BLOCKS))
def test_numbers_of_a_damaged_block_are_refused_and_others_returned(tmp_path: Path, damaged: int) -> None:
    numbers = column(tmp_path / "file", damaged)
    for row in (0, PER_BLOCK - 1, PER_BLOCK, 3 * PER_BLOCK + 7, len(NUMBERS) - 1):
        if row // PER_BLOCK == damaged:
            with pytest.raises(ManifestError, match=f"file: damaged between bytes {damaged * BLOCK_BYTES:,} and"):
                numbers.item(row)
            with pytest.raises(ManifestError, match="make it again"):
                numbers.take(np.array([0, row]) if damaged else np.array([row]))
        else:
            assert numbers.item(row) == row and numbers.take(np.array([row, row])).tolist() == [row, row]


def test_a_range_is_checked_in_the_middle_too(tmp_path: Path) -> None:
    numbers = column(tmp_path / "file", 2)
    for start, end, damaged in (
        (0, 2 * PER_BLOCK, False),
        (0, 2 * PER_BLOCK + 1, True),
        (0, 4 * PER_BLOCK + 1, True),
        (3 * PER_BLOCK - 1, 3 * PER_BLOCK, True),
        (3 * PER_BLOCK, len(NUMBERS), False),
        (len(NUMBERS), len(NUMBERS), False),
    ):
        ranges = (np.array([0, start]), np.array([0, end]))
        if damaged:
            with pytest.raises(ManifestError, match="damaged"):
                numbers.ranges(*ranges)
        else:
            assert numbers.ranges(*ranges)[start:end].tolist() == NUMBERS[start:end].tolist()


def test_a_sealed_folder_gives_back_what_was_said_and_its_files(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(bytes(BLOCK_BYTES + 1))
    (tmp_path / "a").write_bytes(b"short")
    seal(tmp_path, {"version": 7, "names": ["ä", "b"], "count": 2**60})
    folder = SealedFolder(tmp_path, 7)
    assert folder.facts["names"] == ["ä", "b"] and folder.facts["count"] == 2**60
    for name in ("a", "b"):
        file = folder.open(name)
        file.check(0, len(file.memory))
        assert bytes(file.memory) == (tmp_path / name).read_bytes()
    with pytest.raises(ManifestError, match="manifest version 7, this release reads 8"):
        SealedFolder(tmp_path, 8)


@pytest.mark.parametrize("text", ["", "[]", "1", "[" * 100_000, '{"version": 7}', '{"version": 7, "digest": []}'])
def test_a_description_of_another_kind_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match=r"manifest.json: .* make the manifest again") as caught:
        SealedFolder(tmp_path, 7)
    assert len(str(caught.value)) < 300
