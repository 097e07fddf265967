"""Folders whose files are found without the ``datasets`` package: the same files, in the same order."""

import os
from pathlib import Path

import pytest

from penstock.pipelines import chat_hub
from tests.pipelines.chat_sources import KINDS, records

NAMES = ("b", "a", "10", "9", "Z x", "ä", "A-1", "a.b")


@pytest.mark.parametrize("kind", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_a_plain_folder_has_the_files_that_the_package_finds(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "test-of-folders"
    folder.mkdir()
    for name in (*NAMES, ".hidden"):
        (folder / f"{name}{Path(kind).suffix}").write_bytes(KINDS[kind](records(2)))
    found = chat_hub._split_of(str(folder), None, "train", None)
    assert chat_hub._plain_folder(str(folder)) == tuple(os.path.relpath(file, folder) for file in found.files)


@pytest.mark.parametrize(
    "other", ["test.jsonl", "my_eval-1.jsonl", "c.csv", "README.md", "metadata.jsonl", "c.jsonl.gz", "sub/c.jsonl"]
)
def test_other_folders_are_left_to_the_package(other: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert chat_hub._plain_folder(str(tmp_path)) == ("a.jsonl",)
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_text("{}\n")
    assert chat_hub._plain_folder(str(tmp_path)) == ()
