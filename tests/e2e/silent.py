"""What the tests of a silent store start: a training run that has begun to wait. Run as ``python -m tests.e2e.silent``.

It prints a line with the pids of its workers when it has its first batches. Then the store falls silent.
"""

import json
import os
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import penstock


def main(how: str, config: str) -> None:
    feed = penstock.open(json.loads(Path(config).read_text()), rank=0, world=1)
    batches = iter(_batches(feed, how))
    for _ in islice(batches, 2):
        pass
    workers = children(os.getpid())
    forked = [_forked()] if how == "forked" else []
    print("begun", *forked, *workers, flush=True)
    sys.stdin.readline()  # until the store is silent
    for _ in batches:
        pass


def _batches(feed: penstock.Feed, how: str) -> Any:
    if how == "dataloader":
        from torch.utils.data import DataLoader

        return DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=2, multiprocessing_context="fork")
    engines = {"none": {"threads": 0}, "threads": {"threads": 2}, "processes": {"workers": 2}, "forked": {"workers": 2}}
    return feed.loader(**engines[how])


def _forked() -> int:
    """A child that has copies of all descriptors, and does nothing."""
    child = os.fork()
    if not child:
        time.sleep(600)
    return child


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


if __name__ == "__main__":
    main(*sys.argv[1:])
