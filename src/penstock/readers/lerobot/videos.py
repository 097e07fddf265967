"""The episodes' parts of videos: their frames, where the bytes lie, and which row each belongs to. Decodes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lrucache import LruCache
from penstock.readers.metadata import MetadataFinder
from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.checksums import ChecksumCache
from penstock.readers.mp4.clip import Clip
from penstock.readers.mp4.header import TRACK
from penstock.readers.mp4.track import Track
from penstock.readers.mp4.video import Video
from penstock.readers.ranges import Ranges
from penstock.store.extents import Extent

_KEPT_TRACKS = 16  # up to a megabyte each, for a file of 200 MB; the metadata cache has all


class Videos:
    """Clips of episodes. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: Dataset.
        ranges: Bytes of its files.
        metadata: Folder of the metadata cache.
        capacity: Number of clips that stay in memory.
    """

    def __init__(self, dataset: Dataset, ranges: Ranges, metadata: Path, capacity: int) -> None:
        self._dataset = dataset
        self._ranges = ranges
        self._metadata = metadata
        self._tracks = MetadataFinder(TRACK, ranges, metadata, _KEPT_TRACKS)
        self._videos: LruCache[str, Video] = LruCache(_KEPT_TRACKS)
        self._clips: LruCache[tuple[str, int], Clip] = LruCache(capacity)
        self._matched: LruCache[tuple[str, int], Matched] = LruCache(capacity)

    def open_checksums(self) -> ChecksumCache:
        """Return the checksums of the frames of indexed videos. Opens the store of the videos."""
        return ChecksumCache(self._metadata, self._ranges.open_store().identity)

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
        """Return the clip, the bytes to fetch first, or None for a bad file. Never waits."""
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
        except (NoBox, OSError):  # reported when the sample is made
            return None

    def match(self, camera: str, at: int, times: NDArray[np.float32], tolerance: float) -> "Matched":
        """Return the frame that belongs to each row of an episode, found once. May wait for the header of the file.

        Args:
            camera: Camera with videos.
            at: Place of the episode in the dataset.
            times: Times of its rows, from the beginning of the episode.
            tolerance: Maximum difference of a frame from its time, in seconds.

        Raises:
            ContentError: If the file cannot be read, or has no frame of the episode.
        """
        return self._matched.get_or_make((camera, at), lambda: self._match(camera, at, times, tolerance))

    def _match(self, camera: str, at: int, times: NDArray[np.float32], tolerance: float) -> "Matched":
        clip = self.clip(camera, at)
        begin = float(self._dataset.episodes.videos[camera].start[at])
        if not len(clip.seconds):
            reason = f"the video has no frame of the episode, which begins at {begin:.4f} s"
            raise ContentError(clip.path, self._dataset.episode_name(at), reason)
        return match(clip, begin, times, self._dataset.info.fps, tolerance)

    def _video(self, camera: str, path: str, track: Track) -> Video:
        checksums = self.open_checksums().get(path, track)
        return Video(path, self._ranges.size(path), track, self._begins[camera][path], checksums)

    def _cut(self, video: Video, camera: str, at: int) -> Clip:
        fps = self._dataset.info.fps
        episodes = self._dataset.episodes
        begin = float(episodes.videos[camera].start[at])
        half = 0.5 / fps  # a frame is never as far from its time: the next one would be nearer
        return video.clip(begin - half, begin + int(episodes.length[at]) / fps - half)

    @cached_property
    def _begins(self) -> Mapping[str, Mapping[str, NDArray[np.float64]]]:
        """Seconds at which episodes begin in each video, by camera and path."""
        return {camera: self._begins_of(camera) for camera in self._dataset.episodes.videos}

    def _begins_of(self, camera: str) -> Mapping[str, NDArray[np.float64]]:
        seconds = self._dataset.episodes.videos[camera]
        order = np.lexsort((seconds.start, seconds.file, seconds.chunk))
        changes = np.diff(seconds.chunk[order]) | np.diff(seconds.file[order])
        runs = np.split(order, np.flatnonzero(changes) + 1)
        return {self._dataset.video_path(camera, int(run[0])): seconds.start[run] for run in runs}


@dataclass(frozen=True)
class Matched:
    """The frame of a video that belongs to each row of an episode.

    Attributes:
        clip: Episode's part of the video.
        seconds: Time at which the frame of each row should be shown.
        numbers: Frame of the clip nearest to that time, for each row.
        off: Difference between the two times, in seconds.
        is_near: Whether the difference, and that of the row from its frame's time, are within the tolerance.
        all_near: Whether all of ``is_near`` are true.
    """

    clip: Clip
    seconds: NDArray[np.float64]
    numbers: Ints
    off: NDArray[np.float64]
    is_near: NDArray[np.bool_]
    all_near: bool


def match(clip: Clip, begin: float, times: NDArray[np.float32], fps: float, tolerance: float) -> Matched:
    """Find the frame of a clip for each row. The clip must have frames.

    Args:
        clip: Episode's part of a video.
        begin: Begin of the episode in the video, in seconds.
        times: Times of the rows, from the beginning of the episode.
        fps: Rows per second.
        tolerance: Maximum difference of a frame from its time, in seconds.
    """
    seconds = times.astype(np.float64) + begin
    numbers, off = clip.nearest(seconds)
    # Times are stored with 24 bits: in long episodes these alone may be off by more than the tolerance.
    is_near = (off <= tolerance) | (off <= tolerance + np.spacing(times))
    is_near &= lateness(times, fps) <= tolerance
    return Matched(clip, seconds, numbers, off, is_near, bool(is_near.all()))


def not_near(dataset: Dataset, at: int, row: int, found: Matched, time: float, tolerance: float) -> ContentError:
    """Return the error of a row without a matching frame of a video.

    Args:
        dataset: Dataset.
        at: Place of the episode in the dataset.
        row: Row of the episode.
        found: Frames of the episode.
        time: Timestamp of the row.
        tolerance: Maximum difference of a frame from its time, in seconds.
    """
    name = f"{dataset.episode_name(at)}, frame {row}"
    fps = dataset.info.fps
    if not np.isfinite(time):
        return ContentError(dataset.data_path(at), name, f"its timestamp is {time}")
    if found.off[row] <= tolerance:
        reason = f"its timestamp is {time:.4f} s; at {fps:g} fps it should be {row / fps:.4f} s"
        return ContentError(dataset.data_path(at), name, reason)
    reason = (
        f"the video has no frame at {found.seconds[row]:.4f} s: the nearest frame of the episode is "
        f"{found.off[row]:.4f} s away, more than tolerance_s = {tolerance:g}"
    )
    return ContentError(found.clip.path, name, reason)


def lateness(times: NDArray[np.float32], fps: float) -> NDArray[np.float64]:
    """Return the difference of rows from the times of their frames, in seconds, beyond the rounding of float32."""
    return np.abs(times.astype(np.float64) - np.arange(len(times)) / fps) - np.spacing(times)
