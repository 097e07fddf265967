"""What an index knows of one segment of a file: which records are items, and where they lie. Also as bytes."""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.records.content import BadRecord
from penstock.readers.records.judging import Judge, Verdict
from penstock.readers.records.recordfile import Place, RecordFile

_AT_ONCE = 1_024  # records that are judged together
_LENGTH = struct.Struct("<I")
Judged = Callable[[int, float], None]
"""Called while a segment is made, with the number of its items that were found, and the share of it that is done."""


def _no_numbers() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class SegmentIndex:
    """The items of a segment.

    Attributes:
        records: in the segment, items or not.
        rows: which of them the items are.
        places: of the items, one row of two numbers each.
        lengths: tokens of the items; empty if they were not counted.
        reasons: how often records are no items, by reason.
        mark: with which the next segment is found; None after the last one.
        labels: tokens of the items that are trained; empty if they were not counted.
        losses: how often items lack what their records have, by what that is.
        kept: what was kept of each item when the segment was made; it is not part of its bytes.
    """

    records: int
    rows: NDArray[np.uint32]
    places: Ints
    lengths: NDArray[np.int32]
    reasons: Mapping[str, int]
    mark: int | None
    labels: NDArray[np.int32] = field(default_factory=_no_numbers)
    losses: Mapping[str, int] = field(default_factory=dict)
    kept: Sequence[bytes] = ()

    @property
    def items(self) -> int:
        return len(self.rows)

    def without_kept(self) -> "SegmentIndex":
        return replace(self, kept=())

    def place(self, item: int) -> Place:
        first, second = self.places[item].tolist()
        return first, second


def index_segment(file: RecordFile, number: int, mark: int, judge: Judge, judged: Judged | None = None) -> SegmentIndex:
    """Find the items of a segment. May wait.

    Args:
        file: the file.
        number: number of the segment.
        mark: mark by which it is found.
        judge: decides which records are items.
        judged: called now and then.

    Raises:
        ContentError: If the file is damaged.
    """
    segment = file.segment(number, mark)
    count = len(segment.places)
    if judge.accepts_all:
        return SegmentIndex(count, np.arange(count, dtype=np.uint32), segment.places, _no_numbers(), {}, segment.mark)
    verdicts: list[Verdict] = []
    found = 0
    for some in _verdicts(file.records(segment.places, judge.leave_out), judge, file.path):
        verdicts += some
        found += sum(not verdict.reason for verdict in some)
        if judged is not None:
            judged(found, len(verdicts) / count)
    accepted = np.array([not verdict.reason for verdict in verdicts], dtype=bool)
    items = [verdict for verdict in verdicts if not verdict.reason]
    lengths = np.array([verdict.length for verdict in items], dtype=np.int32)
    labels = np.array([verdict.labels for verdict in items], dtype=np.int32)
    return SegmentIndex(
        count,
        np.flatnonzero(accepted).astype(np.uint32),
        segment.places[accepted],
        lengths if lengths.any() else _no_numbers(),
        Counter(verdict.reason for verdict in verdicts if verdict.reason),
        segment.mark,
        labels if labels.any() else _no_numbers(),
        Counter(loss for verdict in items for loss in verdict.losses),
        [verdict.kept for verdict in items if verdict.kept is not None],
    )


def _verdicts(records: Iterator[dict[str, Any] | BadRecord], judge: Judge, path: str) -> Iterator[list[Verdict]]:
    while some := list(islice(records, _AT_ONCE)):
        good = [record for record in some if not isinstance(record, BadRecord)]
        judged = iter(judge.judge(good, path))
        yield [Verdict(str(record)) if isinstance(record, BadRecord) else next(judged) for record in some]


def segment_bytes(index: SegmentIndex) -> bytes:
    """Return what an index knows as bytes."""
    about = {
        "records": index.records,
        "items": index.items,
        "lengths": len(index.lengths),
        "labels": len(index.labels),
        "reasons": dict(index.reasons),
        "losses": dict(index.losses),
        "mark": index.mark,
    }
    header = json.dumps(about).encode()
    columns = (index.rows, index.places, index.lengths, index.labels)
    return _LENGTH.pack(len(header)) + header + b"".join(np.ascontiguousarray(each).tobytes() for each in columns)


def segment_from(data: memoryview) -> SegmentIndex:
    """Return the index of which ``segment_bytes`` returned these bytes."""
    [length] = _LENGTH.unpack_from(data)
    at = _LENGTH.size + length
    about = json.loads(bytes(data[_LENGTH.size : at]))
    items = about["items"]
    rows = np.frombuffer(data, np.uint32, items, at)
    places = np.frombuffer(data, np.int64, 2 * items, at + rows.nbytes).reshape(items, 2)
    at += rows.nbytes + places.nbytes
    lengths = np.frombuffer(data, np.int32, about["lengths"], at)
    labels = np.frombuffer(data, np.int32, about["labels"], at + lengths.nbytes)
    losses = about.get("losses", {})
    return SegmentIndex(about["records"], rows, places, lengths, about["reasons"], about["mark"], labels, losses)
