"""``examples/speech/asr.py``: trains on texts in batches by length, is killed, and goes on with other ranks."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import soundfile

from tests.recipes.test_speech import SPEECH

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "speech" / "asr.py"
PATIENCE = 300

pytestmark = pytest.mark.length

TEXTS = {
    "2412-153948-0001.flac": "IT WAS A MATTER OF COURSE",
    "LJ002-0020.wav": "THE COMMON SIDE, IT'S CALLED",
    "libri-1088-134315-0000.wav": "AS YOU KNOW",
}
LIBRISPEECH = """\
recipe: speech
manifest: train.index
store: LibriSpeech
seed: 7
batch: {seconds: 12, units: 2}
usage: {log: usage.jsonl}
speech: {crop: full, text_field: text, json_fields: [speaker], augment: {speed: [0.9, 1.0, 1.1], spec_augment: true}}
"""


def run(folder: Path, *arguments: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *launcher, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def penstock_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def trained(folder: Path) -> tuple[dict[int, list[str]], dict[int, float]]:
    """Ids and the summed loss of each step, over all ranks and units; the last report counts."""
    units: dict[int, dict[tuple[str, ...], float]] = defaultdict(dict)
    for log in folder.glob("trained.*.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            units[line["step"]][tuple(line["ids"])] = line["loss"]
    ids = {step: sorted(name for own in units[step] for name in own) for step in units}
    return ids, {step: sum(units[step].values()) for step in units}


def write_librispeech(folder: Path) -> None:
    """Parts of real recordings, as LibriSpeech has them: one speaker per recording, 1 to 3 s each."""
    for speaker, (file, text) in enumerate(TEXTS.items(), 100):
        chapter = folder / "train-clean-100" / str(speaker) / "7"
        chapter.mkdir(parents=True)
        sound, rate = soundfile.read(SPEECH / file)
        names = [f"{speaker}-7-{number:04}" for number in range(10)]
        for number, name in enumerate(names):
            start = number * rate // 20
            soundfile.write(chapter / f"{name}.flac", sound[start : start + rate * (2 + number % 5) // 2], rate)
        (chapter / f"{speaker}-7.trans.txt").write_text("".join(f"{name} {text}\n" for name in names))


def test_real_recordings_of_a_librispeech_folder_are_trained_on_two_processes_and_then_on_one(tmp_path: Path) -> None:
    write_librispeech(tmp_path / "LibriSpeech")
    (tmp_path / "run.yaml").write_text(LIBRISPEECH)
    made = penstock_command(
        tmp_path, "index", "LibriSpeech", "-o", "train.index", "--librispeech", "--text-field", "text"
    )
    assert made.returncode == 0, made.stderr
    assert "30 items" in made.stdout
    for ranks, steps in ((2, 12), (1, 24)):
        done = run(tmp_path, "run.yaml", "run", "--steps", str(steps), ranks=ranks)
        assert done.returncode == 0, done.stderr
    ids, losses = trained(tmp_path / "run")
    assert list(ids) == list(range(24))
    first, last = (sum(losses[step] / len(ids[step]) for step in steps) for steps in (range(6), range(18, 24)))
    assert last < 0.8 * first, "it learns"


def test_a_run_on_two_processes_goes_on_with_one_and_trains_the_same_steps(tmp_path: Path) -> None:
    made = run(tmp_path, "--demo", "demo")
    assert made.returncode == 0, made.stderr
    for name, ranks, steps in (("whole", 1, 20), ("moved", 2, 10), ("moved", 1, 20)):
        done = run(tmp_path, "demo/run.yaml", name, "--steps", str(steps), ranks=ranks)
        assert done.returncode == 0, done.stderr
    ids, losses = trained(tmp_path / "whole")
    moved_ids, moved_losses = trained(tmp_path / "moved")
    assert moved_ids == ids
    assert list(ids) == list(range(20))
    assert moved_losses == pytest.approx(losses, rel=1e-3)
    assert sum(losses[step] for step in range(15, 20)) < sum(losses[step] for step in range(5)), "it learns"
