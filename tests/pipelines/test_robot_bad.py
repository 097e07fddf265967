"""Bad robot datasets, as a user meets them: at open where ``meta/`` tells, else as bad samples, and all in `index`."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import penstock
from penstock import ContentError
from penstock.config import ConfigError
from penstock.curate.robot.writer import Layout
from penstock.manifest.errors import ManifestError
from penstock.media.video.encoding import Encoding, write_video
from tests.cli.commands import run
from tests.robots import EPISODES, FPS, ROWS, edit_info, edit_table, shown, shown_number, write_robot
from tests.videos import clip_of

LENGTHS = (6, 7, 6, 5, 6, 7, 5, 6)  # two episodes per file
TOP = "videos/top/chunk-000/file-000.mp4"

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = Layout(episodes_per_data_file=2, episodes_per_video_file=2)
    return write_robot(tmp_path_factory.mktemp("good"), LENGTHS, ["top"], layout=layout)


def copy_of(folder: Path, to: Path, damage: Damage) -> Path:
    copy = Path(shutil.copytree(folder, to / "copy"))
    damage(copy)
    return copy


def truncate(path: str, size: int) -> Damage:
    """Return what cuts bytes off the end of a file (negative), or leaves some (positive)."""

    def damage(folder: Path) -> None:
        data = (folder / path).read_bytes()
        (folder / path).write_bytes(data[:size])

    return damage


def info(change: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda folder: edit_info(folder, change)


def table(path: str, **changes: dict[int, Any]) -> Damage:
    named = {key.replace("__", "/"): values for key, values in changes.items()}
    return lambda folder: edit_table(folder, path, named)


def a_longer_episode(folder: Path) -> None:
    """Say everywhere in ``meta/`` that the last episode has a frame more than it has."""
    edit_table(
        folder,
        EPISODES,
        {
            "length": {7: 7},
            "dataset_to_index": {7: sum(LENGTHS) + 1},
            "videos/top/to_timestamp": {7: (LENGTHS[6] + 7) / FPS},
        },
    )
    edit_info(folder, lambda raw: raw.update(total_frames=sum(LENGTHS) + 1))


def replace(path: str, old: bytes, new: bytes) -> Damage:
    """Replace bytes of a file by others."""
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes().replace(old, new))


def later(frames: int) -> Damage:
    """Let meta/ say that episode 1 begins and ends later in its video than it does."""
    first = LENGTHS[0] + frames
    times = {"from": first / FPS, "to": (first + LENGTHS[1]) / FPS}
    return table(EPISODES, **{f"videos__top__{end}_timestamp": {1: time} for end, time in times.items()})


def a_short_edit_list(folder: Path) -> None:
    """Let the edit list of a video end after 0.2 s."""
    data = bytearray((folder / TOP).read_bytes())
    duration = data.index(b"elst") + 12
    data[duration : duration + 4] = (200).to_bytes(4, "big")
    (folder / TOP).write_bytes(data)


def video_like(key: str) -> Damage:
    return info(lambda raw: raw["features"].update({key: raw["features"]["top"]}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (info(lambda raw: raw.update(codebase_version="v2.1")), r"LeRobotDataset v2\.1.*convert_dataset_v21_to_v30"),
        (lambda folder: shutil.rmtree(folder / "meta"), "there is no meta/info.json: this is not a LeRobotDataset"),
        (truncate("meta/info.json", 100), "meta/info.json: not a JSON object"),
        (truncate(EPISODES, -50), "meta/episodes/chunk-000/file-000.parquet: it can't be read"),
        (lambda folder: (folder / EPISODES).unlink(), "meta/info.json announces 8 episodes, and 0 were found"),
        (truncate("meta/tasks.parquet", -50), "meta/tasks.parquet: it can't be read"),
        (lambda folder: (folder / "meta/tasks.parquet").unlink(), "meta/tasks.parquet: the file is missing"),
        (truncate("meta/stats.json", 40), "meta/stats.json: not JSON"),
        (table(EPISODES, length={1: 9}), "episode 1: its length is 9, but its rows are 6 to 13 of the dataset"),
        (table(EPISODES, length={1: 0}), "episode 1: its length is 0, and an episode has at least 1 frame"),
        (table(EPISODES, length={1: -3}), r"1 problem .*\n.*episode 1: its length is -3, and an episode has"),
        (table(EPISODES, length={1: 10**15}), "episode 1: its length is 1000000000000000, but its rows are 6 to 13"),
        (table(EPISODES, videos__top__to_timestamp={1: 9.0}), r"episode 1: it has 7 frames, but 8\.800 s of top at 30"),
        (
            table(EPISODES, videos__top__from_timestamp={1: float("nan")}),
            r"episode 1: its time in the video of top is nan to 0\.433 s, which is not possible",
        ),
        (later(-10), r"episode 1: its time in the video of top is -0\.133 to 0\.100 s, which is not possible"),
        (
            later(-2),
            r"episode 1: it is at 0\.133 to 0\.367 s of top, and overlaps episode 0, which is at 0\.000 to 0\.200 s of",
        ),
        (
            table(EPISODES, dataset_from_index={1: 4}, dataset_to_index={1: 11}),
            "episode 1: its rows are 4 to 11 of the dataset, and overlap those of episode 0, which are 0 to 6",
        ),
        (table(EPISODES, videos__top__file_index={1: None}), "'videos/top/file_index' has missing values"),
        (table(EPISODES, episode_index={1: 0}), "episode 0: comes more than once"),
        (info(lambda raw: raw.update(total_frames=50)), "meta/info.json: 50 frames are announced, .* have 48"),
        (
            info(lambda raw: raw.update(total_episodes=9)),
            "announces 9 episodes, and 8 were found",
        ),
        (info(lambda raw: raw.update(total_episodes=7)), "7 episodes are announced, but meta/episodes has 8"),
        (info(lambda raw: raw.update(fps=15)), r"8 problems \(8 × seconds\)"),
        (video_like("side"), "there is no column 'videos/side/chunk_index'"),
    ],
)
def test_what_meta_tells_is_an_error_at_open(good: Path, tmp_path: Path, damage: Damage, message: str) -> None:
    copy = copy_of(good, tmp_path, damage)
    with pytest.raises(ManifestError, match=message) as error:
        penstock.robot(store=str(copy), batch_size=2)
    assert str(copy) in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"delta_timestamps": {"actoin": [0]}},
            "robot.delta_timestamps: no source has a feature 'actoin'",
        ),
        ({"delta_timestamps": {"zebra": [0]}}, "no source has a feature 'zebra'; there are top, "),
        ({"keys": ["tap"]}, "robot.keys: no source has a feature 'tap'; did you mean top?"),
        ({"delta_timestamps": {"action": [0.05]}}, r"action: 0\.05 s is not a multiple of 1/30 s"),
        ({"delta_timestamps": {"action": []}}, "action: a list of 0 values, and it takes at least 1"),
        ({"delta_timestamps": {"action": 0.1}}, r"delta_timestamps\.action: expected a list, not 0\.1"),
        ({"delta_timestamps": {"action": [float("nan")]}}, "action: nan is not a time"),
        ({"resize": [0, 5]}, "resize"),
    ],
)
def test_what_the_config_asks_in_vain_is_an_error_at_open(good: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ManifestError, ConfigError), match=message):
        penstock.robot(store=str(good), batch_size=2, **options)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"episodes": [8]}, "there is no episode 8; there are 8, from 0 to 7"),
        ({"exclude_episodes": [-1]}, "there is no episode -1"),
        ({"tasks": ["dance"]}, "there is no task 'dance'; there are 'task 0', 'task 1'"),
        ({"drop_n_last_frames": 7}, "no frame is left of 8 episodes after the filters"),
        ({"rename": {"side": "top"}}, "rename: .* has no feature 'side'; it has top"),
        ({"rename": {"action": "top"}}, "rename: two features of .* would be named 'top'"),
    ],
)
def test_filters_that_leave_nothing_are_an_error_at_open(good: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        penstock.robot(sources=[{"name": "arm", "store": str(good), **keys}], batch_size=2)


class Fault(NamedTuple):
    """What is done to a dataset, and what follows.

    Attributes:
        damage: what is done.
        bad: the ids of the frames that can't be used any more begin with one of these.
        reason: a bad sample has it, after the dataset's folder.
        index: lines of ``penstock index``.
    """

    damage: Damage
    bad: tuple[str, ...]
    reason: str
    index: tuple[str, ...]


FAULTS = {
    "truncated mp4": Fault(
        truncate(TOP, -3000),
        ("1:",),
        f"/{TOP}, episode 1, frame ",
        (f"{TOP}, episode 1: the video has ",),
    ),
    "truncated header of an mp4": Fault(
        truncate(TOP, 200),
        ("0:", "1:"),
        f"/{TOP}: the box 'moov' at byte 32 has ",
        (f"{TOP}: the box 'moov' at byte 32 has ",),
    ),
    "no mp4": Fault(
        lambda folder: (folder / TOP).write_bytes(b"hello" * 100),
        ("0:", "1:"),
        f"/{TOP}: not an MP4 file: it begins with b'hellohel'",
        (f"{TOP}: not an MP4 file: it begins with b'hellohel'",),
    ),
    "a codec that is not supported": Fault(
        replace(TOP, b"avc1", b"mp4v"),
        ("0:", "1:"),
        f"/{TOP}: the codec 'mp4v' is not supported; there are avc1, ",
        (f"{TOP}: the codec 'mp4v' is not supported; there are avc1, ",),
    ),
    "an edit list that ends early": Fault(
        a_short_edit_list,
        ("0:", "1:"),
        f"/{TOP}: its edit list ends after 0.200 s, before the last frame; that is not supported, write the video anew",
        (f"{TOP}: its edit list ends after 0.200 s, before the last frame",),
    ),
    "truncated Parquet": Fault(
        truncate(ROWS, -40),
        ("0:", "1:"),
        f"/{ROWS}: it does not end as a Parquet file does: it is truncated",
        (f"{ROWS}: it does not end as a Parquet file does: it is truncated",),
    ),
    "missing mp4": Fault(
        lambda folder: (folder / TOP).unlink(),
        ("0:", "1:"),
        f"/{TOP}: no such file",
        (f"{TOP}: the file with episodes 0 and 1 is missing",),
    ),
    "missing Parquet": Fault(
        lambda folder: (folder / ROWS).unlink(),
        ("0:", "1:"),
        f"/{ROWS}: no such file",
        (f"{ROWS}: the file with episodes 0 and 1 is missing",),
    ),
    "a folder in place of an mp4": Fault(
        lambda folder: ((folder / TOP).unlink(), (folder / TOP).mkdir()),
        ("0:", "1:"),
        f"/{TOP} is a folder, not a file",
        (f"{TOP}: this is a folder, not a file",),
    ),
    "a length that lies": Fault(
        a_longer_episode,
        ("7:",),
        "/data/chunk-000/file-003.parquet, episode 7: its rows are 5 to 11 of the file, which has 11 rows",
        (
            "data/chunk-000/file-003.parquet, episode 7: its rows are 5 to 11 of the file, which has 11 rows",
            "videos/top/chunk-000/file-003.mp4, episode 7: the video has 6 of its 7 frames",
        ),
    ),
    "a time that is off": Fault(
        table(ROWS, timestamp={3: 3 / FPS + 0.001}),
        ("0:3",),
        f"/{TOP}, episode 0, frame 3: the video has no frame at 0.1010 s: the nearest frame of the episode is 0.0010",
        (f"{ROWS}, episode 0: frames 2 and 3 are 0.0343 s apart; at 30 fps it should be 0.0333 s",),
    ),
    "a time that is no number": Fault(
        table(ROWS, timestamp={3: float("nan")}),
        ("0:3",),
        f"/{ROWS}, episode 0, frame 3: its timestamp is nan",
        (f"{ROWS}, episode 0: frame 3 has the timestamp nan",),
    ),
    "times that are all 0": Fault(
        table(ROWS, timestamp=dict.fromkeys(range(LENGTHS[0]), 0.0)),
        tuple(f"0:{frame}" for frame in range(1, LENGTHS[0])),  # frame 0 is at 0 s
        f"/{ROWS}, episode 0, frame ",
        (f"{ROWS}, episode 0: frames 0 and 1 are 0.0000 s apart; at 30 fps it should be 0.0333 s",),
    ),
    "a row of another episode": Fault(
        table(ROWS, episode_index={8: 0}),
        ("1:",),
        f"/{ROWS}, episode 1: a row has the episode number 0",
        (f"{ROWS}, episode 1: a row has the episode number 0",),
    ),
    "rows of other frames": Fault(
        table(ROWS, index={8: 3}),
        ("1:",),
        f"/{ROWS}, episode 1: its rows hold frames 3 to 12 of the dataset, not 6 to 12",
        (f"{ROWS}, episode 1: its rows hold frames 3 to 12",),
    ),
    "an unknown task": Fault(
        table(ROWS, task_index={8: 5}),
        ("1:",),
        f"/{ROWS}, episode 1: a row has the task number 5, and meta/tasks.parquet has 2",
        (f"{ROWS}, episode 1: a row has the task number 5",),
    ),
}


def index_of(folder: Path, tmp_path: Path, **options: Any) -> tuple[int, str]:
    """Return exit code and output of ``penstock index``."""
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps({"recipe": "robot", "store": str(folder), "batch_size": 4, "robot": options}))
    result = run("index", config)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.mark.parametrize("name", FAULTS)
def test_what_only_the_files_tell_is_a_bad_sample_with_a_substitute(good: Path, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    copy = copy_of(good, tmp_path, fault.damage)
    feed = penstock.robot(store=str(copy), batch_size=8, max_bad=1.0)
    batches = [feed.batch(step) for step in range(6)]
    feed.close()
    planned = [name for step in range(6) for name in [line.item for line in feed.lines(step)]]
    wrong = [bad for batch in batches for bad in batch["bad"]]
    expected = [name for name in planned if name.startswith(fault.bad)]
    if name == "truncated mp4":  # some of the frames are still there
        expected = [bad.id for bad in wrong if bad.id in expected]
    assert expected and sorted(set(expected)) == sorted({bad.id for bad in wrong} & set(planned))
    for bad in wrong:
        assert bad.id.startswith(fault.bad) and bad.group == f"episode-{bad.id.split(':')[0]}"
        assert f"{copy}{fault.reason}" in bad.reason and "\n" not in bad.reason
    used = [name for batch in batches for name in batch["ids"]]
    assert not [name for name in used if name.startswith(fault.bad)] or name == "truncated mp4"


@pytest.mark.parametrize("name", FAULTS)
def test_with_on_error_raise_the_first_bad_sample_is_an_error(good: Path, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    copy = copy_of(good, tmp_path, fault.damage)
    feed = penstock.robot(store=str(copy), batch_size=8, on_error="raise")
    with pytest.raises(ContentError) as error:
        for step in range(6):
            feed.batch(step)
    feed.close()
    assert f"{copy}{fault.reason}" in str(error.value)


@pytest.mark.parametrize("name", FAULTS)
def test_index_reports_the_fault(good: Path, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    code, output = index_of(copy_of(good, tmp_path, fault.damage), tmp_path)
    assert code == 2
    for line in fault.index:
        assert line in output


def test_index_reports_all_faults_at_once(good: Path, tmp_path: Path) -> None:
    def damage(folder: Path) -> None:
        (folder / TOP).unlink()
        (folder / "data/chunk-000/file-001.parquet").unlink()
        edit_table(folder, ROWS, {"timestamp": {3: 0.2}})
        edit_table(folder, EPISODES, {"length": {6: 4}})

    code, output = index_of(copy_of(good, tmp_path, damage), tmp_path)
    assert code == 2
    for line in (
        f"{TOP}: the file with episodes 0 and 1 is missing",
        "data/chunk-000/file-001.parquet: the file with episodes 2 and 3 is missing",
        f"{ROWS}, episode 0: frames 2 and 3 are ",
        "meta/episodes, episode 6: its length is 4, but its rows are 37 to 42 of the dataset",
    ):
        assert line in output


@pytest.mark.parametrize("options", [{"keys": ["top", "acton"]}, {"delta_timestamps": {"acton": [0]}}], ids=str)
def test_index_reports_misspelt_features_and_faults_of_the_files_at_once(
    good: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    code, output = index_of(copy_of(good, tmp_path, lambda folder: (folder / TOP).unlink()), tmp_path, **options)
    assert code == 2
    assert f"{TOP}: the file with episodes 0 and 1 is missing" in output
    assert f"robot.{next(iter(options))}: no source has a feature 'acton'; did you mean action?" in output


def test_index_reports_columns_and_sizes_that_are_not_as_announced(good: Path, tmp_path: Path) -> None:
    def damage(raw: dict[str, Any]) -> None:
        raw["features"]["action"]["shape"] = [4]

    copy = copy_of(good, tmp_path, info(damage))
    write_video(copy / "videos/top/chunk-000/file-001.mp4", [clip_of(range(11), 32, 64)], FPS, Encoding())
    code, output = index_of(copy, tmp_path)
    assert code == 2
    there = "frames have 64 × 32 pixels, but those of the first video have 64 × 64"
    assert f"videos/top/chunk-000/file-001.mp4: {there}" in output
    assert f"{ROWS}: action: the column has the type fixed_size_list<" in output


def test_a_camera_whose_size_is_announced_wrongly_has_that_of_its_video_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_robot(tmp_path / "robot", [3, 2], ["top"], size=(64, 96))
    edit_info(folder, lambda raw: raw["features"]["top"].update(shape=[96, 64, 3]))
    with closing(penstock.robot(store=str(folder), batch_size=5, passes=1)) as feed:
        batch = feed.batch(0)
    assert batch["top"].shape == (5, 3, 64, 96) and batch["bad"] == []
    numbers = {shown_number(0, int(item[0]), int(item[2])) for item in batch["ids"]}
    assert {shown(frame) for frame in batch["top"]} == numbers
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    there = "top: frames have 96 × 64 pixels, not 64 × 96; their own size is used"
    assert warnings == [f"{folder}/meta/info.json: {there}"]
    caplog.clear()
    code, _ = index_of(Path(shutil.copytree(folder, tmp_path / "copy")), tmp_path)
    assert code == 0 and caplog.text.count(there) == 1


@pytest.mark.parametrize("value", [225.0, 0.5])
def test_a_value_that_its_type_can_not_hold_is_a_bad_sample_with_feature_and_row(
    good: Path, tmp_path: Path, value: float
) -> None:
    copy = copy_of(good, tmp_path, info(lambda raw: raw["features"]["observation.state"].update(dtype="int8")))
    edit_table(copy, ROWS, {"observation.state": {3: [value, 3.0]}})
    with closing(penstock.robot(store=str(copy), batch_size=8, max_bad=1.0)) as feed:
        batches = [feed.batch(step) for step in range(6)]
    wrong = [bad for batch in batches for bad in batch["bad"]]
    assert {bad.group for bad in wrong} == {"episode-0"}
    assert all(
        f"episode 0: observation.state: row 3 holds {value}, which int8 can't represent" in bad.reason for bad in wrong
    )
    for batch in batches:
        assert batch["observation.state"].dtype == torch.int8
        assert batch["observation.state"].tolist() == [list(map(int, name.split(":"))) for name in batch["ids"]]


@pytest.mark.parametrize(("episode", "file"), [(0, 1), (1, 1), (2, 0), (3, 0), (2, 7)])
def test_an_episode_that_names_a_wrong_file_of_rows_is_blamed_alone(
    good: Path, tmp_path: Path, episode: int, file: int
) -> None:
    copy = copy_of(good, tmp_path, table(EPISODES, data__file_index={episode: file}))
    code, output = index_of(copy, tmp_path)
    assert code == 2
    faults = [line for line in output.splitlines() if line.startswith("  ")]
    assert faults and all(f"episode {episode}" in line for line in faults), output
    with closing(penstock.robot(store=str(copy), batch_size=8, max_bad=1.0, passes=1)) as feed:
        wrong = {bad.group for step in range(6) for bad in feed.batch(step)["bad"]}
    assert wrong == {f"episode-{episode}"}


def test_index_says_what_there_is_where_nothing_is_wrong(good: Path, tmp_path: Path) -> None:
    code, output = index_of(good, tmp_path)
    assert code == 0 and "8 episodes, 48 frames, 1.6 seconds at 30 fps, 1 camera" in output


def test_a_fault_of_an_episode_that_is_left_out_does_not_matter(good: Path, tmp_path: Path) -> None:
    def damage(folder: Path) -> None:
        edit_table(folder, EPISODES, {"length": {1: 9}})
        edit_table(folder, ROWS, {"index": {8: 3}})  # of episode 1, in one row group with no other

    copy = copy_of(good, tmp_path, damage)
    sources = [{"name": "arm", "store": str(copy), "exclude_episodes": [1]}]
    feed = penstock.robot(sources=sources, batch_size=8, on_error="raise")
    assert all(not feed.batch(step)["bad"] for step in range(5))
    feed.close()


def test_a_bad_episode_does_not_spoil_those_in_the_same_row_group(tmp_path: Path) -> None:
    folder = write_robot(tmp_path, [5, 5, 5, 5], layout=Layout(rows_per_group=100))
    edit_table(folder, ROWS, {"index": {8: 3}})  # of episode 1
    feed = penstock.robot(store=str(folder), batch_size=4, max_bad=1.0)
    wrong = {bad.group for step in range(10) for bad in feed.batch(step)["bad"]}
    feed.close()
    assert wrong == {"episode-1"}


@pytest.mark.parametrize("workers", [0, 2])
def test_substitutes_are_in_the_ledger(good: Path, tmp_path: Path, workers: int) -> None:
    copy = copy_of(good, tmp_path, FAULTS["missing mp4"].damage)
    log = tmp_path / "usage.jsonl"
    feed = penstock.robot(store=str(copy), batch_size=8, max_bad=1.0, usage={"log": str(log), "every": 1})
    with feed.loader(workers=workers) as loader:
        wrong = [bad for _, batch in zip(range(6), loader, strict=False) for bad in batch["bad"]]
    feed.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    written = [(bad["group"], bad["id"], bad["reason"], bad["outcome"]) for line in lines for bad in line["bad"]]
    assert wrong
    for bad in wrong:
        assert (bad.group, bad.id, bad.reason, "replaced") in written
