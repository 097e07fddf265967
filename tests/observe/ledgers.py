"""Ledgers that real runs have written, over shards with damaged samples."""

from pathlib import Path
from typing import Any

import penstock
from penstock.feed import Feed
from tests.shards import small_run

Line = dict[str, Any]


def opened(folder: Path, **options: Any) -> Feed:
    run = {key: value for key, value in small_run(folder).items() if key != "filelist"}
    return penstock.open({**run, "manifest": folder / "index", "max_bad": 1, **options}, rank=0, world=1)


def ledger(folder: Path, log: Path, steps: int = 30, **options: Any) -> Feed:
    feed = opened(folder, usage={"log": log, "every": 10, "ids": True}, **options)
    with feed.loader(threads=2) as loader:
        for _ in range(steps):
            if next(loader, None) is None:
                break
    return feed
