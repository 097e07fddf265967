"""Progress of a command, on stderr: a bar on a terminal, otherwise a line every 30 seconds."""

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

from penstock.cli.console import Terminal, escaped

T = TypeVar("T")
SECONDS_PER_LINE = 30.0


class Progress:
    """Shows the progress of a command, as a context manager.

    Args:
        what: Activity, such as ``indexing``.
        in_bytes: Whether bytes are counted.
        console: Console to print to; stderr by default.
        every: Seconds between two lines if the console is not a terminal.
    """

    def __init__(
        self, what: str, *, in_bytes: bool = False, console: Console | None = None, every: float = SECONDS_PER_LINE
    ) -> None:
        self._what = what
        self._in_bytes = in_bytes
        self._console = console or Terminal(stderr=True)
        self._every = every
        self._next = time.monotonic() + every
        self._bars: Bars | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            counts = (DownloadColumn(), TransferSpeedColumn()) if self._in_bytes else (MofNCompleteColumn(),)
            note = TextColumn("{task.fields[note]}", markup=False)
            columns = (TextColumn("{task.description}"), BarColumn(), *counts, note, TimeRemainingColumn())
            self._bars = Bars(*columns, transient=True, console=self._console)
            self._task = self._bars.add_task(self._what, total=None, note="")
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, done: int, total: int | None, note: str = "") -> None:
        """Show that ``done`` of ``total`` is done. The total is None if unknown."""
        if self._bars is not None:
            self._bars.update(self._task, completed=done, total=total, note=escaped(note))
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            amount = decimal if self._in_bytes else "{:,}".format
            of = "" if total is None else f" of {amount(total)}"
            self._console.print(f"{self._what}: {amount(done)}{of}{f', {note}' if note else ''}", soft_wrap=True)

    def update_read(self, done: int, total: int, size: int) -> None:
        """Show that ``done`` of ``total`` is done, and how many bytes were read."""
        self.update(done, total, decimal(size))

    def track(self, things: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Yield things, and show how many are done."""
        self.update(0, total)
        for done, thing in enumerate(things, 1):
            yield thing
            self.update(done, total)
