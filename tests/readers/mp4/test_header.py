"""The header of an MP4 file is found by small reads, wherever it lies, and a file without one costs little."""

from collections.abc import Callable

import pytest

from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.header import find_moov, head_bytes
from tests.readers.mp4.editing import box
from tests.videos import run_search

MOOV = box("moov", b"m" * 5_000)
FRAMES = box("mdat", b"f" * 20_000_000)


@pytest.mark.parametrize(
    ("file", "most"),
    [
        (box("ftyp", b"isom") + MOOV + FRAMES, 1),
        (box("ftyp", b"isom") + box("free", b"0" * 30_000) + MOOV + FRAMES, 2),
        (box("ftyp", b"isom") + FRAMES + MOOV, 1),
        (box("ftyp", b"isom") + FRAMES + MOOV + FRAMES, 2),
        (FRAMES + FRAMES + box("free", b"") + MOOV, 3),
        (MOOV, 1),
    ],
    ids=["in front", "after a gap", "at the end", "in the middle", "after two", "alone"],
)
def test_the_header_is_found_without_the_frames(file: bytes, most: int) -> None:
    found, asked = run_search(file, find_moov)
    assert bytes(found) == MOOV
    assert sum(end - start for start, end in asked) <= head_bytes(len(file)) + len(MOOV) + most * 4096


def test_the_header_in_front_of_a_large_file_is_read_at_once() -> None:
    moov = box("moov", b"0" * 30_000)
    found, asked = run_search(box("ftyp", b"isom") + moov + box("mdat", b"0" * 10_000_000), find_moov)
    assert bytes(found) == moov
    assert len(asked) == 1 and asked[0][1] < 50_000


def test_a_real_file_tells_its_header_in_one_or_two_reads(video_bytes: Callable[[str], bytes]) -> None:
    for name, reads in (("h264", 1), ("h264 at the end", 2)):
        found, asked = run_search(video_bytes(name), find_moov)
        assert bytes(found[4:8]) == b"moov" and len(asked) == reads


@pytest.mark.parametrize(
    "file",
    [b"", b"text", FRAMES, box("ftyp", b"isom") + FRAMES[:-1], b"\0" * 10_000, MOOV[:-1]],
    ids=["empty", "no boxes", "no header", "cut in the frames", "zeros", "cut in the header"],
)
def test_a_file_without_a_header_is_refused(file: bytes) -> None:
    with pytest.raises(NoBox):
        run_search(file, find_moov)


def test_a_file_of_nothing_but_tiny_boxes_is_given_up_after_a_few_reads() -> None:
    file = box("free", b"") * 1_000_000
    asked = []

    def counted(size: int) -> object:
        answer = None
        steps = find_moov(size)
        while True:
            within = steps.send(answer)
            asked.append(within)
            answer = memoryview(file)[slice(*within)]

    with pytest.raises(NoBox, match="no box 'moov'"):
        counted(len(file))
    assert len(asked) < 10
