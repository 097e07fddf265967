"""Clips of a video file that shows numbers, cut as a dataset's reader cuts them."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.media.video.encoding import Encoding
from penstock.readers.mp4.clip import Clip
from penstock.readers.mp4.header import TRACK
from penstock.readers.mp4.video import Video
from penstock.readers.ranges import Ranges
from penstock.store.local import LocalStore
from tests.videos import FPS, write_numbered

NAME = "file.mp4"


def clips_of(folder: Path, lengths: Sequence[int], encoding: Encoding) -> tuple[list[Clip], Ranges]:
    """Write a video; return its clips, and what reads it."""
    write_numbered(folder / NAME, lengths, encoding)
    return opened(folder, lengths)


def opened(folder: Path, lengths: Sequence[int]) -> tuple[list[Clip], Ranges]:
    """Return the clips of a video that was written before, and what reads it."""
    store = LocalStore(folder)
    ranges = Ranges(lambda: store)
    track = ranges.follow(NAME, TRACK.search)
    first = np.cumsum([0, *lengths])
    video = Video(NAME, ranges.size(NAME), track, first[:-1] / FPS)
    cuts = (first - 0.5) / FPS
    return [video.clip(begin, end) for begin, end in itertools.pairwise(cuts.tolist())], ranges
