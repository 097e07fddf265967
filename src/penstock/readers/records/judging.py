"""Which records of a segment are items: the judge that decides, and the index of the segment, also as bytes.

The judge is passed in: an index knows no format of text and no tokenizer.
"""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.records.files.recordfile import BadRecord, Columns, RecordFile

_JUDGED_RECORDS = 1_024  # records that are judged together
_HEADER_LENGTH = struct.Struct("<I")
_FILE_NAME = "file_name"
Judged = Callable[[int, float], None]
"""Called while a segment is indexed, with the number of items found so far, and the share of the segment done."""


class Verdict(NamedTuple):
    """The judge's decision on a record.

    Attributes:
        reason: Short phrase on why the record is no item; reasons are counted. Empty for an item.
        length: Number of tokens; 0 if they were not counted.
        labels: Number of trained tokens; 0 if they were not counted.
        kept: Bytes to keep with the index, such as tokens; None for nothing.
        losses: Short phrases on what the record has and the item lacks; they are counted.
    """

    reason: str
    length: int = 0
    labels: int = 0
    kept: bytes | None = None
    losses: tuple[str, ...] = ()


class Judge(Protocol):
    """Decides which records are items. It must pickle to be used by worker processes.

    Which records are items depends on ``key`` alone, not on whether lengths are counted: an index with lengths serves
    a run that needs none, and the order is the same.

    Attributes:
        key: Name of all that verdicts depend on: format, tokens, template, tokenizer and their options.
        counts: Whether the tokens of all items are counted.
        keeps: Whether something is kept of all items.
        leave_out: Columns whose bytes are not looked at.
        accepts_all: Whether every record is an item, so that none has to be read.
    """

    @property
    def key(self) -> str: ...

    @property
    def counts(self) -> bool: ...

    @property
    def keeps(self) -> bool: ...

    @property
    def leave_out(self) -> Sequence[str]: ...

    @property
    def accepts_all(self) -> bool: ...

    def judge(self, records: Sequence[Columns], path: str) -> Sequence[Verdict]:
        """Return a verdict on each record. It gets many at once, because tokenizers are faster then.

        Args:
            records: Records of one file.
            path: Path of the file. Links in records are relative to it.
        """
        ...


def _no_numbers() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class SegmentIndex:
    """The items of a segment.

    Attributes:
        records: Number of records in the segment.
        rows: Numbers of the items among these records.
        places: Places of the items, shape (n, 2).
        lengths: Tokens per item; empty if they were not counted.
        reasons: Number of records that are no items, by reason.
        mark: Mark by which the next segment is found; None after the last one.
        labels: Trained tokens per item; empty if they were not counted.
        losses: Number of items that lack something which their records have, by what that is.
        kept: Bytes to keep of each item. They are not part of ``segment_bytes``.
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


def index_segment(
    file: RecordFile, number: int, mark: int, judge: Judge, medium: str = "", judged: Judged | None = None
) -> SegmentIndex:
    """Find the items of a segment. May wait.

    Args:
        file: File containing the segment.
        number: Number of the segment.
        mark: Mark by which it is found.
        judge: Decides which records are items.
        medium: Column that gets the paths of media; see ``with_media``.
        judged: Called now and then.

    Raises:
        ContentError: If the file is damaged.
    """
    segment = file.segment(number, mark)
    count = len(segment.places)
    if judge.accepts_all:
        return SegmentIndex(count, np.arange(count, dtype=np.uint32), segment.places, _no_numbers(), {}, segment.mark)
    verdicts: list[Verdict] = []
    found = 0
    for some in _verdicts(file.records(segment.places, judge.leave_out), judge, medium, file.path):
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


def _verdicts(records: Iterator[Columns | BadRecord], judge: Judge, medium: str, path: str) -> Iterator[list[Verdict]]:
    while some := list(islice(records, _JUDGED_RECORDS)):
        good = [with_media(record, medium) for record in some if not isinstance(record, BadRecord)]
        judged = iter(judge.judge(good, path))
        yield [Verdict(str(record)) if isinstance(record, BadRecord) else next(judged) for record in some]


def with_media(record: Columns, medium: str) -> Columns:
    """Return a record with columns of media for the files that it names, as the hub's ``imagefolder`` has them.

    ``{"file_name": "cats/7.jpg"}`` gets ``"image": "cats/7.jpg"``; a column ``mask_file_name`` becomes ``mask``.

    Args:
        record: Record of a file that may describe a folder of media.
        medium: Column for ``file_name``, such as ``image``. Empty if the file describes no folder.
    """
    if not medium:
        return record
    names = {
        name.removesuffix(_FILE_NAME).rstrip("_") or medium: value
        for name, value in record.items()
        if name == _FILE_NAME or name.endswith(f"_{_FILE_NAME}")
    }
    return {**names, **record}


def segment_bytes(index: SegmentIndex) -> bytes:
    """Return the index of a segment as bytes."""
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
    return (
        _HEADER_LENGTH.pack(len(header)) + header + b"".join(np.ascontiguousarray(each).tobytes() for each in columns)
    )


def segment_from(data: memoryview) -> SegmentIndex:
    """Return the index of a segment: the inverse of ``segment_bytes``."""
    [length] = _HEADER_LENGTH.unpack_from(data)
    at = _HEADER_LENGTH.size + length
    about = json.loads(bytes(data[_HEADER_LENGTH.size : at]))
    items = about["items"]
    rows = np.frombuffer(data, np.uint32, items, at)
    places = np.frombuffer(data, np.int64, 2 * items, at + rows.nbytes).reshape(items, 2)
    at += rows.nbytes + places.nbytes
    lengths = np.frombuffer(data, np.int32, about["lengths"], at)
    labels = np.frombuffer(data, np.int32, about["labels"], at + lengths.nbytes)
    losses = about.get("losses", {})
    return SegmentIndex(about["records"], rows, places, lengths, about["reasons"], about["mark"], labels, losses)
