"""Short processes that just end, with objects open and threads busy: ``python -m tests.e2e.exits HOW CONFIG``."""

import json
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import penstock
from penstock.store.cache import locks
from tests.smalldisk import fill

kept = ModuleType("kept")  # what is in it is collected when the interpreter ends: no frozen thread refers to it


def main(how: str, config: str) -> None:
    feed = penstock.open(json.loads(Path(config).read_text()), rank=0, world=1)
    sys.modules[kept.__name__] = kept
    if how == "loader":
        batches = iter(feed.loader(threads=2))
        next(batches)
    elif how == "walk":  # its threads fetch ahead, and nothing ends them
        walk = feed.walk(penstock.Steps(0))
        walk.batch(0)
        kept.things = walk
    elif how == "churn":  # opens and closes objects while the process ends, so that its thread holds locks
        feed.batch(0)
        threading.Thread(target=_churn, args=(feed,), daemon=True).start()
        kept.things = [feed.walk(penstock.Steps(step)) for step in range(3)]
    elif how == "held":  # a thread that is frozen at the end, in all likelihood while it holds the locks of blobs
        cache = feed.open_stores()
        assert cache is not None
        kept.things = [extent.unit.store.open(extent.unit.path) for extent in feed.catalog.resident(0, 0)]
        threading.Thread(target=_hold, args=(locks._guard, cache.pins._lock), daemon=True).start()
    elif how == "full":
        feed.batch(0)
        assert feed.config.cache is not None
        fill(feed.config.cache.dir)
        try:
            for step in range(1, 30):
                feed.batch(step)
            print("it evicted and went on", flush=True)
        except OSError as error:
            print(f"{error}".splitlines()[0], flush=True)


def _hold(*held: threading.RLock) -> None:
    while True:
        with ExitStack() as stack:
            for lock in held:
                stack.enter_context(lock)
            time.sleep(0.1)


def _churn(feed: penstock.Feed) -> None:
    for step in range(10**9):
        try:
            feed.batch(step)
        except (OSError, ValueError):
            feed.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
