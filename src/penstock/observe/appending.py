"""Appending lines to a file, also while its disk is full: lines wait in memory and the caller never gets an error.

A line is one write to a file opened for appending, so lines of several processes never mix on a local disk.
"""

import logging
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

Span = tuple[int, int]  # first step, and the one after the last

_KEPT_BYTES = 4 << 20  # of lines that wait to be written; older ones are dropped
_NAMED_SPANS = 5  # in a message


class LineFile:
    """A file of lines, each about some steps. Warns once when it cannot be written, and says later what is missing.

    Args:
        path: the file. It is created if necessary, its folder is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: deque[tuple[Span, bytes]] = deque()
        self._dropped: list[Span] = []
        self._warned = False
        self._reported: list[Span] = []

    def add(self, steps: Span, line: bytes) -> None:
        """Append a line, after all that wait.

        Args:
            steps: what the line is about, for messages.
            line: its text, without the end of the line.
        """
        self._waiting.append((steps, line + b"\n"))
        self.write()

    def write(self) -> None:
        """Write all that wait, as far as the disk allows."""
        try:
            while self._waiting:
                self._append(self._waiting[0][1])
                self._waiting.popleft()
        except OSError as error:
            if not self._warned:
                log.warning(
                    "usage ledger %s: %s; the run goes on, and lines are kept in memory to be written later",
                    self._path,
                    error.strerror or error,
                )
            self._warned = True
            self._drop_old()
            return
        if self._warned:
            missing = f"; {_named(self._dropped)} are missing in it" if self._dropped else ", nothing is missing"
            log.warning("usage ledger %s: it is written again%s", self._path, missing)
        self._dropped = []
        self._warned = False

    def close(self) -> None:
        """Write all that wait, and say what could not be written."""
        self.write()
        missing = [*self._dropped, *(steps for steps, _ in self._waiting)]
        if missing and missing != self._reported:
            log.warning("usage ledger %s: %s could not be written and are missing in it", self._path, _named(missing))
        self._reported = missing

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # after a line that a crash of the machine has cut
            written = os.write(descriptor, line)
            if written != len(line):
                self._take_back(descriptor, written)
                raise OSError("a line was only partly written; the disk is full")
        finally:
            os.close(descriptor)

    def _take_back(self, descriptor: int, written: int) -> None:
        """Remove a part of a line, unless another process has written after it."""
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        with suppress(OSError):
            if os.fstat(descriptor).st_size == end:
                os.ftruncate(descriptor, end - written)

    def _drop_old(self) -> None:
        kept = sum(len(line) for _, line in self._waiting)
        while kept > _KEPT_BYTES:
            steps, line = self._waiting.popleft()
            kept -= len(line)
            if self._dropped and self._dropped[-1][1] == steps[0]:
                steps = (self._dropped.pop()[0], steps[1])
            self._dropped.append(steps)


def _named(spans: list[Span]) -> str:
    joined: list[Span] = []
    for first, after in spans:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], after)
        else:
            joined.append((first, after))
    named = ", ".join(f"{first}:{after}" for first, after in joined[:_NAMED_SPANS])
    return f"steps {named}" + (f" and {len(joined) - _NAMED_SPANS} more spans" if joined[_NAMED_SPANS:] else "")
