"""Every frame of some episodes read once: checksums for runs, and frames that cannot be decoded."""

import threading
import zlib
from collections.abc import Callable

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.lerobot.videos import Videos
from penstock.readers.mp4.checksums import DAMAGED, UNKNOWN, Checksums
from penstock.readers.mp4.clip import Clip
from penstock.readers.ranges import Ranges

DamagedFrames = Callable[[Clip, Ranges], list[int]]
"""Decodes a clip and returns its damaged frames."""


class FrameChecks:
    """Reads the frames of episodes. Any number of threads may use it.

    The checksums of a file are saved when all its episodes are done.

    Args:
        videos: Videos of the dataset.
        ranges: Bytes of the files.
        damaged_frames: Function that decodes a clip and returns its damaged frames.
    """

    def __init__(self, videos: Videos, ranges: Ranges, damaged_frames: DamagedFrames) -> None:
        self._videos = videos
        self._ranges = ranges
        self._damaged_frames = damaged_frames
        self._lock = threading.Lock()
        self._found: dict[str, Checksums] = {}
        self._done: dict[str, int] = {}

    def check(self, camera: str, at: int, episodes: int) -> str:
        """Read the frames of an episode, and decode them if they were not read before.

        Args:
            camera: Camera with videos.
            at: Place of the episode in the dataset.
            episodes: Number of episodes of the file that are checked in total.

        Returns:
            Fault; empty if there is none.

        Raises:
            ContentError: If the file is not a video that can be read.
        """
        clip = self._videos.clip(camera, at)
        known = self._videos.video(camera, at).checksums()
        here = slice(clip.first, clip.first + len(clip.sizes))
        own = known.frames[here]
        found = self._read(clip)
        reason = ""
        changed = int(((own >= 0) & (own != found)).sum())
        if changed:
            found = own
            reason = (
                f"{changed} of its frames differ from those that were indexed before: they are damaged, or "
                "the file was replaced; restore it, or index it with --anew"
            )
        elif not (own >= 0).all():
            damaged = self._damaged_frames(clip, self._ranges)
            found[damaged] = DAMAGED
            if damaged:
                reason = f"damaged frames: {len(damaged)}; restore the file, or leave the episode out"
        self._keep(clip, known, here, found, episodes)
        return reason

    def _read(self, clip: Clip) -> Ints:
        """Return the checksum of each frame of a clip."""
        self._ranges.fetch(clip.path, clip.units, clip.file_size)
        found = [zlib.crc32(data) for piece in clip.blocks() for data in clip.read(self._ranges, piece)]
        return np.array(found, np.int64)

    def _keep(self, clip: Clip, known: Checksums, here: slice, found: Ints, episodes: int) -> None:
        path = clip.path
        with self._lock:
            own = self._found.setdefault(path, Checksums(known.header, known.frames.copy()))
            # A frame whose key frame is not in the clip was not decoded: its own episode says whether it is damaged.
            is_decoded = clip.starts >= 0
            own.frames[here] = np.where(is_decoded | (own.frames[here] == UNKNOWN), found, own.frames[here])
            self._done[path] = self._done.get(path, 0) + 1
            if self._done[path] < episodes:
                return
            del self._found[path]
        if not np.array_equal(own.frames, known.frames):
            self._videos.open_checksums().put(path, own)
