"""A training run in a process of its own, watched through its run folder."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.examples.conftest import SPEECH

PATIENCE = 120  # seconds, for a busy machine; nothing is measured by it


def overrides(clips: Path, folder: Path, **more: object) -> list[str]:
    """The command line of a tiny run over the test clips: the real config with everything made small."""
    settings: dict[str, object] = {
        "run_dir": folder,
        "dataset.name": "test",
        "dataset.store": clips,
        "dataset.filelist": clips / "train.tsv",
        "dataset.cache_dir": clips / "cache",
        "dataset.num_workers": 2,
        "dataset.global_batch_size": 4,
        "dataset.crop": "500ms",
        "model.hidden": 32,
        "model.semantic": 16,
        "model.discriminator": 2,
        "usage.every": 1,
        "usage.ids": True,
        "train.log_every": 1,
        "train.checkpoint_every": 1_000_000,
        "train.steps": 1_000_000,
    }
    return ["dataset=r2_indic", *(f"{key}={value}" for key, value in (settings | more).items())]


class Run:
    """``python examples/speech/train.py …`` with a run folder."""

    def __init__(self, clips: Path, folder: Path, **more: object) -> None:
        self.folder = folder
        command = [sys.executable, str(SPEECH / "train.py"), "--config-name", "indic_default"]
        self.process = subprocess.Popen(
            [*command, *overrides(clips, folder, **more)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def finish(self) -> str:
        """Wait for its good end; what it printed."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, output
        return output

    def wait_for(self, condition: Callable[["Run"], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition(self):
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended early: {self.process.communicate()[0]}")
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    def order(self, *words: str) -> None:
        subprocess.run([sys.executable, str(SPEECH / "control.py"), str(self.folder), *words], check=True)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    @property
    def steps(self) -> int:
        """How many batches it was handed."""
        return max(used(self.folder), default=-1) + 1

    def changes(self, key: str) -> list[dict[str, Any]]:
        path = self.folder / "changes.json"
        return [c for c in json.loads(path.read_text()) if c["key"] == key] if path.exists() else []


def used(folder: Path, rank: int = 0) -> dict[int, list[str]]:
    """``group:id`` of all samples of every step that a rank was handed; of a step that was repeated, the last."""
    path = folder / "logs" / "data_usage.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["steps"][0]: line["ids"][0] for line in lines if line["rank"] == rank}


def checkpoint(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "checkpoint.pt", weights_only=True)
    return content
