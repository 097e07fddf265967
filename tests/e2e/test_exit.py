"""Exit never hangs: processes that just end, with objects open and threads in the middle of something."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Prefix
from tests.e2e.bucket import remote_run, upload
from tests.servers.faultproxy import FaultProxy, Rule
from tests.shards import write_shards
from tests.smalldisk import small_disk

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SHARDS = {"assamese": [30, 30, 30, 30], "bengali": [30, 30, 30, 30]}
TIMES = int(os.environ.get("PENSTOCK_EXITS", "2"))  # per way to end; about 50 found the hang that this is about
AT_ONCE = 4
LONG_SECONDS = 60.0  # an exit takes one or two; a hang takes for ever


def written(path: Path, run: dict[str, Any]) -> Path:
    path.write_text(json.dumps(run, default=str))
    return path


def start(how: str, config: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.e2e.exits", how, str(config)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[str], deadline: float) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("a process hung at its exit") from None
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("how", "cached"), [("loader", False), ("walk", False), ("churn", False), ("churn", True), ("held", True)]
)
def test_processes_that_end_with_objects_open_and_threads_busy_all_end(
    tmp_path: Path, s3: S3Prefix, proxy: FaultProxy, how: str, cached: bool
) -> None:
    write_shards(tmp_path, SHARDS, bytes_each=10_000)
    upload(s3, tmp_path)
    if not cached:
        proxy.rules(Rule("slow", bytes_per_second=1e6))  # so that fetching ahead is under way at the end
    for batch in range(0, TIMES, AT_ONCE):
        runs = [
            remote_run(s3, proxy, tmp_path, part=65_536, cache="all" if cached else f"cache-{number}", batch_size=8)
            for number in range(batch, min(batch + AT_ONCE, TIMES))
        ]
        configs = [written(tmp_path / f"run-{batch}-{number}.json", run) for number, run in enumerate(runs)]
        started = [start(how, config) for config in configs]
        deadline = time.monotonic() + LONG_SECONDS
        assert [ended(process, deadline) for process in started] == [(0, "", "")] * len(started)


def test_processes_whose_cache_disk_is_full_all_end(tmp_path: Path, s3: S3Prefix, proxy: FaultProxy) -> None:
    write_shards(tmp_path, SHARDS, bytes_each=10_000)
    upload(s3, tmp_path)
    for number in range(TIMES):
        with small_disk(tmp_path / f"disk-{number}", 3 << 20) as disk:
            run = remote_run(s3, proxy, tmp_path, part=65_536, cache=disk.name, size=10**9, batch_size=8)
            deadline = time.monotonic() + LONG_SECONDS
            code, said, errors = ended(start("full", written(tmp_path / "run.json", run)), deadline)
            assert code == 0 and said.count("\n") == 1 and "Traceback" not in errors, errors
