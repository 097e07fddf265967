import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import torch

from penstock.runtime.torch_threads import one_torch_thread


def test_inside_there_is_one_thread_and_outside_the_usual_number() -> None:
    usual = torch.get_num_threads()
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == usual


def test_an_error_inside_puts_the_number_back() -> None:
    usual = torch.get_num_threads()
    try:
        with one_torch_thread():
            raise KeyError
    except KeyError:
        pass
    assert torch.get_num_threads() == usual


def test_overlapping_threads_leave_the_default_for_new_threads_as_it_was() -> None:
    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    barrier = Barrier(4)

    def overlap(_: int) -> int:
        with one_torch_thread():
            barrier.wait()
            inside = torch.get_num_threads()
            barrier.wait()
        return inside

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(overlap, range(4))) == [1] * 4
    seen: list[int] = []
    late = Thread(target=lambda: seen.append(torch.get_num_threads()))
    late.start()
    late.join()
    assert seen == [3] and torch.get_num_threads() == 3
    torch.set_num_threads(usual)


def test_features_start_no_threads_of_their_own() -> None:
    script = """
import os, threading, torch
torch.set_num_threads(4)
from penstock.media.audio.features import w2v_bert_features
def work(): w2v_bert_features(torch.rand(4, 96_000))
workers = [threading.Thread(target=work) for _ in range(3)]
before = len(os.listdir("/proc/self/task"))
for worker in workers: worker.start()
most = 0
while any(worker.is_alive() for worker in workers):
    most = max(most, len(os.listdir("/proc/self/task")))
print(most - before)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert int(run.stdout) <= 3


def test_who_leaves_does_not_give_more_threads_to_who_is_inside() -> None:
    """Also where the other thread has not asked torch for anything yet."""
    entered, left, seen = Event(), Event(), list[int]()

    def work() -> None:
        with one_torch_thread():
            entered.set()
            assert left.wait(60)
            seen.append(torch.get_num_threads())

    usual = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        worker = Thread(target=work)
        with one_torch_thread():
            worker.start()
            assert entered.wait(60)
        left.set()
        worker.join()
    finally:
        torch.set_num_threads(usual)
    assert seen == [1]
