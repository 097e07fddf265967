"""A process whose engine is at work on tasks that do not end: python -m tests.runtime.engines.owner FOLDER.

Each of its processes leaves a file in the folder, with its id as the name. Then it prints "ready".
"""

import os
import re
import sys
import threading
import time
from pathlib import Path

from penstock.runtime.engines.local import LocalEngine


def endless(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    re.match(r"(a+)+$", "a" * 64 + "b")  # for longer than anyone waits, and with the GIL


def tell(folder: Path) -> None:
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    print("ready", flush=True)


if __name__ == "__main__":
    from tests.runtime.engines.owner import endless as importable  # processes know no __main__

    threading.Thread(target=tell, args=(Path(sys.argv[1]),), daemon=True).start()
    list(LocalEngine(2).map(importable, [Path(sys.argv[1])] * 8))
