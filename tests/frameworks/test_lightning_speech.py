"""The example for Lightning: two processes, killed in the middle, resumed on two and on one."""

import io
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import penstock
from tests.frameworks.runs import planned, resumes, torchrun, trained
from tests.readers.tar.archives import write_tar

SCRIPT = "lightning_speech.py"
STEPS = 12  # of the optimizer, two batches each
BATCHES = 2 * STEPS


def clip(number: int) -> bytes:
    sound = np.random.default_rng(number).integers(-9_000, 9_000, 6_400).astype(np.int16)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(sound.tobytes())
    return buffer.getvalue()


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A mixture of three languages, and an evaluation of 23 clips in batches of 4: the last one has padding."""
    folder = tmp_path_factory.mktemp("speech")
    lines = []
    for number, (language, clips) in enumerate({"hindi": 11, "odia": 5, "tamil": 7}.items()):
        names = [f"{language}_{each}" for each in range(clips)]
        write_tar(folder / f"{language}.tar", [(f"{name}.wav", clip(7 * number + len(name))) for name in names])
        lines += [f"{language}.tar\t{name}\t{language}\t0.4\n" for name in names]
    (folder / "all.tsv").write_text("".join(lines))
    run = {"recipe": "speech", "global_batch_size": 4, "filelist": "all.tsv", "store": "."}
    run["speech"] = {"crop": "0.2s", "features": False}
    weights = {"mixture": {"weights": {"hindi": 3, "odia": 1, "tamil": 2}}}
    (folder / "train.yaml").write_text(yaml.safe_dump({**run, **weights}))
    (folder / "eval.yaml").write_text(yaml.safe_dump({**run, "passes": 1}))
    return folder / "train.yaml", folder / "eval.yaml"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "final.ckpt", weights_only=False)["state_dict"]
    return found


OPTIONS = ["--steps", STEPS, "--accumulate", 2]


@pytest.fixture(scope="module")
def whole(configs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two processes without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    with torchrun(SCRIPT, *configs, folder, *OPTIONS, folder=folder) as run:
        run.finish()
    return folder


@pytest.fixture(scope="module")
def killed(configs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed after its 14th batch. Its last checkpoint has 10."""
    folder = tmp_path_factory.mktemp("killed")
    with torchrun(SCRIPT, *configs, folder, *OPTIONS, folder=folder) as run:
        run.kill_after(13)
    return folder


@pytest.mark.shows("Lightning", "two processes")
@pytest.mark.shows("Lightning", "mixture")
@pytest.mark.shows("Lightning", "accumulation")
def test_two_processes_train_on_the_planned_batches(configs: tuple[Path, Path], whole: Path) -> None:
    assert trained(whole) == planned(penstock.open(configs[0]), BATCHES)
    assert resumes(whole) == resumes(whole, rank=1) == []


@pytest.mark.shows("Lightning", "evaluation")
def test_two_processes_evaluate_every_clip_once(configs: tuple[Path, Path], whole: Path) -> None:
    evaluation = planned(penstock.open(configs[1]), 6)
    assert sum(map(len, evaluation.values())) == 23
    assert trained(whole, "evaluated") == evaluation
    assert (whole / "output.txt").read_text().count("of 23 right") == BATCHES // 10


@pytest.mark.shows("Lightning", "resume on another world")
def test_a_killed_run_goes_on_with_one_process(configs: tuple[Path, Path], killed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(killed, tmp_path / "run")
    with torchrun(SCRIPT, *configs, folder, *OPTIONS, folder=folder, processes=1) as run:
        run.finish()
    assert trained(folder) == planned(penstock.open(configs[0]), BATCHES)
    assert resumes(folder) == [10]


@pytest.mark.shows("Lightning", "checkpoint and resume")
@pytest.mark.shows("Lightning", "kill -9")
@pytest.mark.shows("Lightning", "same weights")
def test_a_killed_run_ends_with_the_same_weights(
    configs: tuple[Path, Path], whole: Path, killed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(killed, tmp_path / "run")
    with torchrun(SCRIPT, *configs, folder, *OPTIONS, folder=folder) as run:
        run.finish()
    assert trained(folder) == planned(penstock.open(configs[0]), BATCHES)
    assert resumes(folder) == resumes(folder, rank=1) == [10]
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(folder)[name]), name
