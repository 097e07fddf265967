"""A run over all recipes, saved on 4 ranks with 2 workers each, goes on on 2 × 3, and then on 1 without workers."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from tests.feed.test_parts import write_clips
from tests.frameworks.elastic import plain
from tests.frameworks.runs import PATIENCE, REPOSITORY, environment
from tests.golden.runs import text_record
from tests.pipelines.test_robot_parity import NAMES, ROBOT
from tests.recipes.chat_runs import write_records
from tests.shards import write_shards
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

STEPS = 3  # of each part of the run
PARTS: list[tuple[int, dict[str, int]]] = [(4, {"workers": 2}), (2, {"workers": 3}), (1, {"threads": 0})]


def write_config(folder: Path) -> Path:
    """Write small data of every recipe, and the config of one run over all of them."""
    for name in ("raw", "speech", "chat"):
        (folder / name).mkdir()
    write_shards(folder / "raw", {"tamil": [5, 7, 4]})
    write_clips(folder / "speech", {"hindi": [5, 4, 6]})
    byte_level(chat_template=CHATML).save_pretrained(folder / "tokenizer")
    chat = write_records(folder / "chat", map(text_record, range(40)))
    sources = [
        {"recipe": name, "name": name, "store": folder / name, "filelist": folder / name / "train.tsv"}
        for name in ("raw", "speech")
    ]
    sources += [{"recipe": "chat", "name": "chat", "dtype": "conversation", "path": chat}]
    sources += [{"recipe": "robot", "name": name, "store": ROBOT / name} for name in NAMES]
    run = {
        "seed": 5,
        "global_batch_size": 16,
        "mixture": {"weights": "equal"},
        "pool": 2,
        "cache": {"dir": folder / "cache", "size": "1GB"},
        "sources": sources,
        "speech": {"crop": "0.5s"},
        "chat": {"tokenizer": folder / "tokenizer", "max_length": 256, "pack": True},
    }
    config = folder / "run.yaml"
    config.write_text(json.dumps(run, default=str))
    return config


def run_part(folder: Path, world: int, task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one process per rank, and return what each made."""
    given = folder / f"{world}.json"
    given.write_text(json.dumps(task, default=str))
    made = [folder / f"{world}.{rank}.pickle" for rank in range(world)]
    command = [sys.executable, "-m", "tests.frameworks.elastic", str(given)]
    ranks = [
        subprocess.Popen([*command, str(made[rank])], cwd=REPOSITORY, env=environment(RANK=rank, WORLD_SIZE=world))
        for rank in range(world)
    ]
    try:
        assert [rank.wait(3 * PATIENCE) for rank in ranks] == [0] * world
    finally:
        for rank in ranks:
            rank.kill()
    return [pickle.loads(path.read_bytes()) for path in made]


def joined(parts: list[dict[str, Any]], size: int) -> dict[str, Any]:
    """Return the global batch of the batches of all ranks. What is not one value per sample is the same on each.

    Args:
        parts: Batch of each rank.
        size: Number of samples per rank, of all recipes.
    """
    sizes = [(len(part["ids"]),) for part in parts]
    whole = {}
    for key, value in parts[0].items():
        values = [part[key] for part in parts]
        if isinstance(value, list):
            whole[key] = [each for own in values for each in own]
        elif key == "label_tokens":  # of the rank; global_label_tokens are of the step
            whole[key] = sum(values)
        elif key == "max_seqlen":
            whole[key] = max(values)
        elif key == "slots":
            whole[key] = np.concatenate([each + rank * size for rank, each in enumerate(values)])
        elif key == "cu_seqlens":  # ends of the members of packs, counted from the beginning of the rank's batch
            lengths = np.concatenate([np.diff(each) for each in values])
            whole[key] = np.concatenate([[0], lengths.cumsum()]).astype(value.dtype)
        elif key == "sample_rows":  # row of the rank's batch in which each member lies
            before = np.cumsum([0, *(size for (size,) in sizes)])
            whole[key] = np.concatenate([each + rows for each, rows in zip(values, before, strict=False)])
        elif isinstance(value, np.ndarray) and [each.shape[:1] for each in values] == sizes:
            whole[key] = np.concatenate(values)
        else:
            assert all(np.array_equal(value, each) for each in values), key
            whole[key] = value
    return whole


def require_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[key].dtype == value.dtype and np.array_equal(found[key], value), key
        else:
            assert found[key] == value, key


@pytest.mark.shows("feed.loader()", "two processes")
@pytest.mark.shows("feed.loader()", "mixture")
@pytest.mark.shows("feed.loader()", "endless run")
@pytest.mark.shows("feed.loader()", "checkpoint and resume")
@pytest.mark.shows("feed.loader()", "resume on another world")
@pytest.mark.timeout(1800)  # 21 processes in all, which import torch
def test_a_run_of_all_recipes_goes_on_with_other_ranks_and_workers(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    feed = penstock.open(config, rank=0, world=1)
    state = None
    for number, (world, engine) in enumerate(PARTS):
        ranks = run_part(tmp_path, world, {"config": config, "engine": engine, "state": state, "steps": STEPS})
        for at in range(STEPS):
            whole = plain(feed.batch(number * STEPS + at))
            assert whole.keys() == {"step", "raw", "speech", "chat", "robot"}
            for recipe in whole.keys() - {"step"}:
                made = [rank["batches"][at][recipe] for rank in ranks]
                require_equal(joined(made, 16 // world), whole[recipe])
        state = ranks[0]["state"]
        assert all(rank["state"] == state for rank in ranks) and len(json.dumps(state)) < 1000
