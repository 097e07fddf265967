"""A video in clips: each has its own frames, and the bytes of all clips are cut at the same places."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.mp4.clip import Clip, Piece, starts_of
from penstock.readers.mp4.header import LEAST_HEAD_BYTES, TRACK
from penstock.readers.mp4.track import Track
from penstock.readers.mp4.video import Video
from tests.readers.mp4.conftest import LENGTHS
from tests.readers.mp4.test_clip import track_of, tracks
from tests.videos import ENCODINGS, FPS, run_search

BEGINS = (np.cumsum(LENGTHS) - LENGTHS) / FPS


def video_of(data: bytes, begins: np.ndarray = BEGINS) -> tuple[Video, Track]:
    track, _ = run_search(data, TRACK.search)
    return Video("file.mp4", len(data), track, begins), track


def clip_of(video: Video, begin: float, frames: int) -> Clip:
    """Return the clip of some frames from a time on, as a reader that knows the frame rate cuts it."""
    half = 0.5 / FPS
    return video.clip(begin - half, begin + frames / FPS - half)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_clip_has_the_frames_of_its_episode_alone(name: str, video_bytes: Callable[[str], bytes]) -> None:
    data = video_bytes(name)
    video, track = video_of(data)
    assert video.frames == sum(LENGTHS)
    order = np.argsort(track.times)
    for begin, length in zip(BEGINS, LENGTHS, strict=True):
        clip = clip_of(video, begin, length)
        first = round(begin * FPS)
        np.testing.assert_allclose(clip.seconds, (first + np.arange(length)) / FPS, atol=1e-9)
        assert clip.offsets[clip.shown].tolist() == track.offsets[order[first : first + length]].tolist()
        assert clip.sizes[clip.shown].tolist() == track.sizes[order[first : first + length]].tolist()
        assert (clip.starts <= np.arange(len(clip.starts))).all() and clip.starts[clip.shown].min() == 0


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_units_of_all_clips_hold_every_frame_and_no_byte_twice(
    name: str, video_bytes: Callable[[str], bytes]
) -> None:
    video, track = video_of(video_bytes(name))
    clips = [clip_of(video, begin, length) for begin, length in zip(BEGINS, LENGTHS, strict=True)]
    for clip in clips:
        for frame in range(len(clip.offsets)):
            start, end = clip.byte_range(Piece(frame, frame))
            inside = [min(end, high) - max(start, low) for low, high in clip.units if start < high and end > low]
            assert sum(inside) == end - start
    units = sorted({unit for clip in clips for unit in clip.units})
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(units))
    assert units[0] == (0, LEAST_HEAD_BYTES), "what is read to find the header is not fetched again"
    assert units[-1][1] == (track.offsets + track.sizes).max()
    assert len(units) <= 1 + len(clips), "clips begin with key frames, so each has a range of its own"


def test_a_clip_that_begins_within_a_group_shares_the_bytes_of_the_clip_before(
    video_bytes: Callable[[str], bytes],
) -> None:
    begins = np.array([0, 5, 40]) / FPS  # the key frames are at 0, 20, 27
    video, _ = video_of(video_bytes("h264, one group, 3 B-frames"), begins)
    first, second, third = (clip_of(video, begin, length) for begin, length in zip(begins, (5, 35, 20), strict=True))
    assert set(first.units) < set(second.units), "the second is decoded from frame 0 on"
    assert set(second.units) & set(third.units) and second.starts[second.shown[0]] == 0


def test_frames_of_the_clip_before_that_begin_there_have_no_start_in_the_clip() -> None:
    track = track_of([0, 2, 1, 4, 3, 6, 5], [True, True, False, True, False, True, False])
    clip = Video("file.mp4", 100, track, np.array([0.0, 4.0])).clip(4, 7)
    assert clip.first == 3 and clip.starts.tolist() == [0, -2, 2, 0] and clip.shown.tolist() == [0, 3, 2]


def test_a_video_that_ends_early_gives_a_shorter_clip(video_bytes: Callable[[str], bytes]) -> None:
    video, _ = video_of(video_bytes("h264"))
    assert len(clip_of(video, BEGINS[2], 40).shown) == 33
    late = clip_of(video, 100.0, 5)
    assert len(late.shown) == 0 and late.units == () and late.nbytes == 0


def test_a_video_without_some_frames_gives_no_frames_of_the_next_clip_instead(
    video_bytes: Callable[[str], bytes],
) -> None:
    _, track = video_of(video_bytes("h264"))
    lacking = replace(track, times=np.where(track.times >= track.times[10], track.times * 2, track.times))
    video = Video("file.mp4", 10**9, lacking, BEGINS)
    assert len(clip_of(video, BEGINS[0], LENGTHS[0]).shown) == 10


def test_a_time_means_the_nearest_frame(video_bytes: Callable[[str], bytes]) -> None:
    video, _ = video_of(video_bytes("h264"))
    for off in (-0.4, 0, 0.4):
        assert clip_of(video, (20 + off) / FPS, 3).seconds[0] == pytest.approx(20 / FPS)
    clip = clip_of(video, 20 / FPS, 7)
    frames, off = clip.nearest(np.array([19.6, 22.4, 26.4]) / FPS)
    assert frames.tolist() == clip.shown[[0, 2, 6]].tolist()
    np.testing.assert_allclose(off, 0.4 / FPS, atol=1e-9)
    _, off = clip.nearest(np.array([28.0]) / FPS)
    assert off[0] == pytest.approx(2 / FPS), "never a frame of the next clip, however near it is"


@given(tracks(), st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_clips_of_any_video_find_their_frames_in_their_units(track: Track, begins: list[int]) -> None:
    begins = sorted(set(begins))
    size = int(track.offsets[-1] + track.sizes[-1])
    video = Video("file.mp4", size, track, np.array(begins, np.float64))
    starts = starts_of(track)
    seen: set[tuple[int, int]] = set()
    for begin, following in zip(begins, [*begins[1:], 50], strict=True):
        clip = video.clip(begin, following)
        own = [frame for frame in range(len(track.times)) if begin <= track.times[frame] < following]
        assert sorted(clip.offsets[clip.shown].tolist()) == sorted(track.offsets[own].tolist())
        seen |= set(clip.units)
        for frame in own:
            wanted = range(int(track.offsets[starts[frame]]), int(track.offsets[frame] + track.sizes[frame]))
            inside = [range(*unit) for unit in clip.units]
            assert all(any(byte in unit for unit in inside) for byte in (wanted[0], wanted[-1]))
            assert clip.units[-1][1] >= wanted[-1] + 1 and clip.units[0][0] <= wanted[0]
    ranges = sorted(seen)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
