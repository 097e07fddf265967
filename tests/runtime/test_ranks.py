"""Which rank a process is: as given, as torch.distributed says, as its launcher says, as a device mesh says."""

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

import penstock
from penstock.runtime.ranks import of_mesh
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


@pytest.mark.long
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


@pytest.fixture
def meshes() -> Iterator[Callable[..., DeviceMesh]]:
    """Real meshes of any rank in this process, over a process group that sends nothing."""

    def mesh(rank: int, **sizes: int) -> DeviceMesh:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=math.prod(sizes.values()))
        return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))

    yield mesh
    if dist.is_initialized():
        dist.destroy_process_group()


def test_processes_that_differ_only_in_other_dimensions_have_one_rank(meshes: Callable[..., DeviceMesh]) -> None:
    places = [of_mesh(meshes(rank, pp=2, dp=2, tp=2)["dp"]) for rank in range(8)]
    assert places == [(0, 2, True), (0, 2, False), (1, 2, True), (1, 2, False)] + 2 * [(0, 2, False)] + 2 * [
        (1, 2, False)
    ]


def test_several_dimensions_count_as_one(meshes: Callable[..., DeviceMesh]) -> None:
    places = [of_mesh(meshes(rank, replicate=2, shard=3, tp=2)["replicate", "shard"]) for rank in range(12)]
    assert places == [(rank // 2, 6, rank % 2 == 0) for rank in range(12)]
    assert of_mesh(meshes(5, dp=6)) == (5, 6, True)


def test_a_feed_takes_its_rank_from_a_mesh_and_one_process_records(
    folder: Path, meshes: Callable[..., DeviceMesh]
) -> None:
    run = small_run(folder, global_batch_size=8, usage={"log": folder / "usage.jsonl", "every": 1})
    seen = []
    for rank in range(4):
        feed = penstock.open(run, mesh=meshes(rank, dp=2, tp=2)["dp"])
        with feed.loader(threads=0) as loader:
            seen.append(next(loader)["ids"])
        assert pickle.loads(pickle.dumps(feed)).open_ledger() is None or rank % 2 == 0
    whole = penstock.open(run, rank=0, world=1).batch(0)["ids"]
    assert seen == [whole[:4], whole[:4], whole[4:], whole[4:]]
    lines = [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines()]
    assert [(line["rank"], line["world"]) for line in lines] == [(0, 2), (1, 2)]


def test_a_mesh_and_a_rank_are_not_both_given(folder: Path, meshes: Callable[..., DeviceMesh]) -> None:
    with pytest.raises(ValueError, match="give mesh, or rank and world, not both"):
        penstock.open(small_run(folder, batch_size=4), mesh=meshes(0, dp=2), rank=0)


def test_a_process_outside_of_the_mesh_is_told_so(meshes: Callable[..., DeviceMesh]) -> None:
    meshes(3, dp=4)
    with pytest.raises(ValueError, match="this process is not in the mesh"):
        of_mesh(DeviceMesh("cpu", [0, 1]))
