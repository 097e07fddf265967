"""A training run of the fault campaign: ``python -m tests.faults.trainer CONFIG``. Says what was in every batch.

It prints one JSON line per batch. After the second it waits for a line on its stdin: then the fault happens. An error
of the library ends it with one line on stderr and code 3; anything else is a defect that shows as a traceback.
"""

import hashlib
import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import penstock


def main(path: str) -> None:
    settings = json.loads(Path(path).read_text())
    feed = penstock.open(settings["config"], rank=0, world=1)
    loader = feed.loader(start=settings["start"], **settings["engine"])
    try:
        for count, batch in enumerate(islice(loader, settings["steps"]), 1):
            print(json.dumps(line(settings["start"] + count - 1, batch)), flush=True)
            if count == 2:
                sys.stdin.readline()
                if settings["fork"]:
                    say_what_a_child_gets(loader)
        loader.close()
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(3)  # as a trainer that is done for: nothing is closed


def line(step: int, batch: dict[str, Any]) -> dict[str, Any]:
    digests = [hashlib.sha256(record.get("txt", b"")).hexdigest()[:16] for record in batch["records"]]
    return {"step": step, "digests": digests, "bad": [each.slot for each in batch["bad"]]}


def say_what_a_child_gets(loader: Any) -> None:
    """A forked child asks for a batch; it must be refused."""
    child = os.fork()
    if child == 0:
        try:
            next(loader)
        except RuntimeError:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise AssertionError("a forked child got a batch of its parent's loader")


if __name__ == "__main__":
    main(*sys.argv[1:])
