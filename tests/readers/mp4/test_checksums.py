"""Checksums of frames belong to a path, and to what its header said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.checksums import DAMAGED, UNKNOWN, ChecksumCache, Checksums
from penstock.readers.mp4.header import TRACK
from penstock.readers.mp4.track import Track
from tests.videos import run_search


@pytest.fixture
def track(video_bytes: Callable[[str], bytes]) -> Track:
    return run_search(video_bytes("h264, groups of 12, 2 B-frames"), TRACK.search)[0]


def test_what_was_kept_is_found_by_store_and_path(track: Track, tmp_path: Path) -> None:
    found = Checksums.unknown(track)
    assert (found.frames == UNKNOWN).all() and len(found.frames) == len(track.offsets)
    found.frames[:3] = (0, 0xFFFFFFFF, DAMAGED)
    ChecksumCache(tmp_path, "here").put("a.mp4", found)
    again = ChecksumCache(tmp_path, "here").get("a.mp4", track)
    assert again is not None and again.header == found.header and again.frames.tolist() == found.frames.tolist()
    assert ChecksumCache(tmp_path, "here").get("b.mp4", track) is None
    assert ChecksumCache(tmp_path, "there").get("a.mp4", track) is None
    ChecksumCache(tmp_path, "here").remove("a.mp4")
    ChecksumCache(tmp_path, "here").remove("a.mp4")
    assert ChecksumCache(tmp_path, "here").get("a.mp4", track) is None


@pytest.mark.parametrize("field", ["offsets", "sizes", "times", "keys", "coding", "length"])
def test_a_video_with_another_header_is_refused(track: Track, tmp_path: Path, field: str) -> None:
    kept = ChecksumCache(tmp_path, "here")
    kept.put("a.mp4", Checksums.unknown(track))
    assert kept.get("a.mp4", replace(track, times=track.times.copy())) is not None
    if field == "coding":
        other = replace(track, coding=replace(track.coding, config=b"other"))
    elif field == "length":
        other = track.within(int(track.offsets[-1]))
    else:
        column = getattr(track, field).copy()
        column[5] = np.logical_not(column[5]) if field == "keys" else column[5] + 1
        other = replace(track, **{field: column})
    with pytest.raises(NoBox, match=r"its header, or its length, is not what `penstock index` read.* --anew"):
        kept.get("a.mp4", other)
