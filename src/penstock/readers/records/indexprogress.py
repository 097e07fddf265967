"""How far the index of a source is: a bar on a terminal, elsewhere a line in the log now and then.

While a whole source is indexed, only the first process of a node shows progress: the others wait for the same index.
An index that is extended during a run is reported by the process that extends it.
"""

import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.runtime import ranks

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

log = logging.getLogger("penstock.index")

QUIET_SECONDS = 1.0  # before anything is shown: most indexes are small, or kept
SECONDS_PER_LINE = 5.0


class IndexProgress:
    """Shows how far the index of one source is.

    Args:
        name: Name of the source.
        files: Number of files of the source.
        console: Console to show a bar on; stderr by default.
        clock: Returns seconds.
    """

    def __init__(
        self, name: str, files: int, *, console: "Console | None" = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._files = files
        self._console = console
        self._clock = clock
        self._began: float | None = None
        self._next_line = 0.0
        self._bars: Progress | None = None

    def update(self, items: int | None, file: int, within: Callable[[], float], *, upto: int | None) -> None:
        """Show how far the index is. Call it often.

        Args:
            items: Number of items found; None if it is not counted.
            file: Number of files done.
            within: Returns the share of the next file that is done; 0 if it is unknown.
            upto: Number of items wanted; None for the whole source.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
            self._next_line = now + SECONDS_PER_LINE
        if now - self._began < QUIET_SECONDS or not (upto is not None or is_first()):
            return
        if self._console is None:
            from rich.console import Console  # most runs show nothing

            self._console = Console(stderr=True)
        if upto is None and self._console.is_terminal:  # a bar may not stand between those of a training that runs
            self._show(items, file, file + within())
        elif now >= self._next_line:
            self._next_line = now + SECONDS_PER_LINE
            what = "all of it" if upto is None else f"up to item {upto:,}"
            log.warning(
                "source %r: indexing %s; at %sfile %d of %d; this is done once, also by `penstock index`",
                *(self._name, what, "" if items is None else f"item {items:,}, ", file + 1, self._files),
            )

    def _show(self, items: int | None, file: int, done: float) -> None:
        if self._bars is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            texts = [TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[note]")]
            self._bars = Progress(
                texts[0], BarColumn(), texts[1], TimeElapsedColumn(), console=self._console, transient=True
            )
            shown = self._name.encode("unicode_escape").decode()
            self._bars.add_task(f"indexing {shown}", total=self._files, note="")
            self._bars.start()
        note = f"{'' if items is None else f'{items:,} items, '}file {file + 1:,} of {self._files:,}"
        self._bars.update(self._bars.task_ids[0], completed=done, note=note)

    def end(self) -> None:
        """Remove the bar: the caller got what it asked for, or an error."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def is_first() -> bool:
    """Return whether this is the first process of its node, and no worker."""
    rank = os.environ.get("LOCAL_RANK", "") or str(ranks.current()[0])
    return rank == "0" and multiprocessing.parent_process() is None
