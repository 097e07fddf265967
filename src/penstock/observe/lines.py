"""Reads the lines of a usage ledger. Anything else in the file is reported as None, never as an error.

A line without ``kind`` says what was used. Lines of other kinds stand between them; unknown kinds are skipped, so that
a ledger of a later version can be read.
"""

import heapq
from base64 import b64decode
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal, NotRequired, cast

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from penstock.feed.state import read_timeline
from penstock.observe.losses import VERSION, Floats
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline

_Count = Annotated[int, Field(ge=0, lt=1 << 62)]
_Seconds = Annotated[float, Field(ge=0)]
_BatchSize = Annotated[int, Field(ge=1, le=1 << 22)]  # larger ones are damage: planning them would exhaust memory
_MAX_SAMPLES = 1 << 62  # of a run: the plan counts in 64-bit integers
_Budget = _Count | Annotated[list[_Count], Field(min_length=1)]
_Sizes = list[tuple[_Count, _Count, _BatchSize]]
_Windows = list[tuple[_Count, _Count, _BatchSize, _Budget, _BatchSize, _BatchSize]]  # of batches by length
_CONFIG = ConfigDict(strict=True, allow_inf_nan=False)
_KIND = '{"kind":'  # start of a line of another kind


class BadEntry(TypedDict):
    """A bad sample in a line of a ledger; see ``BadSample``."""

    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    step: _Count
    slot: _Count
    row: _Count
    group: str
    id: str
    reason: str
    outcome: str
    member: NotRequired[_Count | None]


class LedgerLine(TypedDict):
    """A line of a ledger; its keys are described in docs/architecture.md."""

    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    time: _Seconds
    host: str
    pid: _Count
    rank: _Count
    world: _Count
    walk: str
    worker: _Count
    steps: Annotated[list[_Count], Field(min_length=2, max_length=2)]
    segments: _Sizes | _Windows
    fingerprint: dict[str, str | int]
    epoch: NotRequired[_Count]
    samples: _Count
    sources: dict[str, _Count]
    groups: dict[str, _Count]
    bad: list[BadEntry]
    stalls: list[_Seconds]
    cache: dict[str, int]
    cache_held: NotRequired[tuple[_Count, _Count]]
    ids: NotRequired[list[list[str]]]


class LossLine(TypedDict):
    """A line with reported losses; its keys are described in docs/architecture.md."""

    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    kind: Literal["losses"]
    version: _Count
    time: _Seconds
    host: str
    pid: _Count
    rank: _Count
    world: _Count
    segments: _Sizes | _Windows
    fingerprint: dict[str, str | int]
    epoch: NotRequired[_Count]
    steps: list[_Count]
    counts: list[_Count]
    losses: str
    rows: NotRequired[list[list[_Count] | None]]
    grad_norms: NotRequired[str]


class _LossHead(TypedDict):
    """See ``LineHead``."""

    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    kind: Literal["losses"]
    time: _Seconds
    rank: _Count
    world: _Count
    fingerprint: dict[str, str | int]
    steps: Annotated[list[_Count], Field(min_length=1)]


class LineHead(TypedDict):
    """What decides whether a line counts.

    Attributes:
        kind: Kind of the line; missing if it says what was used.
        steps: First step, and the step after the last.
    """

    __pydantic_config__ = _CONFIG  # type: ignore[misc]

    kind: NotRequired[str]
    time: _Seconds
    rank: _Count
    world: _Count
    walk: str
    worker: _Count
    fingerprint: dict[str, str | int]
    steps: Annotated[list[_Count], Field(min_length=2, max_length=2)]


_line = TypeAdapter(LedgerLine)
_loss_line = TypeAdapter(LossLine)
_head = TypeAdapter(LineHead)
_loss_head = TypeAdapter(_LossHead)


def read_lines(*paths: Path) -> Iterator[LedgerLine | None]:
    """Yield what was used; None for a line that is incomplete, as after a full disk, or not of a ledger.

    Args:
        *paths: Ledgers of a run. Lines of several ledgers are read in the order of their times.
    """
    for _, line in heapq.merge(*map(_timed_lines, paths), key=itemgetter(0)):
        yield line


def _timed_lines(path: Path) -> Iterator[tuple[float, LedgerLine | None]]:
    """Yield the lines of a ledger, each with its time. A torn line has that before it."""
    now = 0.0
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.strip() and not text.startswith(_KIND):
                line = _parsed(text)
                now = now if line is None else line["time"]
                yield now, line


def parse_line(text: str) -> LedgerLine | LossLine | None:
    """Return a line of any known kind; None if it is incomplete, not of a ledger, or of another kind."""
    return _parsed_losses(text) if text.startswith(_KIND) else _parsed(text)


def parse_head(text: str) -> LineHead | None:
    """Return what ``lineage`` needs of a line of any known kind, which takes a third of the time; None as above."""
    try:
        if not text.startswith(_KIND):
            head = _head.validate_json(text)
            first, after = head["steps"]
            return head if 0 < after - first < len(text) else None  # each step has its stall
        losses = _loss_head.validate_json(text)
        steps = losses["steps"]
        return cast(LineHead, {**losses, "walk": "", "worker": 0, "steps": [min(steps), max(steps) + 1]})
    except ValueError:
        return None


def _parsed(text: str) -> LedgerLine | None:
    try:
        line = _line.validate_json(text)
        return line if _is_consistent(line) else None
    except ValueError:  # or ValidationError, which is one
        return None


def _parsed_losses(text: str) -> LossLine | None:
    try:
        line = _loss_line.validate_json(text)
        return line if _is_whole(line) else None
    except ValueError:
        return None


def _is_whole(line: LossLine) -> bool:
    number = len(line["steps"])
    line_timeline(line)  # raises ValueError if segments do not follow each other
    return (
        line["version"] == VERSION
        and number > 0
        and len(line["counts"]) == number
        and len(line.get("rows", line["steps"])) == number
        and len(loss_values(line)) == sum(line["counts"])
        and len(grad_norms(line)) == number
        and line["rank"] < line["world"]
        and max(line["steps"]) < _MAX_SAMPLES
    )


def loss_values(line: LossLine) -> Floats:
    """Return all losses of a line."""
    return _decoded(line["losses"])


def grad_norms(line: LossLine) -> Floats:
    """Return the norm of the gradients of each report, NaN where there is none."""
    if "grad_norms" not in line:
        return np.full(len(line["steps"]), np.nan, dtype=np.float32)
    return _decoded(line["grad_norms"])


def _decoded(text: str) -> Floats:
    values: Floats = np.frombuffer(b64decode(text, validate=True), dtype="<f4")
    return values


def _is_consistent(line: LedgerLine) -> bool:
    first, after = line["steps"]
    timeline = line_timeline(line)  # raises ValueError if segments do not follow each other
    return (
        timeline.end_slot(after - 1) < _MAX_SAMPLES
        and len(line["stalls"]) == after - first > 0
        and line["rank"] < line["world"]
        and all(first <= bad["step"] < after for bad in line["bad"])
    )


def line_timeline(line: LedgerLine | LossLine) -> AnyTimeline:
    """Return the timeline of the run that wrote a line."""
    sizes = [segment for segment in line["segments"] if len(segment) == 3]
    if len(sizes) < len(line["segments"]):
        return read_timeline(line["segments"], line.get("epoch"))
    return Timeline(tuple((int(step), int(sample), int(size)) for step, sample, size in sizes), line.get("epoch"))
