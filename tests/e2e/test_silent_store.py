"""A store that accepts requests and never answers: Ctrl-C, SIGTERM and a dead parent end everything within 5 s."""

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import watching
from penstock.loader import processes
from penstock.store.remote.opening import open_remote
from penstock.store.remote.remote import StoreUnavailable
from tests.conftest import S3Prefix
from tests.e2e.bucket import remote_run, upload
from tests.e2e.silent import children
from tests.loader.test_processes import alive
from tests.servers.faultproxy import FaultProxy, Rule
from tests.shards import write_shards

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SILENT = Rule("delay", method="", seconds=3600)
# What is promised, and what a busy machine takes to start and to schedule anything at all.
PROMISED_SECONDS = 5.0
MARGIN_SECONDS = 5.0
KEPT = {"warm": "stays in the cache", "pull": "stays in the folder", "index": "is kept"}
SHARDS = {"assamese": [40, 40, 40], "bengali": [40, 40, 40]}


@pytest.fixture
def config(tmp_path: Path, s3: S3Prefix, proxy: FaultProxy) -> Path:
    """A run over a bucket with a few shards, whose cache holds nothing yet."""
    write_shards(tmp_path, SHARDS, bytes_each=3_000)
    upload(s3, tmp_path)
    run = remote_run(s3, proxy, tmp_path, global_batch_size=4, prefetch={"steps": 1})
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run, default=str))
    return path


@contextmanager
def waiting(how: str, config: Path, proxy: FaultProxy) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run, and its workers, that wait for a store which has just fallen silent."""
    command = [sys.executable, "-m", "tests.e2e.silent", how, str(config)]
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, start_new_session=True)
    assert run.stdin is not None and run.stdout is not None
    workers = [int(pid) for pid in run.stdout.readline().split()[1:]]
    try:
        proxy.rules(SILENT)
        run.stdin.write("\n")
        run.stdin.flush()
        wait_until(lambda: any(entry.fault for entry in proxy.log()))
        time.sleep(0.5)  # so that all threads meet it
        yield run, workers
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


# Each takes some seconds, so not every pair is tried in every run of the tests; PENSTOCK_FAULTS=full tries all.
FULL = os.environ.get("PENSTOCK_FAULTS") == "full"
EVERY_RUN = [
    (how, signum)
    for how in ("none", "threads", "processes", "dataloader")
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
]
EVERY_COMMAND = [
    (command, signum) for command in ("warm", "pull", "index") for signum in (signal.SIGINT, signal.SIGTERM)
]
RUNS = EVERY_RUN if FULL else [EVERY_RUN[number] for number in (0, 3, 4, 6, 8, 11)]
COMMANDS = EVERY_COMMAND if FULL else [EVERY_COMMAND[number] for number in (0, 2, 5)]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def seconds_until_all_ended(run: subprocess.Popen[Any], workers: list[int]) -> float:
    began = time.monotonic()
    wait_until(lambda: run.poll() is not None and not any(map(alive, workers)))
    return time.monotonic() - began


@pytest.mark.parametrize(("how", "signum"), RUNS)
def test_a_run_and_its_workers_end_soon_after_ctrl_c_sigterm_or_a_dead_parent(
    config: Path, proxy: FaultProxy, how: str, signum: signal.Signals
) -> None:
    with waiting(how, config, proxy) as (run, workers):
        assert len(workers) >= (2 if how in ("processes", "dataloader") else 0)
        if signum is signal.SIGINT:
            os.killpg(run.pid, signum)  # as a terminal does
        else:
            run.send_signal(signum)
        assert seconds_until_all_ended(run, workers) < PROMISED_SECONDS + MARGIN_SECONDS
        if signum is signal.SIGINT:
            assert "KeyboardInterrupt" in run.communicate()[1]


def test_workers_end_with_their_parent_though_a_forked_child_of_it_lives_on(config: Path, proxy: FaultProxy) -> None:
    with waiting("forked", config, proxy) as (run, (child, *workers)):
        run.kill()
        assert alive(child) and len(workers) == 2
        assert seconds_until_all_ended(run, workers) < PROMISED_SECONDS + MARGIN_SECONDS


@pytest.mark.parametrize(("command", "signum"), COMMANDS)
def test_a_command_ends_soon_after_ctrl_c_and_sigterm(
    config: Path, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, command: str, signum: signal.Signals
) -> None:
    reached = ["--endpoint", proxy.url, "--region", "us-east-1"]
    arguments = {
        "warm": ["warm", config, "--steps", "3"],
        "pull": ["pull", s3.url, tmp_path / "pulled", *reached],
        "index": ["index", s3.url, "-o", tmp_path / "index", *reached],
    }
    proxy.rules(Rule("delay", method="GET", ranged=True, seconds=3600), Rule("delay", method="HEAD", seconds=3600))
    started = subprocess.Popen(
        [sys.executable, "-m", "penstock", *map(str, arguments[command])], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: any(entry.fault for entry in proxy.log()))
        time.sleep(0.5)
        started.send_signal(signum)
        assert seconds_until_all_ended(started, []) < PROMISED_SECONDS + MARGIN_SECONDS
    finally:
        started.kill()
        said = started.communicate()[1]
    assert "Traceback" not in said
    if signum is signal.SIGINT:
        (line,) = (line for line in said.splitlines() if line.startswith("stopped: "))
        assert KEPT[command] in line and started.returncode == 130


def test_a_listing_that_is_never_answered_can_be_interrupted_too(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    """It is asked for by the main thread itself."""
    proxy.rules(SILENT)
    command = ["pull", s3.url, str(tmp_path / "pulled"), "--endpoint", proxy.url, "--region", "us-east-1"]
    started = subprocess.Popen([sys.executable, "-m", "penstock", *command], cwd=ROOT)
    try:
        wait_until(lambda: any(entry.fault for entry in proxy.log()))
        started.send_signal(signal.SIGINT)
        assert seconds_until_all_ended(started, []) < PROMISED_SECONDS + MARGIN_SECONDS
    finally:
        started.kill()
        started.wait()


def opened(config: Path, **remote: Any) -> penstock.Feed:
    run = json.loads(config.read_text())
    return penstock.open({**run, "remote": {**run["remote"], **remote}}, rank=0, world=1)


def test_a_request_without_a_byte_is_retried_after_the_configured_time_and_logged(
    config: Path, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    feed = opened(config, timeout_seconds=0.5)
    proxy.rules(Rule("delay", method="", seconds=3600, times=1))
    assert feed.batch(0)["step"] == 0
    (said,) = {
        record.getMessage().split(" after ")[0] for record in caplog.records if "retrying" in record.getMessage()
    }
    assert said.startswith("s3://") and said.endswith("timed out")
    assert opened(config).catalog.resident(0, 0)[0].unit.store.remote._options.timeout_seconds == 30


@pytest.mark.parametrize("engine", [{"threads": 0}, {"threads": 2}])
def test_a_step_that_waits_long_says_for_what(
    config: Path,
    proxy: FaultProxy,
    engine: dict[str, int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "LONG_SECONDS", 0.5)
    feed = opened(config)
    with feed.loader(**engine) as loader:
        proxy.rules(Rule("delay", method="", seconds=2.5, times=8))
        assert next(loader)["step"] == 0
    said = [record.getMessage() for record in caplog.records if record.name == "penstock.feed.watching"]
    assert said and all("has taken" in text for text in said)
    assert any(text.startswith("step 0 has taken") and "it waits for s3://" in text for text in said), said


def test_a_worker_that_does_not_answer_is_named(
    config: Path, proxy: FaultProxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SILENT_SECONDS", 0.5)
    with opened(config).loader(workers=2) as loader:
        next(loader)
        stopped = loader_workers(os.getpid())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            timer = subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {' '.join(map(str, stopped))}"])
            steps = [next(loader)["step"] for _ in range(8)]
            timer.wait()
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    assert steps == list(range(1, 9))
    assert any(f"worker process {pid} has not answered" in caplog.text for pid in stopped)


def loader_workers(pid: int) -> list[int]:
    return [pid for pid in children(pid) if b"penstock.loader.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_store_that_stays_silent_is_given_up_with_one_line(s3: S3Prefix, proxy: FaultProxy) -> None:
    s3.put("a", b"abc")
    options = dataclasses.replace(s3.through(proxy), timeout_seconds=0.3, retry_seconds=1.5)
    remote = open_remote(s3.url, options)
    assert remote.head("a").size == 3
    proxy.rules(SILENT)
    with pytest.raises(StoreUnavailable, match=r"timed out; gave up after \d tries") as caught:
        remote.head("a")
    assert "\n" not in str(caught.value)
