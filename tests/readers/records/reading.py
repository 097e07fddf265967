"""Reads files of records as an index does."""

from penstock.plan.draws import Ints
from penstock.readers.records.recordfile import RecordFile


def segments(file: RecordFile) -> list[Ints]:
    """The places of all segments, each found by the mark of the one before."""
    found = []
    mark: int | None = 0
    while mark is not None:
        segment = file.segment(len(found), mark)
        found.append(segment.places)
        mark = segment.mark
    return found
