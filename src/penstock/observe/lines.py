"""Reads the lines of a usage ledger. Anything else in the file is reported as None, never as an error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from penstock.plan.timeline import Timeline

_Count = Annotated[int, Field(ge=0, lt=1 << 62)]
_Seconds = Annotated[float, Field(ge=0)]
_BatchSize = Annotated[int, Field(ge=1, le=1 << 22)]  # larger ones are damage: planning them would exhaust memory
_MAX_SAMPLES = 1 << 62  # of a run: the plan counts in 64-bit integers
_CONFIG = ConfigDict(strict=True, allow_inf_nan=False)


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
    segments: list[tuple[_Count, _Count, _BatchSize]]
    fingerprint: dict[str, str | int]
    epoch: NotRequired[_Count]
    samples: _Count
    sources: dict[str, _Count]
    groups: dict[str, _Count]
    bad: list[BadEntry]
    stalls: list[_Seconds]
    cache: dict[str, int]
    ids: NotRequired[list[list[str]]]


_line = TypeAdapter(LedgerLine)


def read_lines(path: Path) -> Iterator[LedgerLine | None]:
    """Yield the lines of a ledger; None for a line that is incomplete, as after a full disk, or not of a ledger."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.strip():
                yield _parsed(text)


def _parsed(text: str) -> LedgerLine | None:
    try:
        line = _line.validate_json(text)
        return line if _is_consistent(line) else None
    except ValueError:  # or ValidationError, which is one
        return None


def _is_consistent(line: LedgerLine) -> bool:
    first, after = line["steps"]
    timeline = line_timeline(line)  # raises ValueError if segments do not follow each other
    return (
        timeline.batch(after)[0] < _MAX_SAMPLES
        and len(line["stalls"]) == after - first > 0
        and line["rank"] < line["world"]
        and all(first <= bad["step"] < after for bad in line["bad"])
    )


def line_timeline(line: LedgerLine) -> Timeline:
    """Return the timeline of the run that wrote a line."""
    segments = tuple((int(step), int(sample), int(size)) for step, sample, size in line["segments"])
    return Timeline(segments, line.get("epoch"))
