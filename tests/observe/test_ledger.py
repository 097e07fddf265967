"""The ledger: every batch that was handed out, in whole lines, from however many processes."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.ledger import KEYS, Ledger
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
    return [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("engine", [{"threads": 0}, {"threads": 3}, {"workers": 2}])
def test_a_line_every_so_many_steps_tells_what_was_handed_out(folder: Path, engine: dict[str, int]) -> None:
    feed = opened(folder)
    with feed.loader(**engine) as loader:
        batches = [next(loader) for _ in range(12)]
    told = lines(folder)
    assert [line["steps"] for line in told] == [[0, 5], [5, 10], [10, 12]], "what was made ahead does not count"
    shards = [[line.group for line in feed.lines(step)] for step in range(12)]
    for line in told:
        assert line.keys() == KEYS | {"ids"}
        mine = range(*line["steps"])
        assert line["samples"] == 6 * len(mine)
        assert line["sources"] == Counter(source for step in mine for source in batches[step]["sources"])
        assert line["shards"] == Counter(shard for step in mine for shard in shards[step])
        assert line["bad"] == [] and line["cache"] == {} and line["pid"] == os.getpid()
        assert line["ids"] == [
            [f"{shard}:{name}" for shard, name in zip(shards[step], batches[step]["ids"], strict=True)] for step in mine
        ]


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
    items = len(feed.manifest)
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
    told = [line["cache"] for line in lines(folder)]
    asked = len(proxy.log("GET"))
    assert sum(each["requests"] for each in told[:3]) == asked > 0
    assert [each["requests"] for each in told[3:]] == [0, 0, 0], "all was in the cache already"
    assert all(each["hits"] > 0 for each in told[3:])


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
