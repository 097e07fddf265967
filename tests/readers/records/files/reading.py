"""Reads files of records as an index does, and windows as they do."""

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.records.files.recordfile import RecordFile


def segments(file: RecordFile) -> list[Ints]:
    """The places of all segments, each found by the mark of the one before."""
    found = []
    mark: int | None = 0
    while mark is not None:
        segment = file.segment(len(found), mark)
        found.append(segment.places)
        mark = segment.mark
    return found


def window(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def cut(data: bytes, spans) -> list[bytes]:
    return [data[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]


def read_in_windows(data: bytes, find, size: int) -> list[bytes]:
    """All records, read with windows that grow until one holds a record."""
    found: list[bytes] = []
    at = 0
    span = size
    while at < len(data):
        part = data[at : at + span]
        spans = find(window(part), last=at + len(part) >= len(data))
        found += cut(part, spans)
        if spans.ended:
            break
        at += spans.used
        span = size if spans.used else 2 * span
    return found
