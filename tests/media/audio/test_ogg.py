"""Damaged Ogg files: a decoder would return a shorter clip for most of them, without an error."""

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.audio.clip import read_whole
from penstock.media.audio.ogg import HEADER, check_ogg
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import REAL, encode, voice

FILES = {name: encode(voice(16_000, 2.5), 16_000, "OGG", name) for name in ("VORBIS", "OPUS")}
EITHER = pytest.mark.parametrize("name", FILES)


def borders(data: bytes) -> list[int]:
    """Where pages start, and the end of the file."""
    found = [0]
    while found[-1] < len(data):
        segments = data[found[-1] + 26]
        lengths = found[-1] + HEADER.size
        found.append(lengths + segments + sum(data[lengths : lengths + segments]))
    return found


def crc(page: bytes) -> int:
    """The checksum as the Ogg specification writes it, bit by bit."""
    value = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFFFFFF
    return value


def changed(page: bytes, at: int, form: str, value: int) -> bytes:
    """A page with another value in its header, and a checksum that agrees."""
    page = page[:at] + struct.pack(form, value) + page[at + struct.calcsize(form) :]
    return page[:22] + struct.pack("<I", crc(page)) + page[26:]


def pages(data: bytes) -> list[bytes]:
    ends = borders(data)
    return [data[start:end] for start, end in pairwise(ends)]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 10**9), st.integers(1, 255))
def test_one_wrong_byte_anywhere_is_an_error_and_not_a_shorter_clip(name: str, place: int, change: int) -> None:
    data = bytearray(FILES[name])
    data[place % len(data)] ^= change
    with pytest.raises(BadMedia):
        read_whole(InMemory(bytes(data)))


@EITHER
def test_a_missing_page_is_an_error_whichever_it_is(name: str) -> None:
    whole = pages(FILES[name])
    assert len(whole) > 3
    for missing in range(len(whole)):
        with pytest.raises(BadMedia, match=r"missing|damaged"):
            read_whole(InMemory(b"".join(whole[:missing] + whole[missing + 1 :])))


@EITHER
def test_a_file_that_ends_between_two_pages_is_truncated(name: str) -> None:
    with pytest.raises(BadMedia, match="truncated: its last page is missing"):
        read_whole(InMemory(b"".join(pages(FILES[name])[:-1])))


@EITHER
def test_a_file_cut_in_the_first_bytes_of_a_page_is_truncated(name: str) -> None:
    data = FILES[name]
    border = borders(data)[-2]
    for more in range(1, 40):
        with pytest.raises(BadMedia, match=r"truncated|damaged"):
            check_ogg(data[: border + more])


@EITHER
@pytest.mark.parametrize("granule", [10**6, 2**62, 1, -5])
def test_a_last_page_that_claims_samples_which_cannot_be_is_an_error(name: str, granule: int) -> None:
    *first, last = pages(FILES[name])
    with pytest.raises(BadMedia, match="cannot hold"):
        check_ogg(b"".join([*first, changed(last, 6, "<q", granule)]))


@EITHER
def test_what_follows_the_last_page_does_not_matter(name: str) -> None:
    check_ogg(FILES[name] + b"TAG" + bytes(125))


def test_clips_of_all_lengths_rates_and_channels_pass() -> None:
    for subtype in FILES:
        for rate, seconds, channels in ((8_000, 0.02, 1), (16_000, 0.5, 2), (24_000, 3.0, 1), (48_000, 20.0, 2)):
            check_ogg(encode(voice(rate, seconds, channels), rate, "OGG", subtype))
    for path in REAL:
        if path.read_bytes().startswith(b"OggS"):
            check_ogg(path.read_bytes())


def test_noise_after_the_first_page_is_refused() -> None:
    first = pages(FILES["VORBIS"])[0]
    with pytest.raises(BadMedia, match=f"damaged at byte {len(first)}"):
        check_ogg(first + random.Random(0).randbytes(500))


def test_a_clip_that_was_cut_from_a_longer_stream_begins_anywhere() -> None:
    """Opus counts from the start of the stream that a clip was cut from; its decoder does not care."""
    later = 10 * 48_000
    whole = pages(FILES["OPUS"])
    moved = [changed(page, 6, "<q", later + struct.unpack_from("<q", page, 6)[0]) for page in whole[2:]]
    check_ogg(b"".join([*whole[:2], *moved]))
    with pytest.raises(BadMedia, match="cannot hold"):
        check_ogg(b"".join([*whole[:2], *moved[:-1], changed(moved[-1], 6, "<q", 2 * later)]))
