"""LeRobot's own training script with our dataset. Runs in LeRobot's own environment: ``make test-lerobot``."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.frameworks.moves import MAKERS, PAGES, blocks
from tests.frameworks.runs import EXAMPLES, Batches, Run, environment, resumes, torchrun, trained
from tests.robots import write_robot
from tests.servers.weed import S3Server

pytest.importorskip("lerobot", reason="make test-lerobot runs it, where Python 3.12 and FFmpeg's libraries are")

pytestmark = pytest.mark.timeout(900)  # LeRobot's imports alone take ten seconds per process

WINDOWS = {"observation.images.top": [-0.1, 0.0], "action": [0.0, 0.1, 0.2]}  # as in docs/moves/lerobot.md
SCRIPT = Path(__file__).with_name("lerobot_logged.py")
LENGTHS = (11, 7, 13, 14)
FRAMES = sum(LENGTHS)
BATCH = 4  # per process; the last batch of an epoch has 5 frames for two processes
EPOCH = 6  # steps
STEPS = 13
SAVED = 5  # steps between two checkpoints
WEIGHTS = "checkpoints/000013/pretrained_model/model.safetensors"
ON_CPU = ("--policy.device=cpu", "--policy.push_to_hub=false", "--policy.pretrained_backbone_weights=null")
ACT = (
    "--policy.type=act",
    *ON_CPU,
    "--policy.chunk_size=4",
    "--policy.n_action_steps=4",
    "--policy.dim_model=32",
    "--policy.n_heads=2",
    "--policy.dim_feedforward=32",
    "--policy.n_encoder_layers=1",
    "--policy.n_vae_encoder_layers=1",
    "--policy.latent_dim=8",
)
DIFFUSION = (
    "--policy.type=diffusion",
    *ON_CPU,
    "--policy.horizon=8",
    "--policy.n_action_steps=4",
    "--policy.down_dims=[16,32]",
    "--policy.diffusion_step_embed_dim=8",
    "--policy.spatial_softmax_num_keypoints=4",
    "--policy.crop_shape=null",
)


@contextmanager
def started(folder: Path, *options: object, processes: int = 2, **env: str) -> Iterator[Run]:
    with torchrun(SCRIPT, *options, folder=folder, processes=processes, TRAINED=folder, **env) as run:
        yield run


def fresh(robot: object, folder: Path, workers: int) -> tuple[object, ...]:
    """Return the options of a new run."""
    return (
        "--dataset.repo_id=lab/arm",
        f"--dataset.root={robot}",
        f"--output_dir={folder / 'out'}",
        *ACT,
        f"--batch_size={BATCH}",
        f"--num_workers={workers}",
        f"--steps={STEPS}",
        f"--save_freq={SAVED}",
        "--log_freq=1",
    )


def resumed(run: Path, folder: Path, *options: str) -> tuple[object, ...]:
    """Return the options that resume a run after its last checkpoint, in another folder with the logs so far."""
    folder.mkdir()
    for log in run.glob("trained.*.jsonl"):
        shutil.copy(log, folder)
    config = run / "out/checkpoints/last/pretrained_model/train_config.json"
    return (f"--config_path={config}", "--resume=true", f"--output_dir={folder / 'out'}", *options)


def saved_step(run: Path) -> int:
    return int((run / "out/checkpoints/last").resolve().name)


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_robot(tmp_path_factory.mktemp("data") / "arm", LENGTHS, ["observation.images.top"])


@pytest.fixture(scope="module")
def bucket(robot: Path, s3_server: S3Server) -> str:
    """The URL of the same dataset in a bucket."""
    for path in filter(Path.is_file, robot.rglob("*")):
        s3_server.put(f"arm/{path.relative_to(robot)}", path.read_bytes())
    return f"s3://{s3_server.bucket}/arm"


@pytest.fixture(scope="module")
def access(s3_server: S3Server) -> dict[str, str]:
    """The environment in which the bucket can be read."""
    return {**s3_server.environment(), "AWS_ENDPOINT_URL": s3_server.url, "AWS_ALLOW_HTTP": "true"}


@pytest.fixture(scope="module")
def whole(robot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run on two processes, without workers, over a folder."""
    folder = tmp_path_factory.mktemp("whole")
    with started(folder, *fresh(robot, folder, workers=0)) as run:
        run.finish()
    return folder


@pytest.fixture(scope="module")
def killed(bucket: str, access: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with a worker per process, over a bucket, killed in the second epoch after a checkpoint."""
    folder = tmp_path_factory.mktemp("killed")
    with started(folder, *fresh(bucket, folder, workers=1), **access) as run:
        run.kill_after(EPOCH)
    assert (folder / "out/checkpoints/last/training_state/penstock.json").stat().st_size < 1000
    return folder


def epochs(batches: Batches) -> list[list[int]]:
    steps = [batches[step] for step in sorted(batches)]
    return [
        sorted(int(id) for batch in steps[first : first + EPOCH] for id in batch) for first in range(0, STEPS, EPOCH)
    ]


@pytest.mark.shows("lerobot-train", "two processes")
@pytest.mark.shows("lerobot-train", "endless run")
def test_each_frame_comes_once_per_epoch_over_two_processes(whole: Path) -> None:
    batches = trained(whole)
    first, second, rest = epochs(batches)
    assert list(batches) == list(range(STEPS))
    assert first == second == list(range(FRAMES)) and len(set(rest)) == len(rest)
    assert [len(batches[step]) for step in range(EPOCH)] == [8, 8, 8, 8, 8, 5]
    assert batches[0] != batches[EPOCH]


@pytest.mark.shows("lerobot-train", "checkpoint and resume")
@pytest.mark.shows("lerobot-train", "kill -9")
@pytest.mark.shows("lerobot-train", "same weights")
def test_a_killed_run_goes_on_in_the_middle_of_the_epoch(
    whole: Path, killed: Path, access: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    with started(folder, *resumed(killed, folder), **access) as run:
        run.finish()
    assert resumes(folder) == resumes(folder, rank=1) == [saved_step(killed)]
    assert trained(folder) == trained(whole)
    assert (folder / "out" / WEIGHTS).read_bytes() == (whole / "out" / WEIGHTS).read_bytes()


@pytest.mark.shows("lerobot-train", "resume on another world")
def test_it_goes_on_with_one_process_that_has_the_whole_batch(
    whole: Path, killed: Path, access: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    options = resumed(killed, folder, f"--batch_size={2 * BATCH}", "--num_workers=0")
    with started(folder, *options, processes=1, **access) as run:
        run.finish()
    assert trained(folder) == trained(whole)


def test_the_example_trains_evaluates_and_resumes(tmp_path: Path) -> None:
    robot = write_robot(tmp_path / "arm", [20, 20, 20, 20], ["observation.images.top"])
    more = (
        *DIFFUSION,
        "--batch_size=4",
        "--num_workers=0",
        "--dataset.eval_split=0.4",
        "--eval_steps=1",
        "--save_freq=2",
    )
    outputs = []
    for steps, options in ((2, more), (4, ())):
        command = [EXAMPLES / "lerobot.sh", robot, tmp_path / "out", f"--steps={steps}", *options]
        run = Run(command, tmp_path / f"to {steps}", environment(PYTHON=sys.executable))
        try:
            outputs.append(run.finish())
        finally:
            run.kill()
    assert "step 2: eval_loss=" in outputs[0] and "step 3: eval_loss=" not in outputs[0]
    assert "step 4: eval_loss=" in outputs[1] and "step 2: eval_loss=" not in outputs[1]
    assert saved_step(tmp_path) == 4


@pytest.mark.parametrize("heading", ["Before", "After"])
def test_a_move_has_the_same_frames(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MAKERS["lerobot"]()
    frames: dict[int, tuple[torch.Tensor, ...]] = {}

    def train(index: torch.Tensor, *values: torch.Tensor) -> None:
        assert not frames.keys() & set(index.tolist())
        frames.update(zip(index.tolist(), zip(*values, strict=True), strict=True))

    for found, _, block in blocks("lerobot"):
        if found == heading:
            exec(block, {"train": train})
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("lab/arm", root="arm", delta_timestamps=WINDOWS)
    assert sorted(frames) == list(range(len(dataset)))
    for number, values in frames.items():
        for key, value in zip(WINDOWS, values, strict=True):
            assert torch.equal(value, dataset[number][key])


def test_every_name_of_the_move_is_in_lerobot() -> None:
    page = (PAGES / "lerobot.md").read_text()
    rows = [line.split("|") for line in page.split("\n## Names\n")[1].splitlines() if line.startswith("|")]
    said = " ".join(re.findall("`(.*?)`", " ".join(row[2] for row in rows)))
    package = Path(importlib.util.find_spec("lerobot").submodule_search_locations[0])  # type: ignore[union-attr,index]
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    names = set(re.findall(r"[A-Za-z_]{2,}", said)) - {"KEY_is_pad"}
    assert len(names) > 20 and [name for name in names if not re.search(rf"\b{name}\b", source)] == []
