"""``examples/speech/asr.py``: trains on texts in batches by length, is killed, and goes on with other ranks."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "speech" / "asr.py"
PATIENCE = 300

pytestmark = pytest.mark.long


def run(folder: Path, *arguments: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *launcher, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def trained(folder: Path) -> tuple[dict[int, list[str]], dict[int, float]]:
    """Ids and the summed loss of each step, over all ranks and units; the last report counts."""
    units: dict[int, dict[tuple[str, ...], float]] = defaultdict(dict)
    for log in folder.glob("trained.*.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            units[line["step"]][tuple(line["ids"])] = line["loss"]
    ids = {step: sorted(name for own in units[step] for name in own) for step in units}
    return ids, {step: sum(units[step].values()) for step in units}


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
