import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.runtime.processpool import process_pool

ROOT = Path(__file__).parents[2]


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_processes_end_amid_a_task_that_keeps_the_gil_with_their_owner(signum: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.runtime.pool_owner", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "ready\n"
        owner.send_signal(signum)
        assert owner.wait(30) != 0
    processes = [int(each.name) for each in tmp_path.iterdir()]
    deadline = time.monotonic() + 30
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = list(filter(is_alive, processes))
    for each in left:
        os.kill(each, signal.SIGKILL)
    assert not left


def test_tasks_are_waited_for_and_their_processes_end(tmp_path: Path) -> None:
    with process_pool(2, os.chdir, (str(tmp_path),)) as pool:
        found = [pool.submit(os.getcwd) for _ in range(5)]
    assert [each.result() for each in found] == [str(tmp_path)] * 5


def test_an_exception_of_a_task_is_raised() -> None:
    with pytest.raises(FileNotFoundError), process_pool(1) as pool:
        pool.submit(os.stat, "/no/such/file").result()
