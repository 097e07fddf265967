import itertools
import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.store.remote.budget import RequestBudget

RATE = 100.0


def take(folder: Path, count: int) -> list[float]:
    budget = RequestBudget("bucket", RATE, folder)
    times = []
    for _ in range(count):
        budget.take()
        times.append(time.monotonic())
    return times


def test_processes_share_the_rate(tmp_path: Path) -> None:
    start = time.monotonic()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        times = sorted(itertools.chain(*pool.starmap(take, [(tmp_path, 15)] * 4, chunksize=1)))
    # A turn may be used late, but never early.
    assert all(at >= start + i / RATE for i, at in enumerate(times))
    assert len(times) == 60


def test_other_stores_have_their_own_budget(tmp_path: Path) -> None:
    slow = RequestBudget("slow", 0.001, tmp_path)
    slow.take()
    RequestBudget("other", 0.001, tmp_path).take()


def test_a_process_killed_in_its_turn_holds_nobody_up(tmp_path: Path) -> None:
    code = "from pathlib import Path; from penstock.store.remote.budget import RequestBudget\n"
    code += f"budget = RequestBudget('bucket', {RATE}, Path({str(tmp_path)!r}))\n"
    code += "while True: budget.take(); print(flush=True)"
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert len(take(tmp_path, 5)) == 5


def test_a_pause_holds_everyone(tmp_path: Path) -> None:
    start = time.monotonic()
    RequestBudget("bucket", RATE, tmp_path).pause(0.3)
    RequestBudget("bucket", RATE, tmp_path).take()
    assert time.monotonic() >= start + 0.3


@pytest.mark.parametrize("rest", [b"", b"short", b"\xff" * 8 + b"another boot"])
def test_a_slot_of_another_boot_or_a_broken_file_does_not_count(tmp_path: Path, rest: bytes) -> None:
    budget = RequestBudget("bucket", 0.001, tmp_path)
    budget.take()
    [path] = tmp_path.iterdir()
    path.write_bytes(rest)
    budget.take()
