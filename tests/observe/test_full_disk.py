"""A ledger whose disk is full, or that can't be written for another reason, costs neither a batch nor a checkpoint."""

import json
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import penstock
from penstock.feed import Feed
from penstock.observe import appending
from penstock.observe.appending import LineFile
from penstock.observe.lines import read_lines
from penstock.observe.proof import differences
from penstock.observe.usage import summarise
from tests.cli.commands import run
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import small_run, write_shards
from tests.smalldisk import fill, small_disk

STEPS = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shards(tmp_path)
    return tmp_path


def opened(folder: Path, log: Path, **options: Any) -> Feed:
    usage = {"log": log, "every": 5, "ids": True}
    return penstock.open(small_run(folder, global_batch_size=6, usage=usage, **options), rank=0, world=1)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """While it is open, a write beyond so many bytes of a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def spans(log: Path) -> list[list[int]]:
    return [json.loads(line)["steps"] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("engine", [{"threads": 0}, {"threads": 2}, {"workers": 2}])
def test_a_ledger_that_is_always_full_costs_no_batch_and_no_checkpoint(
    folder: Path, engine: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    feed = opened(folder, Path("/dev/full"))
    with feed.loader(**engine) as loader:
        for step in range(STEPS):
            assert next(loader)["step"] == step
            assert loader.state_dict() == feed.state(step + 1)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("penstock")]
    assert said == [
        "usage ledger /dev/full: No space left on device; the run continues, and lines are kept in memory to be "
        "written later",
        f"usage ledger /dev/full: steps 0:{STEPS} could not be written and are missing",
    ]


def test_a_dataloader_goes_on_too(folder: Path) -> None:
    feed = opened(folder, Path("/dev/full"))
    for workers in (0, 2):
        options: dict[str, Any] = {"multiprocessing_context": "fork"} if workers else {}
        loader = DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=workers, **options)
        assert [int(batch["step"]) for batch in islice(loader, STEPS)] == list(range(STEPS))
    assert feed.state(STEPS)["step"] == STEPS


def test_lines_that_waited_are_written_when_there_is_room_again_and_none_is_torn(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = folder / "usage.jsonl"
    feed = opened(folder, log)
    with feed.loader(threads=0) as loader:
        for _ in islice(loader, 12):
            pass
        with files_of_at_most(log.stat().st_size + 100):  # room for a part of a line
            for _ in islice(loader, 20):
                pass
            assert loader.state_dict()["step"] == 32
            assert spans(log) == [[0, 5], [5, 10]], "a part of a line was taken back"
        for _ in islice(loader, 8):
            pass
    assert spans(log) == [[0, 5], [5, 10], [10, 15], [15, 20], [20, 25], [25, 30], [30, 32], [32, 37], [37, 40]]
    lines = list(read_lines(log))
    assert [line and differences(feed, line) for line in lines] == [[]] * len(lines)
    said = [record.getMessage() for record in caplog.records]
    assert [text.split("; ")[-1].split(": ")[-1] for text in said] == [
        "the run continues, and lines are kept in memory to be written later",
        "can be written again, nothing is missing",
    ]


def test_what_no_longer_fits_into_memory_is_named_in_the_log_and_by_usage(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "_MAX_WAITING_BYTES", 3_000)
    log = folder / "usage.jsonl"
    with opened(folder, log).loader(threads=0) as loader:
        for _ in islice(loader, 10):
            pass
        with files_of_at_most(log.stat().st_size):
            for _ in islice(loader, 60):
                pass
        for _ in islice(loader, 10):
            pass
    (gap,) = summarise(read_lines(log)).lineage.gaps
    assert gap.startswith("no line covers steps 10:")
    missing = gap.removeprefix("no line covers ")
    assert f"can be written again; {missing} are missing" in caplog.text
    shown = run("usage", log)
    assert shown.exit_code == 0 and f"missing: {gap}" in shown.output


def test_a_real_disk_that_fills_up_and_is_emptied_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_disk(folder / "disk", 1 << 20) as disk:
        log = disk / "logs" / "usage.jsonl"
        feed = opened(folder, log)
        with feed.loader(threads=2) as loader:
            steps = [next(loader)["step"] for _ in range(10)]
            filling = fill(disk)
            steps += [next(loader)["step"] for _ in range(600)]
            assert loader.state_dict()["step"] == 610
            assert os.statvfs(disk).f_bavail == 0
            filling.unlink()
            steps += [next(loader)["step"] for _ in range(20)]
        assert steps == list(range(630))
        usage = summarise(read_lines(log), feed)
        assert usage.torn == 0 and usage.lineage.gaps == [] and usage.samples == 6 * 630
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 2


def test_a_line_after_one_that_was_cut_begins_a_line_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    log.write_bytes(b'{"steps": [0, 5]}\n{"ste')
    LineFile(log).add((10, 15), b'{"steps": [10, 15]}')
    assert log.read_bytes().splitlines() == [b'{"steps": [0, 5]}', b'{"ste', b'{"steps": [10, 15]}']


def test_a_forked_child_writes_nothing_that_its_parent_kept(folder: Path) -> None:
    log = folder / "usage.jsonl"
    feed = opened(folder, log)
    for step in range(7):
        feed.batch(step)  # what is learnt about shards is written now
    loader = feed.loader(threads=0)
    with files_of_at_most(0):
        for _ in islice(loader, 7):
            pass
    if not (child := os.fork()):
        loader.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert not log.exists() or log.read_bytes() == b""
    loader.close()
    assert spans(log) == [[0, 5], [5, 7]]


def test_a_cache_whose_disk_is_full_costs_no_line_and_no_checkpoint(
    folder: Path, s3: S3Prefix, proxy: FaultProxy
) -> None:
    """A line has the counts of the cache: asking for them must not ask for room."""
    upload(s3, folder)
    index(s3, folder)
    log = folder / "usage.jsonl"
    with small_disk(folder / "disk", 1 << 20) as disk:
        run = remote_run(s3, proxy, folder, cache="disk/cache", size=800_000, global_batch_size=6)
        feed = penstock.open({**run, "usage": {"log": log, "every": 5}}, rank=0, world=1)
        with feed.loader(threads=0) as loader:
            for _ in islice(loader, 30):
                pass
            fill(disk)
            for _ in islice(loader, 8):
                pass
            assert loader.state_dict()["step"] == 38
        feed.close()
    assert spans(log)[-1] == [35, 38]
