"""Reading the lines of a usage ledger. Whatever else is in the file is no line, and never an error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from penstock.plan.timeline import Timeline

_Count = Annotated[int, Field(ge=0, lt=1 << 62)]
_Seconds = Annotated[float, Field(ge=0)]
_BatchSize = Annotated[int, Field(ge=1, le=1 << 22)]  # larger ones are damage: planning them would exhaust memory
_MOST_SAMPLES = 1 << 62  # of a run: what integers of the plan can count
_CONFIG = ConfigDict(strict=True, allow_inf_nan=False)


class _BadEntry(TypedDict):
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
    bad: list[_BadEntry]
    stalls: list[_Seconds]
    cache: dict[str, int]
    ids: NotRequired[list[list[str]]]


_line = TypeAdapter(LedgerLine)


def read_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the lines of a ledger; None for one that is incomplete, as after a full disk, or not a line of a ledger."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.strip():
                yield _parsed(text)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line: dict[str, Any] = {**_line.validate_json(text)}
        return line if _is_consistent(line) else None
    except ValueError:  # of pydantic, too
        return None


def _is_consistent(line: dict[str, Any]) -> bool:
    first, after = line["steps"]
    timeline = line_timeline(line)  # segments that do not follow each other are a ValueError
    return (
        timeline.batch(after)[0] < _MOST_SAMPLES
        and len(line["stalls"]) == after - first > 0
        and line["rank"] < line["world"]
        and all(first <= bad["step"] < after for bad in line["bad"])
    )


def line_timeline(line: dict[str, Any]) -> Timeline:
    """Return the timeline of the run that wrote a line."""
    segments = tuple((int(step), int(sample), int(size)) for step, sample, size in line["segments"])
    return Timeline(segments, line.get("epoch"))
