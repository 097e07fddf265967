"""One rank of a run that goes on with other ranks and workers: ``python -m tests.frameworks.elastic TASK MADE``."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import penstock


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch with arrays in place of tensors."""
    made = {key: plain(value) if isinstance(value, dict) else value for key, value in batch.items()}
    return {key: np.asarray(value) if hasattr(value, "numpy") else value for key, value in made.items()}


def main(task: dict[str, Any]) -> dict[str, Any]:
    """Take some batches of a run. Returns them, and the state after them."""
    with penstock.open(task["config"]).loader(**task["engine"]) as loader:
        if task["state"]:
            loader.load_state_dict(task["state"])
        return {"batches": [plain(next(loader)) for _ in range(task["steps"])], "state": loader.state_dict()}


if __name__ == "__main__":
    made = main(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_bytes(pickle.dumps(made))
