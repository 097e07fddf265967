"""The boxes of an MP4 file: names and byte ranges. Knows nothing of what is in them."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct(">I4s")
_LONG = struct.Struct(">Q")
LONGEST_HEADER = _HEADER.size + _LONG.size  # bytes


class Box(NamedTuple):
    """A box: ``start`` is its first byte, ``body`` the first byte after its header, ``end`` the byte after its last."""

    name: str
    start: int
    body: int
    end: int


class NoBox(ValueError):
    """The bytes are not a box, or a required box is missing."""


def box_at(data: memoryview, at: int, end: int, offset: int = 0) -> Box:
    """Return the box that begins at a byte of the file.

    Args:
        data: Bytes of the file, at least up to the end of the box's header.
        at: Offset of the box in the file.
        end: End of the file or of the enclosing box.
        offset: Offset of ``data`` in the file.

    Raises:
        NoBox: If there is no box, or it does not fit.
    """
    here = data[at - offset : at - offset + LONGEST_HEADER]
    if len(here) < _HEADER.size:
        raise NoBox(f"the file ends within the header of a box at byte {at}")
    size, code = _HEADER.unpack_from(here)
    name = code.decode("latin-1")
    body = at + _HEADER.size
    if size == 1 and len(here) == LONGEST_HEADER:
        [size] = _LONG.unpack_from(here, _HEADER.size)
        body += _LONG.size
    elif size == 0:
        size = end - at
    if size < body - at or at + size > end:
        raise NoBox(f"the box {name!r} at byte {at} has {size} bytes, but only {end - at} are left: it is truncated")
    return Box(name, at, body, at + size)


def boxes(data: memoryview, start: int, end: int) -> Iterator[Box]:
    """Yield the boxes between two bytes of ``data``."""
    while start < end:
        box = box_at(data, start, end)
        yield box
        start = box.end


def find(data: memoryview, within: Box, *path: str) -> Box | None:
    """Return the first box with a path of names below another box, or None."""
    for name in path:
        found = next((box for box in boxes(data, within.body, within.end) if box.name == name), None)
        if found is None:
            return None
        within = found
    return within


def need(data: memoryview, within: Box, *path: str) -> Box:
    """Return the first box with a path of names below another box, or raise ``NoBox``."""
    found = find(data, within, *path)
    if found is None:
        raise NoBox(f"there is no box {'/'.join(path)} in {within.name!r}")
    return found
