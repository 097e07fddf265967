"""A process whose pool is at work on tasks that do not end. Prints the ids of its processes, then waits for them."""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.processpool import process_pool


def endless(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    re.match(r"(a+)+$", "a" * 64 + "b")  # for longer than anyone waits, and with the GIL


def own(folder: Path, task: Callable[[Path], None]) -> None:
    with process_pool(2) as pool:
        tasks = [pool.submit(task, folder) for _ in range(8)]
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.01)
        print("ready", flush=True)
        tasks[0].result()


if __name__ == "__main__":
    own(Path(sys.argv[1]), endless)
