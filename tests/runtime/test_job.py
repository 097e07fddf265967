"""A job's processes and the hub: one of them lists it, and all share one limit of requests."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock
from penstock.runtime import ranks
from penstock.runtime.atomicwrite import write_atomically
from penstock.store.remote.budget import RequestBudget
from penstock.store.remote.hublisting import list_once
from penstock.store.remote.web import Answer
from tests.servers.hub import Hub
from tests.shards import small_run, write_shards

LISTS = textwrap.dedent(
    """
    import os, sys, torch.distributed as dist
    from penstock.store.remote.opening import open_remote
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
    remote = open_remote("hf://datasets/org/name")
    print(*(key for key, _ in remote.list()), remote.resolve_url())
    sys.stdout.flush()
    dist.barrier()
    if not os.fork():
        # A forked child asks by itself: it must not use its parent's connection.
        try:
            open_remote("hf://datasets/org/name@other").resolve_url()
        finally:
            os._exit(0)
    os.wait()
    """
)


def list_on_two_nodes(folder: Path, hub: Hub, meeting: str) -> None:
    processes = []
    for rank in range(2):
        node = {"XDG_CACHE_HOME": str(folder / f"node-{rank}"), "HF_ENDPOINT": hub.url}
        command = [sys.executable, "-c", LISTS, str(folder / meeting), str(rank)]
        processes.append(subprocess.Popen(command, env=os.environ | node, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert said[0] == said[1] and said[0].count("part-") == 6
    assert [process.returncode for process in processes] == [0, 0]


@pytest.mark.long
def test_rank_0_lists_the_hub_and_other_nodes_take_its_list(tmp_path: Path) -> None:
    with Hub("org/name", {f"part-{number}.tar": b"1" * 10 for number in range(6)}, page=2) as hub:
        list_on_two_nodes(tmp_path, hub, "first")
        assert (hub.count("revision/main"), hub.count("/tree/"), hub.count("revision/other")) == (1, 3, 2)
        shutil.rmtree(tmp_path / "node-1")  # after a restart, another node
        list_on_two_nodes(tmp_path, hub, "second")
        assert hub.count("/tree/") == 3


def test_one_process_of_a_node_at_a_time_keeps_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_made = threading.Barrier(4)
    writing = threading.Lock()

    def made_by_rank_0(_: str, __: Callable[[], bytes]) -> bytes:
        all_made.wait(30)
        return json.dumps([("part-0.tar", 1, "1")]).encode()

    def write_alone(path: Path, pieces: list[bytes]) -> None:
        assert writing.acquire(blocking=False)
        time.sleep(0.05)
        write_atomically(path, pieces)
        writing.release()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("penstock.store.remote.hublisting.once_per_job", made_by_rank_0)
    monkeypatch.setattr("penstock.store.remote.hublisting.write_atomically", write_alone)
    with ThreadPoolExecutor(4) as threads:
        listed = [threads.submit(list_once, "http://hub/commit", "", no_request) for _ in range(4)]
        assert [list(each.result()) for each in listed] == [["part-0.tar"]] * 4


def no_request(url: str) -> Answer:
    raise AssertionError(f"the hub was asked for {url}")


@pytest.mark.parametrize(
    ("launcher", "nodes"),
    [
        ({"GROUP_WORLD_SIZE": "6", "WORLD_SIZE": "48", "LOCAL_WORLD_SIZE": "8"}, 6),
        ({"WORLD_SIZE": "48", "LOCAL_WORLD_SIZE": "8"}, 6),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 2),
        ({"SLURM_JOB_NUM_NODES": "5", "SLURM_STEP_NUM_NODES": "3"}, 3),
        ({"SLURM_JOB_NUM_NODES": "five"}, None),
        ({}, None),
    ],
)
def test_launchers_name_the_number_of_nodes(
    monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str], nodes: int | None
) -> None:
    for name in {name for pair in ranks._NODE_COUNTS for name in pair if name}:
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    assert ranks.nodes() == nodes


@pytest.mark.parametrize(("launcher", "lanes", "nodes"), [("", 1, 1), ("", 4, 4), ("8", 4, 8)])
def test_the_limit_of_requests_is_that_of_the_whole_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, lanes: int, nodes: int
) -> None:
    rates = []

    class Counted(RequestBudget):
        def __init__(self, name: str, per_second: float, folder: Path | None = None) -> None:
            rates.append(per_second)
            super().__init__(name, per_second, folder)

    write_shards(tmp_path)
    monkeypatch.setattr("penstock.store.remote.objects.RequestBudget", Counted)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", launcher)
    run = small_run(tmp_path, batch_size=4, lanes=lanes)
    remote = {"endpoint": "http://127.0.0.1:9", "requests_per_second": 80.0, "anonymous": True}
    feed = penstock.open({**run, "store": "s3://bucket/shards", "remote": remote})
    feed.catalog.open_stores()
    assert rates == [80 / nodes]
    assert feed.config.sources[0].keys.model_dump()["remote"]["requests_per_second"] == 80
