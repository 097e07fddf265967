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


@pytest.mark.shows("Lightning", "two processes")
@pytest.mark.shows("Lightning", "mixture")
@pytest.mark.shows("Lightning", "evaluation")
@pytest.mark.shows("Lightning", "accumulation")
@pytest.mark.shows("Lightning", "checkpoint and resume")
@pytest.mark.shows("Lightning", "resume on another world")
@pytest.mark.shows("Lightning", "kill -9")
@pytest.mark.shows("Lightning", "same weights")
def test_a_killed_run_goes_on_as_if_nothing_had_happened(configs: tuple[Path, Path], tmp_path: Path) -> None:
    whole, killed, fewer = tmp_path / "whole", tmp_path / "killed", tmp_path / "fewer"
    options = ["--steps", STEPS, "--accumulate", 2]
    with torchrun(SCRIPT, *configs, whole, *options, folder=whole) as run:
        output = run.finish()
    plan = planned(penstock.open(configs[0]), BATCHES)
    assert trained(whole) == plan
    assert resumes(whole) == resumes(whole, rank=1) == []

    evaluation = planned(penstock.open(configs[1]), 6)
    assert sum(map(len, evaluation.values())) == 23
    assert trained(whole, "evaluated") == evaluation
    assert output.count("of 23 right") == BATCHES // 10

    with torchrun(SCRIPT, *configs, killed, *options, folder=killed) as run:
        run.kill_after(13)  # the last checkpoint has 10 batches
    shutil.copytree(killed, fewer)
    with torchrun(SCRIPT, *configs, killed, *options, folder=killed) as run:
        run.finish()
    assert trained(killed) == plan
    assert resumes(killed) == [10]
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(killed)[name]), name

    with torchrun(SCRIPT, *configs, fewer, *options, folder=fewer, processes=1) as run:
        run.finish()
    assert trained(fewer) == plan
    assert resumes(fewer) == [10]
