"""The ledger: every batch that was handed out, in whole lines, from however many processes."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import penstock
from penstock.feed import Feed
from penstock.feed.batches import BadSample
from penstock.observe.ledger import KEYS, Ledger
from penstock.observe.lines import read_lines
from penstock.observe.proof import differences
from penstock.observe.usage import summarise
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import small_run, write_shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path)
    return tmp_path


def opened(folder: Path, **options: Any) -> Feed:
    usage = {"log": folder / "usage.jsonl", "every": 5, "ids": True}
    return penstock.open(small_run(folder, **{"global_batch_size": 6, "usage": usage, **options}), rank=0, world=1)


def lines(folder: Path) -> list[dict[str, Any]]:
    # Between lines of several processes there may be an empty one.
    return [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines() if line]


@pytest.mark.parametrize("engine", [{"threads": 0}, {"threads": 3}, {"workers": 2}])
def test_a_line_every_so_many_steps_tells_what_was_handed_out(folder: Path, engine: dict[str, int]) -> None:
    feed = opened(folder)
    with feed.loader(**engine) as loader:
        batches = [next(loader) for _ in range(12)]
    told = lines(folder)
    assert [line["steps"] for line in told] == [[0, 5], [5, 10], [10, 12]], "what was made ahead does not count"
    groups = [[line.group for line in feed.lines(step)] for step in range(12)]
    for line in told:
        assert line.keys() == KEYS | {"ids"}
        mine = range(*line["steps"])
        assert line["samples"] == 6 * len(mine)
        assert line["sources"] == Counter(source for step in mine for source in batches[step]["sources"])
        assert line["groups"] == Counter(group for step in mine for group in groups[step])
        assert line["bad"] == [] and line["cache"] == {} and line["pid"] == os.getpid()
        assert (line["walk"], line["worker"]) == ("", 0)
        assert line["ids"] == [
            [f"{group}:{name}" for group, name in zip(groups[step], batches[step]["ids"], strict=True)] for step in mine
        ]


def sampled(feed: Feed, start: int, steps: int, **options: Any) -> list[int]:
    """The steps that a ``DataLoader`` hands out."""
    loader = DataLoader(feed, batch_size=None, sampler=feed.steps(start), **options)
    return [int(batch["step"]) for batch in islice(loader, steps)]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_each_worker_of_a_dataloader_tells_of_its_own_steps(folder: Path, context: str) -> None:
    feed = opened(folder, passes=1)
    sampled(feed, 0, len(feed), num_workers=2, multiprocessing_context=context)
    told = lines(folder)
    assert sorted(line["steps"] for line in told) == [[step, step + 1] for step in range(len(feed))]
    assert all(line["worker"] == line["steps"][0] % 2 for line in told)
    assert len({line["walk"] for line in told}) == 1 and told[0]["walk"]
    assert len({line["pid"] for line in told} - {os.getpid()}) == 2
    assert [differences(feed, line) for line in told] == [[]] * len(told)


def test_workers_of_a_trainer_that_seeds_torch_alike_at_every_start_are_told_apart(folder: Path) -> None:
    for start, steps in ((0, 14), (11, 5)):  # 11 was worker 1's, and is worker 0's after the restart
        torch.manual_seed(0)
        feed = opened(folder)
        sampled(feed, start, steps, num_workers=2, multiprocessing_context="fork")
    usage = summarise(read_lines(folder / "usage.jsonl"), feed)
    steps = sorted(line["steps"][0] for line in usage.lineage.lines)
    assert len(steps) >= 16, "workers may have made some more than were handed out"
    assert steps == list(range(len(steps))) and usage.lineage.gaps == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataloader_without_several_workers_writes_lines_of_many_steps(folder: Path, workers: int) -> None:
    feed = opened(folder, passes=1)
    sampled(feed, 0, len(feed), num_workers=workers, **({"multiprocessing_context": "fork"} if workers else {}))
    feed.state(len(feed))
    told = lines(folder)
    assert [line["steps"] for line in told] == [[0, 5], [5, len(feed)]]
    assert {(line["walk"], line["worker"]) for line in told} == {("", 0)}


def test_without_ids_lines_stay_short(folder: Path) -> None:
    feed = opened(folder, usage={"log": folder / "usage.jsonl", "every": 5})
    with feed.loader(threads=0) as loader:
        next(loader)
    assert [line.keys() for line in lines(folder)] == [KEYS]


def test_steps_that_do_not_follow_each_other_are_in_lines_of_their_own(folder: Path) -> None:
    feed = opened(folder, usage=None)
    ledger = Ledger(feed, folder / "deep" / "usage.jsonl", every=100)
    for step in (3, 4, 9, 2):
        ledger.record(feed.batch(step), stalled=0.5)
    ledger.flush()
    ledger.flush()
    told = [json.loads(line) for line in (folder / "deep" / "usage.jsonl").read_text().splitlines()]
    assert [(line["steps"], line["stalls"]) for line in told] == [
        ([3, 5], [0.5, 0.5]),
        ([9, 10], [0.5]),
        ([2, 3], [0.5]),
    ]


def test_padding_has_no_name_and_does_not_count(folder: Path) -> None:
    feed = opened(folder, passes=1, global_batch_size=25)
    with feed.loader(threads=0) as loader:
        batches = list(loader)
    (line,) = lines(folder)
    items = sum(feed.catalog.amounts["items"])
    assert line["samples"] == items == sum(map(bool, sum(line["ids"], [])))  # noqa: RUF017
    assert [bool(name) for name in line["ids"][1]] == batches[1]["valid"].tolist()


def test_cache_counts_are_those_of_the_run_and_not_of_the_folders_life(
    folder: Path, s3: S3Prefix, proxy: FaultProxy
) -> None:
    upload(s3, folder)
    index(s3, folder)
    usage = {"log": folder / "usage.jsonl", "every": 2}
    run = remote_run(s3, proxy, folder, global_batch_size=6, usage=usage)
    for _ in range(2):
        feed = penstock.open(run, rank=0, world=1)
        with feed.loader(threads=0) as loader:
            for _ in range(6):
                next(loader)
        feed.close()
    held = [line["cache_held"] for line in lines(folder)]
    assert all(0 < nbytes <= bound == 10**9 for nbytes, bound in held), "the bytes in the cache, and its bound"
    told = [line["cache"] for line in lines(folder)]
    asked = len(proxy.log("GET"))
    assert sum(each["requests"] for each in told[:3]) == asked > 0
    assert [each["requests"] for each in told[3:]] == [0, 0, 0], "all was in the cache already"
    assert all(each["hits"] > 0 for each in told[3:])


@pytest.mark.long
def test_a_script_that_just_ends_has_told_all_it_used(folder: Path) -> None:
    script = (
        "import sys, json, pathlib, penstock\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "from tests.observe.test_ledger import opened\n"
        "for number, batch in enumerate(opened(folder).loader()):\n"
        "    if number == 6: break\n"
    )
    subprocess.run([sys.executable, "-c", script, folder], check=True, cwd=Path(__file__).parents[2])
    assert [line["steps"] for line in lines(folder)] == [[0, 5], [5, 7]]


@pytest.mark.long
def test_what_a_saved_state_has_seen_outlives_a_kill(folder: Path) -> None:
    script = (
        "import os, signal, sys, pathlib\n"
        "from tests.observe.test_ledger import opened\n"
        "loader = opened(pathlib.Path(sys.argv[1])).loader(threads=0)\n"
        "for _ in range(7): next(loader)\n"
        "assert loader.state_dict()['step'] == 7\n"
        "next(loader)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, folder], check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    assert [line["steps"] for line in lines(folder)] == [[0, 5], [5, 7]]


@pytest.mark.long
def test_a_forked_child_that_ends_does_not_tell_its_parents_steps_again(folder: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from tests.observe.test_ledger import opened\n"
        "loader = opened(pathlib.Path(sys.argv[1])).loader(threads=0)\n"
        "for _ in range(7): next(loader)\n"
        "child = os.fork()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
        "sys.exit(0)\n"  # finalizers run in both
    )
    subprocess.run([sys.executable, "-c", script, folder], check=True, cwd=Path(__file__).parents[2])
    assert [line["steps"] for line in lines(folder)] == [[0, 5], [5, 7]]
    assert len({line["pid"] for line in lines(folder)}) == 1


@pytest.mark.long
def test_lines_of_several_processes_do_not_tear(folder: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from penstock.observe.ledger import Ledger\n"
        "from tests.observe.test_ledger import opened\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "feed = opened(folder, global_batch_size=600)\n"
        "ledger = Ledger(feed, folder / 'usage.jsonl', every=1, ids=True)\n"
        "batch = feed.batch(0)\n"
        "for step in range(50): ledger.record({**batch, 'step': step})\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    writers = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(2)]
    assert [writer.wait(timeout=200) for writer in writers] == [0, 0]
    told = lines(folder)
    assert Counter(line["pid"] for line in told) == {writer.pid: 50 for writer in writers}
    assert len(json.dumps(told[0])) > 10_000, "far more than a page"


def test_a_short_run_with_workers_counts_its_reads_of_the_cache(folder: Path, s3: S3Prefix, proxy: FaultProxy) -> None:
    upload(s3, folder)
    index(s3, folder)
    run = remote_run(s3, proxy, folder, global_batch_size=6, usage={"log": folder / "usage.jsonl", "every": 4})
    for _ in range(2):
        with penstock.open(run, rank=0, world=1).loader(workers=2) as loader:
            for _ in range(8):
                next(loader)
    cold = [line["cache"] for line in lines(folder)[:2]]
    warm = [line["cache"] for line in lines(folder)[2:]]
    assert sum(each["requests"] for each in cold) > 0
    assert sum(each["requests"] for each in warm) == 0
    assert sum(each["hits"] for each in warm) >= 8 * 6, "at least one read per sample"


def test_a_name_that_is_not_utf_8_costs_no_line(folder: Path) -> None:
    feed = opened(folder)
    ledger = Ledger(feed, folder / "odd.jsonl", every=1)
    batch = feed.batch(0)
    bad = BadSample(slot=0, row=0, group="a", id="b", reason="has t\udcff, but no wav")
    ledger.record({**batch, "bad": [bad]})
    ledger.close()
    (line,) = read_lines(folder / "odd.jsonl")
    assert line is not None
    assert line["bad"][0]["reason"] == "has t?, but no wav"
