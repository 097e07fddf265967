"""Rows of episodes in memory: read once, kept within a bound, those of neighbours in one row group with them."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from penstock.curate.robot.writer import Layout
from penstock.readers.errors import ContentError
from penstock.readers.lerobot import tables
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lerobot.tables import Tables
from penstock.readers.ranges import Ranges
from penstock.store.local import LocalStore
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import ROWS, edit_table, write_robot

LENGTHS = [5, 3, 4, 6, 2]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, ...]]:
    """Counts reads of row groups."""
    counts: Counter[tuple[int, ...]] = Counter()
    read = tables.read_row_groups

    def counted(ranges: Ranges, path: str, footer: object, groups: range, columns: object) -> object:
        counts[tuple(groups)] += 1
        return read(ranges, path, footer, groups, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "read_row_groups", counted)
    return counts


def tables_of(folder: Path, metadata: Path, capacity: int, chosen: list[int] | None = None) -> Tables:
    dataset = dataset_of(folder)
    store = LocalStore(folder)
    ranges = Ranges(lambda: store)
    files = RowFiles(dataset, ranges, metadata)
    places = np.arange(len(LENGTHS)) if chosen is None else np.array(chosen)
    return Tables(dataset, files, ranges, places, dataset.info.of_kind("values"), capacity)


@pytest.mark.parametrize("rows_per_group", [None, 1, 4, 7, 100])
@pytest.mark.parametrize("episodes_per_file", [2, 100])
def test_every_episode_has_its_rows_whatever_the_row_groups(
    rows_per_group: int | None, episodes_per_file: int, tmp_path: Path
) -> None:
    layout = Layout(rows_per_group=rows_per_group, episodes_per_data_file=episodes_per_file)
    own = tables_of(write_robot(tmp_path / "robot", LENGTHS, layout=layout), tmp_path / "metadata", 2)
    for at in (3, 0, 4, 1, 2, 3):
        rows = own.get(at)
        assert rows["observation.state"].tolist() == [[at, frame] for frame in range(LENGTHS[at])]
        assert rows["frame_index"].tolist() == list(range(LENGTHS[at]))
        assert all(array.base is None or array.base.nbytes <= array.nbytes for array in rows.values()), "copies"


def test_what_is_kept_is_not_read_again(tmp_path: Path, reads: Counter[tuple[int, ...]]) -> None:
    own = tables_of(write_robot(tmp_path / "robot", LENGTHS), tmp_path / "metadata", 2)
    for at in (0, 1, 0, 1, 2, 2):
        own.get(at)
    assert reads == {(0,): 1, (1,): 1, (2,): 1}
    own.get(0)
    assert reads[(0,)] == 2, "two episodes are kept"


def test_neighbours_in_a_row_group_come_with_it_as_far_as_there_is_room(
    tmp_path: Path, reads: Counter[tuple[int, ...]]
) -> None:
    folder = write_robot(tmp_path / "robot", LENGTHS, layout=Layout(rows_per_group=100))
    own = tables_of(folder, tmp_path / "metadata", 10)
    for at in range(len(LENGTHS)):
        own.get(at)
    assert reads.total() == 1
    reads.clear()
    own = tables_of(folder, tmp_path / "metadata", 10, chosen=[0, 2])
    own.get(0)
    own.get(2)
    assert reads.total() == 1
    own.get(1)
    assert reads.total() == 2, "what is not used was not kept"


def test_a_bad_neighbour_is_met_only_by_those_that_ask_for_it(tmp_path: Path) -> None:
    folder = write_robot(tmp_path / "robot", LENGTHS, layout=Layout(rows_per_group=100))
    edit_table(folder, ROWS, {"index": {6: 0}})
    own = tables_of(folder, tmp_path / "metadata", 10)
    assert own.get(0)["index"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ContentError, match="episode 1: its rows hold frames 0 to 7 of the dataset, not 5 to 7"):
        own.get(1)


def test_extents_are_the_row_groups_and_nothing_once_the_rows_are_here(tmp_path: Path) -> None:
    own = tables_of(write_robot(tmp_path / "robot", LENGTHS), tmp_path / "metadata", 10)
    [extent] = own.extents(1)
    assert extent.unit.path == ROWS and extent.end is not None and extent.end > extent.start
    own.get(1)
    assert own.extents(1) == ()
