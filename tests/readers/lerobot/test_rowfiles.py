"""Files of rows: which rows are an episode's, and files that can't be read."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.curate.robot.writer import Layout
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.parquet.footer import Footer
from penstock.readers.ranges import Ranges
from penstock.store.local import LocalStore
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import ROWS, edit_table, write_robot

LENGTHS = [5, 3, 4, 6]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_robot(tmp_path / "robot", LENGTHS, layout=Layout(episodes_per_data_file=2))


def files_of(folder: Path, metadata: Path) -> RowFiles:
    store = LocalStore(folder)
    return RowFiles(dataset_of(folder), Ranges(lambda: store), metadata)


def test_rows_are_counted_from_the_first_of_their_file(folder: Path, tmp_path: Path) -> None:
    files = files_of(folder, tmp_path)
    assert [files.span(at, files.footer(at)) for at in range(4)] == [(0, 5), (5, 8), (0, 4), (4, 10)]
    assert [files.first_frame(at, files.footer(at)) for at in range(4)] == [0, 0, 8, 8]
    assert isinstance(files.footer_if_here(3), Footer) and files.bytes_per_row(3) > 0


@pytest.mark.parametrize("damage", ["no statistics", "a gap"])
def test_where_a_file_does_not_tell_its_first_frame_the_episodes_do(folder: Path, tmp_path: Path, damage: str) -> None:
    path = folder / "data/chunk-000/file-001.parquet"
    if damage == "a gap":
        edit_table(folder, "data/chunk-000/file-001.parquet", {"index": {2: 3}})
    else:
        pq.write_table(pq.read_table(path), path, write_statistics=False)
    files = files_of(folder, tmp_path)
    assert files.first_frame(2, files.footer(2)) == 8


@pytest.mark.parametrize("size", [0, 3, 200, -4])
def test_a_truncated_file_is_an_error_of_all_its_episodes_and_nothing_to_fetch(
    folder: Path, tmp_path: Path, size: int
) -> None:
    data = (folder / ROWS).read_bytes()
    (folder / ROWS).write_bytes(data[:size])
    files = files_of(folder, tmp_path)
    for at in (0, 1):
        with pytest.raises(ContentError) as error:
            files.footer(at)
        assert error.value.shard == ROWS and error.value.item is None
        assert files.footer_if_here(at) is None and files.extents(at) == ()
    assert files.footer(2)


def test_a_column_that_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    files = files_of(folder, tmp_path)
    files.require_columns(0, ("action", "index"))
    with pytest.raises(ContentError, match=r"there is no column 'reward', which meta/info\.json names"):
        files.require_columns(0, ("action", "reward"))
