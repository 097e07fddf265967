"""What LeRobot's training script gets of us. tests/frameworks/test_lerobot.py runs the script itself."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.compat.lerobot import StreamingLeRobotDataset
from penstock.config import ConfigError
from penstock.feed.state import StateError
from penstock.integrations.lerobot_train import STATE, LeRobotRun, load_state, main, refuse_idle_ranks
from tests.robots import write_robot

BATCH = 4


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_robot(tmp_path_factory.mktemp("data") / "arm", [11, 7, 13, 14])


def opened(folder: Path, world: int = 1, batch_size: int = BATCH) -> StreamingLeRobotDataset:
    return StreamingLeRobotDataset("lab/arm", root=folder, batch_size=batch_size, rank=0, world_size=world)


def checkpoint(folder: Path, dataset: StreamingLeRobotDataset, step: int) -> Path:
    (folder / STATE).parent.mkdir(parents=True)
    (folder / STATE).write_text(json.dumps(dataset.state_dict(step)))
    return folder


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lerobot", None)
    with pytest.raises(SystemExit, match=r"needs lerobot: pip install 'lerobot\[training\]==0.6.1'"):
        main()


def test_a_script_that_calls_other_functions_is_refused() -> None:
    script = SimpleNamespace(train=lambda: None)
    with pytest.raises(ConfigError, match=r"as it does not use make_train_eval_datasets: pip install lerobot==0.6.1"):
        LeRobotRun(script, SimpleNamespace())


def test_a_checkpoint_continues_its_data(robot: Path, tmp_path: Path) -> None:
    saved = checkpoint(tmp_path / "000007", opened(robot), 7)
    dataset = opened(robot)
    assert load_state(dataset, saved) == 7
    assert dataset.state_dict(7) == opened(robot).state_dict(7)


def test_a_checkpoint_without_our_state_is_refused(robot: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"has no training_state/penstock.json: .* --policy.path=.*/pretrained_model$"):
        load_state(opened(robot), tmp_path)


def test_a_checkpoint_of_another_dataset_is_refused(robot: Path, tmp_path: Path) -> None:
    other = write_robot(tmp_path / "other", [11, 7, 13, 15])
    saved = checkpoint(tmp_path / "000007", opened(other), 7)
    with pytest.raises(StateError, match=r"penstock.json: this state belongs to another run: it differs in items"):
        load_state(opened(robot), saved)


def test_a_job_elsewhere_is_refused() -> None:
    cfg = SimpleNamespace(job=SimpleNamespace(target="a10g-small"))
    with pytest.raises(ConfigError, match=r"--job\.target=a10g-small would run without Penstock: start this command"):
        LeRobotRun.submit_to_hf(cfg)


@pytest.mark.filterwarnings("ignore:the last batch of an epoch")
@pytest.mark.parametrize(("world", "batch_size", "last"), [(2, 4, 5), (3, 7, 3), (4, 2, 5), (5, 9, 45)])
def test_each_rank_may_get_part_of_the_last_batch(robot: Path, world: int, batch_size: int, last: int) -> None:
    dataset = opened(robot, world, batch_size)
    assert dataset.last_batches() == (last, last)
    refuse_idle_ranks(dataset)


@pytest.mark.filterwarnings("ignore:the last batch of an epoch")
def test_a_rank_without_frames_in_the_last_batch_is_refused(robot: Path) -> None:
    with pytest.raises(ConfigError, match=r"--batch_size=11 on 4 processes leaves 1 of 45 frames .* use another"):
        refuse_idle_ranks(opened(robot, world=4, batch_size=11))


@pytest.mark.filterwarnings("ignore:the last batch of an epoch")
def test_the_rest_of_an_epoch_that_another_world_began_counts_too(robot: Path, tmp_path: Path) -> None:
    saved = checkpoint(tmp_path / "000001", opened(robot), 1)  # 41 frames are left
    dataset = opened(robot, world=2)
    load_state(dataset, saved)
    assert dataset.last_batches() == (1, 5)
    with pytest.raises(ConfigError, match="leaves 1 of 45 frames"):
        refuse_idle_ranks(dataset)
