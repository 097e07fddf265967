"""Commands over a robot run: its items are frames, ``episode:frame``, and its groups episodes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import penstock
from penstock import index
from penstock.curate.robot.writer import Layout
from penstock.pipelines import robot
from tests.cli.commands import lines_of, run
from tests.conftest import S3Prefix
from tests.robots import FPS, shown_number, write_robot
from tests.runtime.engines.clusters import running_cluster
from tests.servers.faultproxy import FaultProxy
from tests.videos import number_of

LENGTHS = (6, 7, 5)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_robot(folder / "robot", LENGTHS, ["top"])
    options = {"delta_timestamps": {"top": [0, 1 / FPS]}}
    path = folder / "run.yaml"
    path.write_text(json.dumps({"recipe": "robot", "store": "robot", "batch_size": 4, "robot": options}))
    return path


def test_plan_names_episodes_and_frames(config: Path) -> None:
    lines = [line.split("\t") for line in lines_of(run("plan", config, "--steps", "0:4"))]
    assert len(lines) == 16
    for _, _, _, _, _, group, item in lines:
        episode, frame = map(int, item.split(":"))
        assert group == f"episode-{episode}" and 0 <= frame < LENGTHS[episode]


def test_where_and_plan_agree(config: Path) -> None:
    [use] = [line.split("\t") for line in lines_of(run("where", config, "1:6"))]
    item, epoch, step, rank, slot = use
    planned = [line.split("\t") for line in lines_of(run("plan", config, "--steps", step))][int(slot)]
    assert planned[:3] == [step, rank, slot] and planned[4:] == [epoch, "episode-1", "1:6"]
    assert item == "episode-1:1:6"


def test_replay_writes_the_frames_of_a_window_side_by_side_and_the_values(config: Path, tmp_path: Path) -> None:
    result = run("replay", config, "--steps", "2", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    batch = penstock.open(config).batch(2)
    pictures = sorted(tmp_path.rglob("*.png"))
    values = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("*.json")) if "action" in path.read_text()]
    assert len(pictures) == len(values) == 4
    found = set()
    for path in pictures:
        pixels = np.array(Image.open(path))
        assert pixels.shape == (64, 128, 3)
        found.add((number_of(pixels[:, :64]), number_of(pixels[:, 64:])))
    expected = set()
    for episode, frame in zip(batch["episode_index"].tolist(), batch["frame_index"].tolist(), strict=True):
        following = min(frame + 1, LENGTHS[episode] - 1)
        expected.add((shown_number(0, episode, frame), shown_number(0, episode, following)))
    assert found == expected
    assert sorted(value["frame_index"] for value in values) == sorted(batch["frame_index"].tolist())


def test_warm_says_that_a_folder_needs_no_cache(config: Path) -> None:
    result = run("warm", config, "--steps", "2")
    assert result.exit_code == 2 and "read in place: there is nothing to warm" in result.output


def test_after_warm_batches_need_no_request(config: Path, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    folder = config.parent / "robot"
    for path in folder.rglob("*.*"):
        s3.put(str(path.relative_to(folder)), path.read_bytes())
    raw = json.loads(config.read_text())
    options = s3.through(proxy)
    remote = {"endpoint": options.endpoint, "region": options.region}
    cache = {"dir": str(tmp_path / "cache"), "size": "100MB"}
    here = tmp_path / "run.yaml"
    here.write_text(json.dumps({**raw, "store": s3.url, "remote": remote, "cache": cache}))
    result = run("warm", here, "--steps", "4")
    assert result.exit_code == 0, result.output
    feed = penstock.open(here)
    before = len(proxy.log())
    batches = [feed.batch(step) for step in range(4)]
    requested = [entry for entry in proxy.log()[before:] if not entry.key.startswith(f"{s3.prefix}/meta/")]
    feed.close()
    assert requested == []
    local = penstock.open(config)
    assert all(batch["ids"] == local.batch(step)["ids"] for step, batch in enumerate(batches))


def test_index_leaves_frame_indexes_for_runs(config: Path) -> None:
    result = run("index", config)
    assert result.exit_code == 0
    assert result.stdout.startswith("robot: 3 episodes, 18 frames"), "the name that plan and mix show"


@pytest.mark.parametrize("option", ["-o", "--store", "--filelist"])
def test_index_of_a_run_refuses_what_is_for_tar_shards(config: Path, tmp_path: Path, option: str) -> None:
    result = run("index", config, option, tmp_path / "x")
    assert result.exit_code == 2 and result.stderr.startswith(
        f"error: {option}: only for tar shards; the index of a run"
    )
    assert not (tmp_path / "x").exists()


def test_index_refuses_to_keep_tokens_where_there_is_no_text(config: Path) -> None:
    result = run("index", config, "--tokens")
    assert result.exit_code == 2
    assert result.stderr == f"error: --tokens: {config} has no text to tokenize (recipe robot); remove the option\n"


@pytest.mark.parametrize("option", ["--tokens", "--anew"])
def test_index_of_tar_shards_refuses_what_is_for_runs(tmp_path: Path, option: str) -> None:
    result = run("index", tmp_path, "-o", tmp_path / "x", option)
    assert result.exit_code == 2
    assert result.stderr == f"error: {option}: only for the YAML file of a run, not for tar shards\n"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with two cameras, and a video per episode."""
    folder = tmp_path_factory.mktemp("several")
    return write_robot(folder, (6, 7, 5, 4), ["top", "wrist"], layout=Layout(episodes_per_video_file=1))


def own_config(dataset: Path, cache: Path) -> Path:
    """The config of a run over a dataset, with a cache of its own."""
    path = cache.with_suffix(".yaml")
    options = {"store": str(dataset), "batch_size": 4, "cache": {"dir": str(cache), "size": "1GB"}}
    path.write_text(json.dumps({"recipe": "robot", **options}))
    return path


def shelf_of(config: Path) -> dict[str, bytes]:
    shelf = config.with_suffix("") / ".penstock" / "indexes"
    return {path.name: path.read_bytes() for path in shelf.glob("*.learnt")}


def refuse(*_: object) -> None:
    raise AssertionError("a video was decoded by the process that asked")


@pytest.mark.parametrize("way", ["jobs", "tasks", pytest.param("ray", marks=pytest.mark.scale)])
def test_videos_that_jobs_and_workers_have_indexed_are_not_decoded_again(
    several: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = own_config(several, tmp_path / "whole")
    assert run("index", whole).exit_code == 0
    config = own_config(several, tmp_path / "parts")
    if way == "jobs":
        assert len(list(index.tasks(config))) == 8
        for number in (1, 0):
            done = run("index", config, "--workers", "0", "--shard", f"{number}/2")
            assert done.exit_code == 0 and "when all jobs have" in done.stdout, done.output
        assert list(index.tasks(config)) == []
        monkeypatch.setattr(robot, "damaged_frames", refuse)
        assert run("index", config).exit_code == 0
    elif way == "tasks":
        results = [index.make(task) for task in index.tasks(config)]
        monkeypatch.setattr(robot, "damaged_frames", refuse)
        assert "4 episodes, 22 frames" in "".join(index.finish(config, results).values())
    else:
        monkeypatch.setattr(robot, "damaged_frames", refuse)  # in this process only: workers import their own
        with running_cluster():
            done = run("index", config, "--engine", "ray")
        assert done.exit_code == 0, done.output
    assert shelf_of(config) == shelf_of(whole)


def test_faults_of_videos_that_a_job_has_read_are_reported_by_the_last_command(several: Path, tmp_path: Path) -> None:
    shutil.copytree(several, tmp_path / "robot")
    first, second, third = sorted((tmp_path / "robot" / "videos").rglob("*.mp4"))[:3]
    first.unlink()
    second.write_bytes(second.read_bytes()[:100])
    content = bytearray(third.read_bytes())
    config = own_config(tmp_path / "robot", tmp_path / "cache")
    for number in (0, 1):
        assert run("index", config, "--workers", "0", "--shard", f"{number}/2").exit_code == 0
    at = content.index(b"mdat") + 8
    content[at : at + 40] = bytes(40)
    third.write_bytes(bytes(content))
    for _ in range(2):
        result = run("index", config)
        assert result.exit_code == 2
        for name, fault in ((first, "is missing"), (second, "moov"), (third, "differ from those that were indexed")):
            [line] = [line for line in result.stderr.splitlines() if str(name.relative_to(tmp_path / "robot")) in line]
            assert fault in line
    assert "--anew, --shard" in run("index", config, "--anew", "--shard", "0/2").stderr
