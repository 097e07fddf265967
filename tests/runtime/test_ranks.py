"""Which rank a process is: as given, as torch.distributed says, as its launcher says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from tests.shards import small_run, write_shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path)
    return tmp_path


@pytest.mark.parametrize("engine", [{"threads": 0}, {"workers": 1}])
def test_a_loader_is_the_rank_that_the_launcher_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, engine: dict[str, int]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    feed = penstock.open(small_run(folder, batch_size=4))
    with feed.loader(**engine) as loader:
        assert next(loader)["ids"] == feed.batch(0, 1, 3)["ids"]
    assert feed.state(1)["segments"] == [[0, 0, 12]]


def test_what_is_given_wins_over_the_launcher(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    feed = penstock.open(small_run(folder, batch_size=4), rank=0, world=2)
    assert feed[0]["ids"] == feed.batch(0, 0, 2)["ids"]


def test_without_a_launcher_there_is_one_rank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    feed = penstock.open(small_run(folder, batch_size=4))
    assert (feed.rank, feed.world) == (0, 1)


def test_two_processes_of_torch_distributed_share_the_global_batches(folder: Path) -> None:
    script = folder / "train.py"
    script.write_text(
        "import json, sys, torch.distributed as dist\nfrom pathlib import PosixPath\nimport penstock\n"
        f"feed = penstock.open({small_run(folder, global_batch_size=8)!r})\n"
        "dist.init_process_group('gloo', init_method=f'file://{sys.argv[1]}', rank=int(sys.argv[2]), world_size=2)\n"
        "with feed.loader(workers=1) as loader:\n"
        "    ids = [next(loader)['ids'] for _ in range(6)]\n"
        "    states = [None, None]\n"
        "    dist.all_gather_object(states, loader.state_dict())\n"
        "print(json.dumps([feed.rank, ids, states]))\ndist.destroy_process_group()\n"
    )
    unset = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    ranks = [
        subprocess.Popen(
            [sys.executable, script, folder / "meet", str(rank)], env=unset, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    (zero, first, states), (one, second, _) = (json.loads(rank.communicate(timeout=200)[0]) for rank in ranks)
    assert (zero, one) == (0, 1)
    assert states[0] == states[1]
    feed = penstock.open(small_run(folder, global_batch_size=8), rank=0, world=1)
    assert [a + b for a, b in zip(first, second, strict=True)] == [feed.batch(step)["ids"] for step in range(6)]
