"""Pieces of a clip: every wanted frame is in exactly one, each begins with a key frame, none is longer than needed."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.mp4.clip import Piece, pieces, starts_of
from penstock.readers.mp4.track import Coding, Track

CODING = Coding("avc1", b"", 64, 64)


def track_of(shown: list[int], keys: list[bool]) -> Track:
    """A track from the places in which frames are shown, in decoding order."""
    count = len(shown)
    return Track(CODING, 1, np.arange(count) * 10, np.full(count, 10), np.array(shown), np.array(keys))


@st.composite
def tracks(draw: st.DrawFn) -> Track:
    """Groups of pictures, closed or open: an open one has frames that are shown before its key frame."""
    shown: list[int] = []
    keys: list[bool] = []
    for number in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 8))
        leading = draw(st.integers(0, size - 1)) if number else 0
        first = len(shown)
        others = [first + place for place in range(size) if place != leading]
        shown += [first + leading, *others]
        keys += [True, *[False] * (size - 1)]
    return track_of(shown, keys)


def decodable(track: Track, first: int) -> set[int]:
    """Frames that a decoder yields which begins with a key frame: not those before that key frame in the showing."""
    keys = np.flatnonzero(track.keys)
    group_end = next((int(key) for key in keys if key > first), len(track.keys))
    own = {frame for frame in range(first, group_end) if track.times[frame] >= track.times[first]}
    return own | set(range(group_end, len(track.keys)))


def test_a_frame_shown_before_its_key_frame_is_decoded_from_the_one_before() -> None:
    #   in the file    I0 I2 B1 I4 B3, as lerobot writes depth
    assert starts_of(track_of([0, 2, 1, 4, 3], [True, True, False, True, False])).tolist() == [0, 1, 0, 3, 1]
    assert starts_of(track_of([0, 2, 1, 3], [True, False, False, False])).tolist() == [0, 0, 0, 0]
    assert starts_of(track_of([0, 1], [False, True])).tolist() == [0, 1], "without a key frame, from the first frame on"
    assert starts_of(track_of([1, 0, 3, 2], [True, False, True, False])).tolist() == [0, -1, 2, 0], "cut before frame 0"


@given(tracks())
def test_every_frame_can_be_decoded_from_its_start(track: Track) -> None:
    starts = starts_of(track)
    for frame, start in enumerate(starts.tolist()):
        assert start <= frame and track.keys[start] and frame in decodable(track, start)
        later = [key for key in np.flatnonzero(track.keys).tolist() if start < key <= frame]
        assert not any(frame in decodable(track, key) for key in later), "from no later key frame"


@given(tracks(), st.data())
def test_pieces_yield_each_wanted_frame_once_and_are_as_short_as_can_be(track: Track, data: Any) -> None:
    starts = starts_of(track)
    frame = st.integers(0, len(starts) - 1)
    wanted = data.draw(st.lists(frame, min_size=1, max_size=12))
    found = pieces(starts, wanted)
    assert sorted(number for _, numbers in found for number in numbers) == sorted(set(wanted))
    decoded: set[int] = set()
    for piece, numbers in found:
        assert track.keys[piece.first] and piece.last == max(numbers)
        assert set(numbers) <= decodable(track, piece.first)
        packets = set(range(piece.first, piece.last + 1))
        assert not packets & decoded, "no packet is decoded twice"
        decoded |= packets
    needed = {packet for number in wanted for packet in range(int(starts[number]), number + 1)}
    assert decoded == needed, "and none in vain"
    assert all(after.first > before.last + 1 for (before, _), (after, _) in itertools.pairwise(found))


def test_pieces_that_touch_are_one() -> None:
    starts = np.array([0, 0, 2, 2, 4, 4])
    [(piece, frames)] = pieces(starts, [2, 1, 1])
    assert piece == Piece(0, 2) and frames == [1, 2]
    assert [piece for piece, _ in pieces(starts, [0, 3])] == [Piece(0, 0), Piece(2, 3)]
