"""Compare Penstock's streaming class with LeRobot's map-style dataset, item by item: values, pixels, types, shapes.

    python -m tests.parity.compare --lerobot .venv-lerobot/bin/python [DATASET ...]

Both read the datasets that ``cases`` writes, and any others that are named. All frames of a dataset are compared, in
each of the ways that ``cases.reads`` lists; nothing may differ. LeRobot runs in its own environment: what it returns
comes as files.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from penstock.compat.lerobot import StreamingLeRobotDataset
from tests.parity.cases import reads, write_all


class Recorder:
    """LeRobot, in a process of its own environment."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def record(self, root: Path, arguments: dict[str, Any], out: Path) -> None:
        """Write the items of a dataset to a file."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(root), arguments, str(out)]) + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise SystemExit(f"lerobot failed on {root.name} with {arguments}")


@contextmanager
def recorder(python: str) -> Iterator[Recorder]:
    command = [python, str(Path(__file__).with_name("record.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Recorder(process)
    finally:
        process.communicate(timeout=60)


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return the keys of an item that differ, and how."""
    found = [f"{key} is only in one of both" for key in ours.keys() ^ theirs.keys()]
    for key in ours.keys() & theirs.keys():
        mine = ours[key]
        other = theirs[key]
        if not isinstance(mine, torch.Tensor):
            if mine != str(other):
                found.append(f"{key} is {mine!r}, and in LeRobot {str(other)!r}")
            continue
        if mine.dtype == torch.float32 and other.dtype == np.uint8:  # pixels; see record
            other = other.astype(np.float32) / np.float32(255)
        if mine.shape != other.shape or mine.numpy().dtype != other.dtype:
            found.append(f"{key} is {mine.numpy().dtype} {tuple(mine.shape)}, not {other.dtype} {other.shape}")
        elif not np.array_equal(mine.numpy(), other):
            far = np.abs(mine.numpy().astype(np.float64) - other).max()
            found.append(f"{key} differs by up to {far:.3g}")
    return found


def items_of(path: Path) -> list[dict[str, Any]]:
    """Return recorded items, in order."""
    with np.load(path) as stored:
        items: dict[int, dict[str, Any]] = {}
        for name in stored.files:
            number, _, key = name.partition("/")
            items.setdefault(int(number), {})[key] = stored[name]
    return [items[number] for number in sorted(items)]


def compare(root: Path, arguments: dict[str, Any], recorded: Path) -> tuple[int, list[str]]:
    """Return how many items were compared, and what differs."""
    theirs = items_of(recorded)
    ours = list(StreamingLeRobotDataset("parity/parity", root=root, shuffle=False, **arguments))
    found = [] if len(ours) == len(theirs) else [f"{len(ours)} items, and in LeRobot {len(theirs)}"]
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        found += [f"item {number}: {text}" for text in differences(mine, other)]
    return len(ours), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="*", help="folders of other datasets to compare")
    parser.add_argument("--lerobot", required=True, help="the Python of an environment with lerobot in it")
    options = parser.parse_args()
    failed = False
    compared = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, recorder(options.lerobot) as lerobot:
        for root in (*write_all(Path(scratch)), *options.datasets):
            info = json.loads((root / "meta" / "info.json").read_text())
            cameras = [key for key, feature in info["features"].items() if feature["dtype"] in ("video", "image")]
            for name, arguments in reads(cameras, info["fps"], info["total_episodes"]).items():
                recorded = Path(scratch) / "items.npz"
                lerobot.record(root.absolute(), arguments, recorded)
                count, found = compare(root, arguments, recorded)
                compared += count
                failed |= bool(found)
                print(f"{root.name}; {name}: {count} items, {f'{len(found)} DIFFER' if found else 'equal'}", flush=True)
                print("".join(f"    {text}\n" for text in found[:5]), end="")
    print(f"{compared:,} items in {time.monotonic() - begin:.0f} s: {'NOT EQUAL' if failed else 'all equal'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
