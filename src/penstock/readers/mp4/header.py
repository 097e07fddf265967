"""Where the header of an MP4 file lies: its ``moov`` box, at the front or after the frames. Reads by ranges."""

from penstock.readers.mp4.boxes import LONGEST_HEADER, NoBox, box_at
from penstock.readers.ranges import Search

HEAD_BYTES = 4096  # of a file, which are read first
_STRIDE_BYTES = 4096
_TAIL_BYTES = 4 << 20  # what follows the frames is read at once up to this size: it is mostly the header
_MOST_BOXES = 1_000  # that are passed over; files have a handful


def find_moov(size: int) -> Search[memoryview]:
    """Search a file for its ``moov`` box: see ``Ranges.follow``.

    Returns:
        The whole box.

    Raises:
        NoBox: If this is no MP4 file, or it is truncated.
    """
    offset = 0
    data = yield (0, min(HEAD_BYTES, size))
    at = 0
    for _ in range(_MOST_BOXES):
        if at >= size:
            break
        if not offset <= at <= at + LONGEST_HEADER <= offset + len(data) and offset + len(data) < size:
            offset = at
            data = yield (at, size if size - at <= _TAIL_BYTES else at + _STRIDE_BYTES)
        box = box_at(data, at, size, offset)
        if box.name == "moov":
            here = data[at - offset : box.end - offset]
            missing = box.end - at - len(here)
            if not missing:
                return here
            rest = yield (box.end - missing, box.end)
            return memoryview(bytes(here) + bytes(rest))
        at = box.end
    raise NoBox("there is no box 'moov': the file is no MP4, or it is truncated")
