"""Checksums of blocks: what is used is checked, what is not used is not."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.manifest.checked import BLOCK_BYTES, CheckedFile, CheckedRows, block_checksums
from penstock.manifest.errors import ManifestError
from penstock.manifest.sealed import SealedFolder, seal

BLOCKS = 5
NUMBERS = np.arange(BLOCKS * BLOCK_BYTES // 8 - 100, dtype=np.int64)
PER_BLOCK = BLOCK_BYTES // 8


def numbers_of(path: Path, damaged_block: int) -> tuple[CheckedFile, NDArray[np.int64]]:
    path.write_bytes(NUMBERS.tobytes())
    checksums = block_checksums(path)
    assert len(checksums) == BLOCKS
    with open(path, "r+b") as file:
        file.seek(damaged_block * BLOCK_BYTES + 77)
        file.write(b"damage")
    opened = CheckedFile(path, NUMBERS.nbytes, checksums)
    return opened, np.frombuffer(opened.memory, np.int64)


@pytest.mark.parametrize("damaged", range(BLOCKS))
def test_numbers_of_a_damaged_block_are_refused_and_others_are_not(tmp_path: Path, damaged: int) -> None:
    file, numbers = numbers_of(tmp_path / "file", damaged)
    ends = [0, 1, PER_BLOCK - 1, PER_BLOCK, 2 * PER_BLOCK + 1, 4 * PER_BLOCK, 4 * PER_BLOCK + 9, len(NUMBERS)]
    for start, end in itertools.combinations_with_replacement(ends, 2):
        if start < end and start < (damaged + 1) * PER_BLOCK and end > damaged * PER_BLOCK:
            with pytest.raises(
                ManifestError, match=f"file: damaged between bytes {damaged * BLOCK_BYTES:,} and .* again"
            ):
                file.check_array(numbers[start:end])
        else:
            file.check_array(numbers[start:end])


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1_000])
def test_rows_are_checked_once_and_with_them_their_neighbours(count: int) -> None:
    checked: list[tuple[int, int]] = []
    rows = CheckedRows(count, lambda first, after: checked.append((first, after)))
    for _ in range(2):
        rows.use(np.array([0, count - 1, 0]))
    assert checked == sorted({(0, min(256, count)), ((count - 1) // 256 * 256, count)})
    rows.use(np.arange(count))
    assert sorted(row for first, after in checked for row in range(first, after)) == list(range(count))


def test_rows_that_are_damaged_are_told_each_time() -> None:
    def check(first: int, after: int) -> None:
        if first == 256:
            raise ManifestError("damaged")

    rows = CheckedRows(1_000, check)
    for _ in range(2):
        rows.use(np.array([0, 999]))
        with pytest.raises(ManifestError, match="damaged"):
            rows.use(np.array([0, 300]))


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
