"""The ledgers of one run, one per node, read as one. Streams: keeps some numbers per span of steps, never a line.

A first walk over the files reads only steps and ranks, and decides which lines count (see ``lineage``). Every further
walk yields these lines.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from penstock.feed import Feed
from penstock.observe.lineage import Lineage, lineage
from penstock.observe.lines import LedgerLine, LineHead, LossLine, line_timeline, parse_head, parse_line

T = TypeVar("T", bound=Mapping[str, Any])
Progressing = Callable[[int, int], None]
"""Called with the number of bytes read so far, and of all bytes to read."""

_WALKS = 2  # over the files


class CountedLine(NamedTuple):
    """A line, as far as it counts.

    Attributes:
        used: Line that says what was used; None for a line of losses.
        losses: Line of losses; None for a line that says what was used.
        end: First step of the line that does not count: it was reported again. 0 if the whole line does not count.
    """

    used: LedgerLine | None
    losses: LossLine | None
    end: int


class RunLog:
    """The ledgers of a run.

    Args:
        paths: Ledgers. Lines of several ledgers are read in the order of their times.
        feed: Feed of the run, to check that it wrote the ledgers; None checks only that one run wrote them all.
        progress: Function that is told how far reading is.

    Attributes:
        used: What was used, as spans of steps.
        losses: Steps with losses, as spans of steps.
        lines: Number of lines.
        torn: Number of lines that could not be read.
        lengths: Number of lines that say what was used, by their number of steps.

    Raises:
        ValueError: If there is no line of a ledger, or lines of another run.
    """

    def __init__(
        self, paths: Sequence[Path], feed: Feed | None = None, progress: Progressing = lambda *_: None
    ) -> None:
        self._sizes = {path: path.stat().st_size for path in paths}  # a run may be writing
        self._progress = progress
        self._read = 0
        self.lines = 0
        self.torn = 0
        self.lengths: Counter[int] = Counter()
        self._run: tuple[object, ...] | None = None
        self._items: dict[int, object] = {}  # digest of the data, by number of sources that were drawn
        self._checked: set[str] = set()
        self._spans = _Spans()
        others: list[tuple[int, int, Path]] = []  # lines of another run: span, first step, ledger
        for path, head, text in self._walk(parse_head):
            if head is None:
                self.torn += 1
                continue
            self.lines += 1
            is_of_feed = self._check(path, head, text, feed)
            number = self._spans.add(head)
            if not is_of_feed:
                others.append((number, head["steps"][0], path))
            if "kind" not in head:
                self.lengths[head["steps"][1] - head["steps"][0]] += 1
        if not self.lines:
            names = ", ".join(map(str, paths))
            raise ValueError(f"{names}: not a usage ledger, or no step was recorded yet")
        self.used = self._spans.lineage("")
        self.losses = self._spans.lineage("losses")
        ends = self._ends()
        for number, first, path in others:  # if the run went back to before a change, its lines no longer count
            if first < ends.get(id(self._spans.heads[number]), 0):
                raise ValueError(
                    f"{path}: written by another run (seed, data, mixture or exclude differ from the config)"
                )

    def _ends(self) -> dict[int, int]:
        """Return the first step of each span that does not count, by ``id``."""
        return {id(head): end for each in (self.used, self.losses) for head, end in each.kept}

    def __iter__(self) -> Iterator[CountedLine]:
        """Yield all valid lines, in the order of time."""
        ends = self._ends()
        again = _Spans()
        for _, line, text in self._walk(parse_line):
            head = parse_head(text) if line is None or "kind" in line else cast(LineHead, line)
            if head is None:
                continue
            number = again.add(head)  # also of a line that is otherwise damaged, as in the first walk
            end = ends.get(id(self._spans.heads[number]), 0)
            if line is not None and "kind" in line:
                yield CountedLine(None, cast(LossLine, line), end)
            elif line is not None:
                yield CountedLine(cast(LedgerLine, line), None, end)

    def _walk(self, parse: Callable[[str], T | None]) -> Iterator[tuple[Path, T | None, str]]:
        files = [self._file(path, parse) for path in self._sizes]
        merged = files[0] if len(files) == 1 else heapq.merge(*files, key=lambda each: each[0])
        for _, path, line, text in merged:
            yield path, line, text

    def _file(self, path: Path, parse: Callable[[str], T | None]) -> Iterator[tuple[float, Path, T | None, str]]:
        """Yield the lines of a file that it had at the start, each with its time. A torn line has that before it."""
        now = 0.0
        position = 0
        total = _WALKS * sum(self._sizes.values())
        with open(path, "rb") as file:
            for raw in file:
                position += len(raw)
                if position > self._sizes[path]:
                    return
                self._read += len(raw)
                self._progress(self._read, total)
                text = raw.decode(errors="replace")
                if text.isspace():
                    continue
                line = parse(text)
                now = now if line is None else line["time"]
                yield now, path, line, text

    def _check(self, path: Path, head: LineHead, text: str, feed: Feed | None) -> bool:
        """Return whether the run of a feed wrote a line.

        Raises:
            ValueError: If another seed or other data than those of the first line did.
        """
        fingerprint = head["fingerprint"]
        run = tuple(fingerprint.get(key) for key in ("seed", "run"))
        items = self._items.setdefault(len(str(fingerprint.get("sources", ""))), fingerprint.get("items"))
        if self._run is None:
            self._run = run
        if run != self._run or (feed is None and items != fingerprint.get("items")):
            raise ValueError(f"{path}: has lines of another run than the first line (seed or data differ)")
        if feed is None or str(fingerprint) in self._checked:
            return True
        line = parse_line(text)
        if line is None:
            return True
        if not is_run_of(feed, line, head["steps"][1]):
            return False
        self._checked.add(str(fingerprint))
        return True


def is_run_of(feed: Feed, line: LedgerLine | LossLine, after: int) -> bool:
    """Return whether the run of a feed wrote a line, of steps before ``after``."""
    samples = line_timeline(line).end_slot(after - 1)
    fingerprint = feed.identity.fingerprint_like(line["fingerprint"], samples)
    return line["fingerprint"] == fingerprint and line.get("epoch") == feed.plan.epoch


class _Spans:
    """Lines as spans of steps: consecutive lines of a rank are one span, and so are the turns of a worker."""

    def __init__(self) -> None:
        self.heads: list[LineHead] = []
        self._last: dict[tuple[str, int], tuple[str, dict[int, int]]] = {}
        """Walk by kind and rank, and the number of the last span of each worker."""
        self._world: dict[str, int] = {}

    def add(self, head: LineHead) -> int:
        """Add a line. Returns the number of its span."""
        kind = head.get("kind", "")
        if self._world.setdefault(kind, head["world"]) != head["world"]:
            self._world[kind] = head["world"]
            self._last.clear()  # what the other ranks report replaces earlier spans
        walk, last = self._last.get((kind, head["rank"]), ("", None))
        if last is None or walk != head["walk"]:
            last = {}
            self._last[kind, head["rank"]] = head["walk"], last
        number = last.get(head["worker"])
        if number is not None and _extend(self.heads[number]["steps"], head["steps"], bool(head["walk"])):
            return number
        own = {key: head[key] for key in ("rank", "world", "walk", "worker")}
        self.heads.append(cast(LineHead, {**own, "kind": kind, "steps": [*head["steps"]]}))
        last[head["worker"]] = len(self.heads) - 1
        return len(self.heads) - 1

    def lineage(self, kind: str) -> Lineage:
        return lineage([cast(LedgerLine, head) for head in self.heads if head["kind"] == kind])


def _extend(steps: list[int], more: list[int], takes_turns: bool) -> bool:
    """Add the steps of a line to a span, if they follow on. Returns whether they do.

    Args:
        steps: Start and end of the span, and the stride if it has one.
        more: Start and end of the line.
        takes_turns: Whether the line is of one of several workers.
    """
    first, after = more
    if len(steps) == 2 and first == steps[1]:
        steps[1] = after
        return True
    if not takes_turns or after != first + 1 or first < steps[1]:
        return False
    if len(steps) == 2 and steps[1] == steps[0] + 1:
        steps.append(first - steps[0])
    if len(steps) == 3 and first == steps[1] - 1 + steps[2]:
        steps[1] = after
        return True
    return False
