"""What a process and its children take: memory that they hold, and CPU time."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def held_megabytes() -> float:
    """Memory of this process and its children that is not a file's: anonymous and shared, each page counted once."""
    lines = [line for text in _of_all("smaps_rollup") for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it has now."""
    figures = [text.rpartition(")")[2].split() for text in _of_all("stat")]
    return sum(int(own[11]) + int(own[12]) for own in figures) / _TICKS_PER_SECOND


def _of_all(name: str) -> Iterator[str]:
    """Yield what a file of /proc says of this process and of each of its children."""
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            text = Path(f"/proc/{pid}/{name}").read_text()
            todo += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            continue
        yield text
