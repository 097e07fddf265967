"""Headers of MP4 files changed by hand: boxes replaced, added and left out."""

import struct
from collections.abc import Callable

from penstock.readers.mp4.boxes import Box, boxes

AROUND = ("moov", "trak", "mdia", "minf", "stbl", "edts")  # boxes that hold nothing but boxes

Edit = Callable[[bytes], bytes]
"""The body of a box -> the new body."""


def box(name: str, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), name.encode()) + body


def table(*rows: tuple[int, ...], form: str = "I", version: int = 0) -> bytes:
    """The body of a box with a version, a count and rows."""
    packed = b"".join(struct.pack(f">{form * len(row)}", *row) for row in rows)
    return struct.pack(">B3xI", version, len(rows)) + packed


def edited(moov: bytes, name: str, edit: Edit, rename: str = "") -> bytes:
    """Return a header in which the body of every box of a name is another."""
    return _joined(moov, lambda each, body: box(rename or name, edit(body)) if each.name == name else None)


def without(moov: bytes, name: str) -> bytes:
    """Return a header without the boxes of a name."""
    return _joined(moov, lambda each, _: b"" if each.name == name else None)


def added(moov: bytes, around: str, new: bytes) -> bytes:
    """Return a header with another box at the beginning of every box of a name."""
    return _joined(moov, lambda each, body: box(around, new + body) if each.name == around else None)


def body_of(moov: bytes, *path: str) -> bytes:
    """Return the body of the first box with a path."""
    found = next(each for each in boxes(memoryview(moov), 0, len(moov)) if each.name == path[0])
    body = moov[found.body : found.end]
    return body_of(body, *path[1:]) if path[1:] else body


def _joined(data: bytes, change: Callable[[Box, bytes], bytes | None]) -> bytes:
    parts = []
    for each in boxes(memoryview(data), 0, len(data)):
        body = data[each.body : each.end]
        new = change(each, body)
        if new is None:
            new = box(each.name, _joined(body, change) if each.name in AROUND else body)
        parts.append(new)
    return b"".join(parts)
