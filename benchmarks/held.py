"""Memory that a process and its children hold."""

import os
from pathlib import Path


def held_megabytes() -> float:
    """Memory of this process and its children that is not a file's: anonymous and shared, each page counted once."""
    total, todo = 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            todo += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total / 1024
