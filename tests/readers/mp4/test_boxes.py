"""Boxes are found by name, whatever way their length is written, and never reach beyond the box around them."""

import struct

import pytest

from penstock.readers.mp4.boxes import Box, NoBox, box_at, boxes, find, need
from tests.readers.mp4.editing import box


def test_a_length_is_written_in_four_bytes_or_in_eight_or_is_all_that_is_left() -> None:
    short = box("free", b"abc")
    long = struct.pack(">I4sQ", 1, b"mdat", 20) + b"abcd"
    rest = struct.pack(">I4s", 0, b"mdat") + b"to the end"
    data = memoryview(short + long + rest)
    assert list(boxes(data, 0, len(data))) == [
        Box("free", 0, 8, 11),
        Box("mdat", 11, 27, 31),
        Box("mdat", 31, 39, len(data)),
    ]


def test_a_box_is_found_where_only_part_of_the_file_is_known() -> None:
    data = b"." * 100 + box("moov", b"12345")
    assert box_at(memoryview(data)[90:], 100, len(data), 90) == Box("moov", 100, 108, 113)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        struct.pack(">I4s", 7, b"free"),  # shorter than its own header
        struct.pack(">I4s", 9, b"free"),  # longer than what is left
        struct.pack(">I4sQ", 1, b"free", 15) + b"1234567",
        struct.pack(">I4sQ", 1, b"free", 1 << 63),
        struct.pack(">I4s", 1, b"free"),  # eight bytes of length are announced and missing
    ],
)
def test_what_is_no_box_is_refused(data: bytes) -> None:
    with pytest.raises(NoBox):
        box_at(memoryview(data), 0, len(data))


def test_boxes_are_found_by_a_path_of_names() -> None:
    inner = box("stts", b"first") + box("stts", b"second")
    data = memoryview(box("moov", box("free", b"") + box("trak", inner)))
    top = box_at(data, 0, len(data))
    found = need(data, top, "trak", "stts")
    assert bytes(data[found.body : found.end]) == b"first"
    assert find(data, top, "trak", "ctts") is None and find(data, top, "none", "stts") is None
    with pytest.raises(NoBox, match="no box trak/ctts in 'moov'"):
        need(data, top, "trak", "ctts")
