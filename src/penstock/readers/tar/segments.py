"""Segments of a long recording, as its .json lists them: items of their own. Knows no shard; pure functions.

    talk.flac
    talk.json    {"speaker": "s1", "segments": [{"start": 0.0, "end": 2.5, "text": "…"}, {"start": 2.5, …}]}

The fields of a segment are its own, and those of the .json beside ``segments``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.readers.tar.layout import SEGMENT

SEGMENTS = "segments"
"""Field of the .json that lists the segments."""


class RecordedSegment(NamedTuple):
    """A segment of a recording.

    Attributes:
        number: Place in the list of the .json.
        seconds: Duration.
        fields: Fields, with start and duration.
    """

    number: int
    seconds: float
    fields: dict[str, Any]


def recorded_segments(document: Mapping[str, Any], seconds: float | None) -> Iterator[RecordedSegment]:
    """Yield the segments of a recording.

    Args:
        document: Content of its .json.
        seconds: Duration of the recording; None if unknown. A segment ends with it at the latest.

    Raises:
        ValueError: If a segment cannot be used; the message says which and why.
    """
    listed = document[SEGMENTS]
    if not isinstance(listed, list):
        raise ValueError(f"{SEGMENTS} is not a list of objects with start, end and text")
    shared = {name: value for name, value in document.items() if name not in (SEGMENTS, "duration")}
    for number, own in enumerate(listed):
        if not isinstance(own, dict):
            raise ValueError(f"segment {number} is not an object with start, end and text")
        start = _time(own, "start", number)
        end = _time(own, "end", number)
        if seconds is not None and start >= seconds:
            raise ValueError(f"segment {number} starts at {start:g} s, and the recording ends at {seconds:g} s")
        length = round((end if seconds is None else min(end, seconds)) - start, 6)
        if not (start >= 0 and length > 0):  # also if one is NaN
            raise ValueError(f"segment {number} is from {start:g} to {end:g} s; a segment ends after its start")
        yield RecordedSegment(number, length, {**shared, **own, "duration": length, SEGMENT: [start, length]})


def _time(own: Mapping[str, Any], name: str, number: int) -> float:
    value = own.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"segment {number} has {name} {value!r}, not a number of seconds")
    return float(value)
