"""The local engine: every task once, whatever happens to the processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.runtime.engines.engine import Engine, ThreadEngine, WorkerLost
from penstock.runtime.engines.local import LocalEngine


def square(task: int) -> int:
    if task == 13:
        raise ValueError("13 is refused")
    return task * task


class Dying:
    """Kills its own process at some tasks, the first time or always."""

    def __init__(self, folder: Path, always: bool) -> None:
        self.folder = folder
        self.always = always

    def __call__(self, task: int) -> tuple[int, int]:
        mark = self.folder / str(task)
        if task in (3, 7) and (self.always or not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task, os.getpid()


class Slow:
    def __call__(self, task: int) -> int:
        time.sleep(task)
        return task


@pytest.mark.parametrize("engine", [ThreadEngine(3), LocalEngine(2), LocalEngine(1, threads=3)])
def test_every_task_has_one_outcome_and_an_error_is_one(engine: Engine) -> None:
    outcomes = {outcome.task: outcome for outcome in engine.map(square, range(40))}
    assert sorted(outcomes) == list(range(40))
    assert all(outcome.get() == task * task for task, outcome in outcomes.items() if task != 13)
    with pytest.raises(ValueError, match="13 is refused"):
        outcomes[13].get()


@pytest.mark.scale
@pytest.mark.parametrize("threads", [1, 3])
def test_tasks_of_a_dead_process_are_made_again(tmp_path: Path, threads: int) -> None:
    outcomes = list(LocalEngine(2, threads).map(Dying(tmp_path, always=False), range(12)))
    assert sorted(outcome.get()[0] for outcome in outcomes) == list(range(12))
    assert os.getpid() not in {outcome.get()[1] for outcome in outcomes}


@pytest.mark.scale
def test_a_task_that_kills_every_process_is_named_and_the_others_are_made(tmp_path: Path) -> None:
    outcomes = {each.task: each for each in LocalEngine(2).map(Dying(tmp_path, always=True), range(9))}
    assert {task for task, each in outcomes.items() if isinstance(each.error, WorkerLost)} == {3, 7}
    assert len(outcomes) == 9


def test_closing_it_ends_its_processes_in_the_middle_of_a_task() -> None:
    run = LocalEngine(2).map(Slow(), [0, 3_600, 3_600])
    assert next(run).task == 0
    run.close()  # would wait for an hour


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_processes_end_amid_a_task_that_keeps_the_gil_with_their_owner(signum: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.runtime.engines.owner", str(tmp_path)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
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
    assert len(processes) >= 2 and not left


def test_tasks_are_taken_when_a_process_is_free() -> None:
    taken = []

    def tasks() -> object:
        for number in range(20):
            taken.append(number)
            yield number

    for done, _ in enumerate(LocalEngine(2).map(abs, tasks()), 1):  # type: ignore[arg-type]
        assert len(taken) <= done + 3
