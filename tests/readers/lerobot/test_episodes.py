"""The table of episodes: one file or several, of one writer or several."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.manifest.errors import ManifestError
from penstock.readers.lerobot.contradictions import contradictions
from penstock.readers.lerobot.dataset import Dataset
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import EPISODES, FPS, edit_info, edit_table, write_robot

LENGTHS = [5, 3, 4]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_robot(tmp_path_factory.mktemp("robot"), LENGTHS, ["top"])


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "robot"))


def faults(dataset: Dataset, chosen: list[int]) -> list[str]:
    problems = contradictions(dataset.episodes, np.array(chosen), dataset.info, dataset.name)
    return [str(problem) for problem in problems.first]


def test_rows_and_seconds_of_every_episode(folder: Path) -> None:
    found = dataset_of(folder)
    episodes = found.episodes
    assert len(episodes) == 3 and episodes.index.tolist() == [0, 1, 2]
    assert episodes.length.tolist() == LENGTHS
    assert (episodes.start.tolist(), episodes.stop.tolist()) == ([0, 5, 8], [5, 8, 12])
    np.testing.assert_allclose(episodes.videos["top"].start, np.array([0, 5, 8]) / FPS)
    np.testing.assert_allclose(episodes.videos["top"].end, np.array([5, 8, 12]) / FPS)
    assert episodes.tasks.to_pylist() == [["task 0"], ["task 1"], ["task 0"]]
    assert list(found.tasks) == ["task 0", "task 1"]
    assert faults(found, [0, 1, 2]) == []


def test_no_thread_is_left_to_be_aborted_at_the_end_of_a_short_process(folder: Path) -> None:
    count = "len(os.listdir('/proc/self/task'))"
    script = (
        f"import os, sys; from tests.readers.lerobot.datasets import dataset_of; from pathlib import Path\n"
        f"before = {count}; dataset_of(Path(sys.argv[1])); print({count} - before)"
    )
    done = subprocess.run([sys.executable, "-c", script, folder], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n"


def test_a_table_in_several_files_is_one_table(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES)
    narrow = table.schema.get_field_index("length")
    for number, (start, length) in enumerate(((0, 1), (1, 2))):
        own = table.slice(start, length)
        if number:  # another writer has another type, and no chunk is full
            own = own.set_column(narrow, "length", own.column("length").cast(pa.int32()))
        pq.write_table(own, folder / f"meta/episodes/chunk-000/file-00{number}.parquet")
    assert dataset_of(folder).episodes.length.tolist() == LENGTHS


def test_files_go_on_in_the_next_chunk_where_a_chunk_is_full(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES)
    (folder / "meta/episodes/chunk-001").mkdir()
    pq.write_table(table.slice(0, 2), folder / EPISODES)
    pq.write_table(table.slice(2), folder / "meta/episodes/chunk-001/file-000.parquet")
    edit_info(folder, lambda info: info.update(chunks_size=1))
    assert dataset_of(folder).episodes.length.tolist() == LENGTHS


def test_only_chosen_episodes_are_checked(folder: Path) -> None:
    edit_table(folder, EPISODES, {"length": {1: 7}})
    found = dataset_of(folder)
    assert len(faults(found, [0, 1, 2])) == 2 and faults(found, [0, 2]) == []
    edit_table(folder, EPISODES, {"length": {1: 3}, "videos/top/from_timestamp": {2: float("nan")}})
    assert len(faults(dataset_of(folder), [0, 1, 2])) == 1


def test_tables_that_do_not_fit_together_are_refused(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES)
    other = table.slice(1).drop_columns(["length"]).append_column("length", pa.array(["a", "b"]))
    pq.write_table(table.slice(0, 1), folder / EPISODES)
    pq.write_table(other, folder / "meta/episodes/chunk-000/file-001.parquet")
    with pytest.raises(ManifestError, match="robot/meta/episodes: the files do not fit together"):
        dataset_of(folder)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("episode_index", [[0], [1], [2]], "has the type list<.*>, but must hold numbers"),
        ("episode_index", ["0", "1", "2"], "has the type string, but must hold numbers"),
        ("length", [5.0, 3.5, 4.0], "row 1 holds 3.5, which int64 can't represent"),
        ("videos/top/file_index", [[0], [0], [0]], "has the type list<.*>, but must hold numbers"),
        ("videos/top/from_timestamp", ["0", "1", "2"], "has the type string, but must hold numbers"),
        ("tasks", ["a", "b", "c"], "has the type string, not texts"),
        ("tasks", [[1], [2], [3]], "has the type list<.*>, not texts"),
    ],
)
def test_columns_of_another_type_are_refused_by_name(
    folder: Path, column: str, values: list[object], message: str
) -> None:
    table = pq.read_table(folder / EPISODES)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, pa.array(values)), folder / EPISODES)
    with pytest.raises(ManifestError, match=f"robot/meta/episodes: the column '{column}':? {message}"):
        dataset_of(folder)


def test_whole_numbers_may_be_stored_as_floats(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES)
    place = table.schema.get_field_index("length")
    pq.write_table(table.set_column(place, "length", pa.array([5.0, 3.0, 4.0])), folder / EPISODES)
    assert dataset_of(folder).episodes.length.tolist() == LENGTHS


@pytest.mark.parametrize("column", ["__index_level_0__", "task"])
def test_tasks_are_found_under_any_name_and_in_any_order(folder: Path, column: str) -> None:
    pq.write_table(pa.table({"task_index": [1, 0], column: ["b", "a"]}), folder / "meta/tasks.parquet")
    assert list(dataset_of(folder).tasks) == ["a", "b"]


@pytest.mark.parametrize("numbers", [[0, None], [0, -1], [0, 1 << 40]])
def test_a_task_without_a_usable_number_is_refused(folder: Path, numbers: list[int | None]) -> None:
    pq.write_table(pa.table({"task_index": numbers, "task": ["a", "b"]}), folder / "meta/tasks.parquet")
    with pytest.raises(ManifestError, match=r"robot/meta/tasks\.parquet: a task has the number "):
        dataset_of(folder)


def test_texts_that_are_no_utf_8_are_damage_of_their_file(folder: Path) -> None:
    damaged = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"task_index": [0], "task": damaged}), folder / "meta/tasks.parquet")
    with pytest.raises(ManifestError, match=r"robot/meta/tasks\.parquet: it can't be read: 'utf-8' codec"):
        dataset_of(folder)


def test_tasks_without_their_columns_are_refused(folder: Path) -> None:
    pq.write_table(pa.table({"task": ["a"]}), folder / "meta/tasks.parquet")
    with pytest.raises(ManifestError, match="the columns are task, not task and task_index"):
        dataset_of(folder)


@pytest.mark.parametrize("path", [EPISODES, "meta/tasks.parquet"])
def test_any_damage_of_a_table_is_an_error_that_names_the_file(folder: Path, path: str) -> None:
    data = (folder / path).read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        at = int(random.integers(len(data) - 200, len(data)))  # the footer
        damaged[at] = int(random.integers(256))
        (folder / path).write_bytes(damaged)
        try:
            dataset_of(folder)
        except ManifestError as error:
            refused += 1
            assert str(error).startswith("robot/meta/") and "\n  " not in str(error)
    assert refused > 10
