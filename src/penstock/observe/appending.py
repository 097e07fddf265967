"""Appends lines to a file. While the disk is full, lines wait in memory, and the caller never gets an error.

A line is one write to a file opened for appending, so lines of several processes never mix on a local disk.
"""

import logging
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

from penstock.observe.coverage import StepSpan, joined

log = logging.getLogger(__name__)

_MAX_WAITING_BYTES = 4 << 20  # of lines; the oldest are dropped
_NAMED_SPANS = 5  # in a message


class LineFile:
    """A file of lines, each about some steps. Warns once if it cannot be written, and later names what is missing.

    Args:
        path: File to append to. It is created if necessary; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: deque[tuple[StepSpan, bytes]] = deque()
        self._dropped: list[StepSpan] = []
        self._warned = False
        self._reported: list[StepSpan] = []

    def add(self, steps: StepSpan, line: bytes) -> None:
        """Append a line, after all lines that wait.

        Args:
            steps: Steps of the line, for messages.
            line: Text of the line, without the newline.
        """
        self._waiting.append((steps, line + b"\n"))
        self.write()

    def write(self) -> None:
        """Write the waiting lines, as far as the disk allows."""
        try:
            while self._waiting:
                self._append(self._waiting[0][1])
                self._waiting.popleft()
        except OSError as error:
            if not self._warned:
                log.warning(
                    "usage ledger %s: %s; the run continues, and lines are kept in memory to be written later",
                    self._path,
                    error.strerror or error,
                )
            self._warned = True
            self._drop_old()
            return
        if self._warned:
            missing = f"; {_named(self._dropped)} are missing" if self._dropped else ", nothing is missing"
            log.warning("usage ledger %s: can be written again%s", self._path, missing)
        self._dropped = []
        self._warned = False

    def close(self) -> None:
        """Write the waiting lines, and log what could not be written."""
        self.write()
        missing = [*self._dropped, *(steps for steps, _ in self._waiting)]
        if missing and missing != self._reported:
            log.warning("usage ledger %s: %s could not be written and are missing", self._path, _named(missing))
        self._reported = missing

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # after a line that was cut by a crash of the machine
            written = os.write(descriptor, line)
            if written != len(line):
                self._take_back(descriptor, written)
                raise OSError("a line was only partly written; the disk is full")
        finally:
            os.close(descriptor)

    def _take_back(self, descriptor: int, written: int) -> None:
        """Remove an incomplete line, unless another process has written after it."""
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        with suppress(OSError):
            if os.fstat(descriptor).st_size == end:
                os.ftruncate(descriptor, end - written)

    def _drop_old(self) -> None:
        kept = sum(len(line) for _, line in self._waiting)
        while kept > _MAX_WAITING_BYTES:
            steps, line = self._waiting.popleft()
            kept -= len(line)
            if self._dropped and self._dropped[-1][1] == steps[0]:
                steps = (self._dropped.pop()[0], steps[1])
            self._dropped.append(steps)


def _named(spans: list[StepSpan]) -> str:
    found = joined(spans)
    named = ", ".join(f"{first}:{after}" for first, after in found[:_NAMED_SPANS])
    return f"steps {named}" + (f" and {len(found) - _NAMED_SPANS} more spans" if found[_NAMED_SPANS:] else "")
