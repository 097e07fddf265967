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
    return {"step": step, "samples": samples(batch), "bad": [each.slot for each in batch["bad"]]}


def samples(batch: dict[str, Any]) -> list[tuple[str, str]]:
    """The name of each sample of a batch, ``source/id``, and a digest of all that the batch has of it."""
    names = [f"{source}/{id}" for source, id in zip(batch["sources"], batch["ids"], strict=True)]
    return [(name, hashlib.sha256(_bytes(batch, row)).hexdigest()[:16]) for row, name in enumerate(names)]


def _bytes(batch: dict[str, Any], row: int) -> bytes:
    if "records" in batch:
        data: bytes = batch["records"][row].get("txt", b"")
        return data
    if "input_ids" in batch:
        real = batch["attention_mask"][row].bool()
        tokens = [batch[key][row][real].numpy().tobytes() for key in ("input_ids", "labels")]
        return b"".join([*tokens, batch["text"][row].encode()])
    fields = [batch[key][row] for key in sorted(batch) if hasattr(batch[key], "numpy") and key not in ("rows", "valid")]
    return b"".join([*(field.numpy().tobytes() for field in fields), batch["task"][row].encode()])


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
