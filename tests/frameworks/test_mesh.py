"""Tensor × data parallel on 2 × 2 processes: examples/frameworks/mesh.py, killed, and resumed on 1 × 2."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.cli.commands import run as command
from tests.frameworks.runs import planned, resumes, steps_of, torchrun, trained
from tests.golden.runs import text_record
from tests.recipes.chat_runs import write_records
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

STEPS = 60


def write_config(folder: Path) -> Path:
    """Write a run over two sources, with a usage ledger."""
    byte_level(chat_template=CHATML).save_pretrained(folder / "tokenizer")
    paths = [write_records(folder, map(text_record, range(21)), "a.jsonl")]
    paths += [write_records(folder, map(text_record, range(21, 35)), "b.jsonl")]
    run = {
        "recipe": "chat",
        "global_batch_size": 4,
        "mixture": {"weights": "equal"},
        "cache": {"dir": folder / "cache", "size": "1GB"},
        "sources": [{"name": path.stem, "dtype": "conversation", "path": path} for path in paths],
        "chat": {"tokenizer": folder / "tokenizer", "max_length": 64},
        "usage": {"log": folder / "usage.jsonl", "every": 4},
    }
    config = folder / "run.yaml"
    config.write_text(json.dumps(run, default=str))
    return config


@pytest.mark.shows("tensor × data parallel", "two processes")
@pytest.mark.shows("tensor × data parallel", "mixture")
@pytest.mark.shows("tensor × data parallel", "evaluation")
@pytest.mark.shows("tensor × data parallel", "endless run")
@pytest.mark.shows("tensor × data parallel", "kill -9")
@pytest.mark.shows("tensor × data parallel", "checkpoint and resume")
@pytest.mark.shows("tensor × data parallel", "resume on another world")
@pytest.mark.timeout(900)
def test_the_ranks_of_a_tensor_group_get_the_same_batches(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    evaluate = tmp_path / "eval.yaml"
    evaluate.write_text(json.dumps({**json.loads(config.read_text()), "usage": None}))
    folder = tmp_path / "run"

    def started(processes: int) -> Any:
        return torchrun("mesh.py", config, evaluate, folder, f"--steps={STEPS}", folder=folder, processes=processes)

    with started(4) as run:
        run.kill_after(17)
    assert max(steps_of(folder, 0)) < STEPS - 1, "killed too late"
    with started(2) as run:
        run.finish()
    assert trained(folder) == trained(folder, "trained-tp1") == planned(penstock.open(config), STEPS)
    assert all(step % 5 == 0 for step in resumes(folder))
    records = planned(penstock.open(evaluate, passes=1), 9)  # 35 records
    assert trained(folder, "evaluated") == trained(folder, "evaluated-tp1") == records
    result = command("usage", tmp_path / "usage.jsonl", "--check", config)
    assert result.exit_code == 0 and f"all {4 * STEPS} samples agree with the plan" in result.output, result.output
