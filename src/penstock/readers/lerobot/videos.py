"""The episodes' parts of videos: which frames, and where their bytes lie. Decodes nothing."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.readers.errors import ContentError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lrucache import LruCache
from penstock.readers.metadata import MetadataFinder
from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.checksums import KeptChecksums
from penstock.readers.mp4.clip import Clip
from penstock.readers.mp4.keeping import TRACK
from penstock.readers.mp4.track import Track
from penstock.readers.mp4.video import Video
from penstock.readers.ranges import Ranges
from penstock.store.extents import Extent

_KEPT_TRACKS = 16  # of a file of 200 MB it may take a megabyte; the shelf has all


class Videos:
    """Clips of episodes. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: what ``meta/`` says.
        ranges: its files.
        shelf: the folder of what was learnt about files.
        capacity: clips that are kept.
    """

    def __init__(self, dataset: Dataset, ranges: Ranges, shelf: Path, capacity: int) -> None:
        self._dataset = dataset
        self._ranges = ranges
        self._shelf = shelf
        self._tracks = MetadataFinder(TRACK, ranges, shelf, _KEPT_TRACKS)
        self._videos: LruCache[str, Video] = LruCache(_KEPT_TRACKS)
        self._clips: LruCache[tuple[str, int], Clip] = LruCache(capacity)

    @cached_property
    def kept_checksums(self) -> KeptChecksums:
        """Checksums of frames, of videos that were indexed."""
        return KeptChecksums(self._shelf, self._ranges.open_store().identity)

    def video(self, camera: str, at: int) -> Video:
        """Return the video with an episode. May wait for the header of the file.

        Raises:
            ContentError: If the file is not a video that can be read.
        """
        path = self._dataset.video_path(camera, at)
        try:
            return self._videos.get_or_make(path, lambda: self._video(camera, path, self._tracks.get(path)))
        except NoBox as error:
            raise ContentError(path, None, str(error)) from None

    def clip(self, camera: str, at: int) -> Clip:
        """Return an episode's part of a video. May wait for the header of the file.

        Raises:
            ContentError: If the file is not a video that can be read.
        """
        return self._clips.get_or_make((camera, at), lambda: self._cut(self.video(camera, at), camera, at))

    def clip_if_here(self, camera: str, at: int) -> Clip | Extent | None:
        """Return the same, or the bytes that have to be fetched first, or None for a bad file. Never waits."""
        known = self._clips.get((camera, at))
        if known is not None:
            return known
        path = self._dataset.video_path(camera, at)
        video = self._videos.get(path)
        try:
            if video is None:
                track = self._tracks.get_if_here(path)
                if isinstance(track, Extent):
                    return track
                video = self._videos.put(path, self._video(camera, path, track))
            return self._clips.put((camera, at), self._cut(video, camera, at))
        except (NoBox, OSError):  # the thread that makes the sample meets it, too
            return None

    def _video(self, camera: str, path: str, track: Track) -> Video:
        checksums = self.kept_checksums.get(path, track)
        return Video(path, self._ranges.size(path), track, self._begins[camera][path], checksums)

    def _cut(self, video: Video, camera: str, at: int) -> Clip:
        fps = self._dataset.info.fps
        episodes = self._dataset.episodes
        begin = float(episodes.videos[camera].start[at])
        half = 0.5 / fps  # a frame is never as far from its time: the next one would be nearer
        return video.clip(begin - half, begin + int(episodes.length[at]) / fps - half)

    @cached_property
    def _begins(self) -> Mapping[str, Mapping[str, NDArray[np.float64]]]:
        """The seconds at which episodes begin in each video, by camera and path."""
        return {camera: self._begins_of(camera) for camera in self._dataset.episodes.videos}

    def _begins_of(self, camera: str) -> Mapping[str, NDArray[np.float64]]:
        seconds = self._dataset.episodes.videos[camera]
        order = np.lexsort((seconds.start, seconds.file, seconds.chunk))
        changes = np.diff(seconds.chunk[order]) | np.diff(seconds.file[order])
        runs = np.split(order, np.flatnonzero(changes) + 1)
        return {self._dataset.video_path(camera, int(run[0])): seconds.start[run] for run in runs}
