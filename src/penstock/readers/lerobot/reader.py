"""Frames of episodes -> rows, windows and the frames of their cameras. Decodes nothing; knows no batch."""

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.manifest.errors import Problems
from penstock.plan.draws import Ints
from penstock.readers.blobs import OPEN_PINS
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.checking import DatasetFiles, EpisodeFile, check_files, episode_files, in_words
from penstock.readers.lerobot.contradictions import contradictions
from penstock.readers.lerobot.dataset import EpisodeManifest
from penstock.readers.lerobot.framechecks import DamagedFrames, FrameChecks
from penstock.readers.lerobot.hashing import EpisodeHashes
from penstock.readers.lerobot.images import EmbeddedImages, ImageFrames
from penstock.readers.lerobot.info import INDEX_COLUMNS
from penstock.readers.lerobot.moment import Field, Moment, VideoFrames
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lerobot.tables import EpisodeColumns, Tables
from penstock.readers.lerobot.videos import Videos, not_near
from penstock.readers.lerobot.windows import Needs, frame_offsets, new_names, window
from penstock.readers.mp4.clip import Clip, pieces
from penstock.readers.ranges import Ranges
from penstock.readers.reader import BaseReader, Evidence, Uses
from penstock.runtime.engines.engine import JobShare
from penstock.store.blob import Store
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent

log = logging.getLogger(__name__)

_TIME = "timestamp"
_TASK = "task_index"


class EpisodeReader(BaseReader):
    """Reads the frames of a dataset; see ``readers.reader.Reader``.

    Args:
        manifest: Frames.
        open_store: Function that opens the store of the dataset.
        needs: Windows and tolerance.
        metadata: Folder of the metadata cache.
        pool: Number of groups that are resident at a time. Rows of twice as many episodes stay in memory.
        derive: Function that opens a store of the pieces that a maker makes of the dataset's files.
        rename: New names of features.
        keys: Features to read, by their new names; None for all. The bytes of others are not fetched.

    Attributes:
        dataset: Dataset.
        fields: Fields of moments, by key.
        names_of_features: New name of each feature, by its name in the dataset.

    Raises:
        ManifestError: If a window is not on the grid of the dataset's frames, or a renamed feature does not exist.
    """

    shows_neighbours = True  # windows
    keeps_rows = True

    def __init__(
        self,
        manifest: EpisodeManifest,
        open_store: Callable[[], Store],
        needs: Needs,
        metadata: Path,
        pool: int,
        derive: Callable[[Maker], DerivedStore],
        rename: Mapping[str, str] | None = None,
        keys: Collection[str] | None = None,
    ) -> None:
        self.dataset = manifest.dataset
        self._manifest = manifest
        self._arguments = (manifest, open_store, needs, metadata, pool, derive, rename)
        self._tolerance = needs.tolerance
        info = self.dataset.info
        self.names_of_features = new_names(info.features, rename or {}, self.dataset.name)
        windows = {key: needs.deltas[new] for key, new in self.names_of_features.items() if new in needs.deltas}
        self._offsets = frame_offsets(windows, needs.tolerance, info.fps, self.dataset.name)
        self.fields = {
            new: Field.of(info.features[key], len(needs.deltas[new]) if new in needs.deltas else None)
            for key, new in self.names_of_features.items()
        }
        # A quarter of what the feed pins anyway: opening a clip for each use took a quarter of a batch's time.
        self._ranges = Ranges(open_store, pins=max(OPEN_PINS, pool // 4))
        self._files = RowFiles(self.dataset, self._ranges, metadata)
        self.use(keys)

    def __reduce__(self) -> tuple[object, ...]:
        return EpisodeReader, (*self._arguments, self._keys)

    def use(self, keys: Collection[str] | None) -> None:
        """Read only some features, by their new names; None for all. To be called before the first sample."""
        self._keys = keys
        manifest, _, _, metadata, pool, derive, _ = self._arguments
        chosen = manifest.groups.chosen
        capacity = 2 * pool
        columns = self._used("values")
        self._cameras = self._used("video")
        self._embedded = self._used("image")
        self._tables = Tables(self.dataset, self._files, self._ranges, chosen, columns, capacity)
        self._images = EmbeddedImages(self.dataset, self._files, self._ranges, self._embedded, metadata, derive)
        clips = capacity * max(1, len(self._cameras))
        self._videos = Videos(self.dataset, self._ranges, metadata, clips)
        self._hashes = EpisodeHashes(self.dataset, self._files, self._videos, self._ranges, metadata, self._cameras)

    def _used(self, kind: Literal["video", "image", "values"]) -> tuple[str, ...]:
        """Return the features of a kind that are read. The index columns are always read."""
        features = self.dataset.info.of_kind(kind)
        if self._keys is None:
            return features
        return tuple(key for key in features if key in INDEX_COLUMNS or self.names_of_features[key] in self._keys)

    def measure(self) -> None:
        """Set the sizes of camera fields from the first video, whatever ``meta/info.json`` says. May wait."""
        at = int(self._manifest.groups.episode[0])
        for camera in self._cameras:
            name = self.names_of_features[camera]
            field = self.fields[name]
            try:
                coding = self._videos.video(camera, at).coding
            except (ContentError, FileNotFoundError, IsADirectoryError):  # reported when the sample is read
                continue
            if field.shape[:2] != (coding.height, coding.width):
                height, width, channels = field.shape
                _warn_of_size(self.dataset.name, camera, (coding.width, coding.height), (width, height))
                self.fields[name] = field._replace(shape=(coding.height, coding.width, channels))

    @property
    def clips(self) -> int:
        """Number of clips that are resident at a time."""
        pool = self._arguments[4]
        return min(pool, len(self._manifest.groups.size)) * len(self._cameras)

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        at, frame = self._places(uses)
        return [self._wants(episode, number) for episode, number in zip(at, frame, strict=True)]

    def _wants(self, at: int, frame: int) -> list[Extent]:
        found = list(self._tables.extents(at))
        length = int(self.dataset.episodes.length[at])
        if self._embedded:
            numbers = [self._window(camera, frame, length)[0] for camera in self._embedded]
            found += self._images.extents(at, np.concatenate(numbers).tolist())
        for camera in self._cameras:
            clip = self._videos.clip_if_here(camera, at)
            if isinstance(clip, Clip) and len(clip.seconds):
                # The rows may not be here yet, but their times are those of the frames.
                inside, _ = self._window(camera, frame, length)
                seconds = self.dataset.episodes.videos[camera].start[at] + inside / self.dataset.info.fps
                for piece, _ in pieces(clip.starts, clip.nearest(seconds)[0].tolist()):
                    found += clip.extents(self._ranges, piece)
            elif isinstance(clip, Extent):
                found.append(clip)
        return found

    def resident(self, source: int, group: int) -> Sequence[Extent]:  # noqa: ARG002  # there is one source
        at = int(self._manifest.groups.episode[group])
        found = list(self._tables.extents(at))
        if self._embedded:
            found += self._images.extents(at)
        for camera in self._cameras:
            clip = self._videos.clip_if_here(camera, at)
            if isinstance(clip, Clip):
                found += [self._ranges.extent(clip.path, unit, clip.file_size, *unit) for unit in clip.units]
            elif clip is not None:
                found.append(clip)
        return found

    def assume_read(self, uses: Uses) -> None:
        for at in self._places(uses)[0]:
            self._tables.assume_read(at)

    def unforeseen(self) -> str | None:
        if self._embedded:
            return "images in rows are unpacked into the cache, where their size is not known before"
        episodes = np.unique(self._manifest.groups.episode).tolist()
        first = {self.dataset.video_path(camera, at): (camera, at) for camera in self._cameras for at in episodes}
        if any(isinstance(self._videos.clip_if_here(*each), Extent) for each in first.values()):
            return "the headers of some videos were not read yet: `penstock index` reads them"
        return None

    def group_bytes(self, source: int) -> Ints:  # noqa: ARG002
        """Return the approximate size of each group in the cache, from the bytes per frame of the first. May wait."""
        at = int(self._manifest.groups.episode[0])
        per_frame = 0.0
        try:
            if isinstance(self._ranges.open_store(), CacheBackedStore):
                clips = (self._videos.clip(camera, at) for camera in self._cameras)
                per_frame += sum(clip.nbytes for clip in clips) / int(self.dataset.episodes.length[at])
                per_frame += self._files.bytes_per_row(at)
            if self._embedded:
                per_frame += self._files.bytes_per_row(at, unpacked=True)
        except (ContentError, FileNotFoundError, IsADirectoryError):  # reported when the sample is read
            pass
        return (self._manifest.groups.size * per_frame).astype(np.int64)

    def contradictions(self) -> Problems:
        """Return the contradictions in what ``meta/`` says about the episodes of the run."""
        dataset = self.dataset
        return contradictions(dataset.episodes, self._manifest.groups.chosen, dataset.info, dataset.name)

    def check(
        self,
        codecs: Collection[str],
        damaged_frames: DamagedFrames,
        progress: Callable[[int, int], None],
        *,
        anew: bool = False,
    ) -> Problems:
        """Check all files that a run uses, so that it need not check them itself.

        All frames of videos are read. A run then refuses frames whose bytes have changed.

        Args:
            codecs: Supported codecs, by their names in MP4 files.
            damaged_frames: Function that decodes a clip and returns its damaged frames.
            progress: Function called with the number of files and video episodes that are done, and their total.
            anew: Whether videos may differ from those that were checked before.

        Returns:
            All faults.
        """
        problems = self.contradictions()
        problems.shown = sys.maxsize
        episodes = self._episodes()
        if anew:
            self.forget_checksums()
        self.measure()
        sizes = {camera: self.fields[self.names_of_features[camera]].shape[:2] for camera in self._cameras}
        frames = FrameChecks(self._videos, self._ranges, damaged_frames)
        files = DatasetFiles(
            self._files, self._tables, self._videos, self._cameras, self._embedded, codecs, sizes, frames
        )
        check_files(self.dataset, episodes, files, self._tolerance, problems, progress)
        return problems

    def unindexed_videos(self, share: JobShare) -> list[EpisodeFile]:
        """Return the videos, of the share of a job, that no ``check`` has read."""
        known = self._videos.open_checksums()
        return [file for file in share.of(self._video_files()) if not known.has(file.path)]

    def _video_files(self) -> list[EpisodeFile]:
        episodes = self._episodes()
        return [file for camera in self._cameras for file in episode_files(self.dataset, camera, episodes)]

    def index_video(self, file: EpisodeFile, codecs: Collection[str], damaged_frames: DamagedFrames) -> None:
        """Read and decode all frames of a video, so that ``check`` need not decode them. It finds the faults again.

        Args:
            file: One of ``unindexed_videos``.
            codecs: Supported codecs, by their names in MP4 files.
            damaged_frames: Function that decodes a clip and returns its damaged frames.
        """
        frames = FrameChecks(self._videos, self._ranges, damaged_frames)
        with suppress(ContentError, FileNotFoundError, IsADirectoryError):
            if self._videos.video(file.camera, file.episodes[0]).coding.fourcc in codecs:
                for at in file.episodes:
                    frames.check(file.camera, at, len(file.episodes))

    def _episodes(self) -> Ints:
        """Return the places of the episodes of the run in the dataset."""
        return np.unique(self._manifest.groups.episode)

    def hash_content(self, progress: Callable[[int, int], None]) -> None:
        """Keep the SHA-256 of the bytes of all episodes that a run uses; see ``EpisodeHashes``."""
        self._hashes.make(self._episodes().tolist(), progress)

    def evidence(self) -> tuple[Evidence, ...]:
        return self._hashes.evidence(int(self._manifest.groups.episode[0]))

    def contents(self, uses: Uses, evidence: Evidence) -> list[str]:
        at, _ = self._places(uses)
        found = {episode: self._hashes.content(episode, evidence) for episode in set(at)}
        return [found[episode] for episode in at]

    def forget_checksums(self) -> None:
        """Forget what ``check`` has read of the videos."""
        for file in self._video_files():
            self._videos.open_checksums().remove(file.path)
        self.use(self._keys)  # drops the videos that are in memory

    def locate(self, uses: Uses) -> list[Moment | ContentError]:
        at, frame = self._places(uses)
        return [self._locate(episode, number) for episode, number in zip(at, frame, strict=True)]

    def _locate(self, at: int, frame: int) -> Moment | ContentError:
        try:
            rows = self._tables.get(at)
            values: dict[str, Any] = {}
            is_pad: dict[str, NDArray[np.bool_]] = {}
            length = int(self.dataset.episodes.length[at])
            for key, column in rows.items():
                name = self.names_of_features[key]
                if key in self._offsets:
                    inside, is_pad[name] = window(frame, self._offsets[key], length)
                    values[name] = column[inside]
                else:
                    values[name] = column[frame]
            frames: dict[str, VideoFrames | ImageFrames] = {}
            for camera in self._embedded:
                name = self.names_of_features[camera]
                inside, outside = self._window(camera, frame, length)
                frames[name] = self._images.find(camera, at, inside)
                if camera in self._offsets:
                    is_pad[name] = outside
            for camera in self._cameras:
                name = self.names_of_features[camera]
                if camera in self._offsets:
                    inside, is_pad[name] = self._window(camera, frame, length)
                    frames[name] = self._frames(camera, at, inside, rows)
                else:
                    frames[name] = self._frames(camera, at, slice(frame, frame + 1), rows)
        except ContentError as error:
            return ContentError(self.dataset.name, self._name(at, frame), f"{self.dataset.name}/{in_words(error)}")
        except FileNotFoundError as error:
            return ContentError(self.dataset.name, self._name(at, frame), f"a file is missing: {error}")
        except IsADirectoryError as error:
            return ContentError(self.dataset.name, self._name(at, frame), str(error))
        return Moment(values, is_pad, frames, self.dataset.tasks[int(rows[_TASK][frame])])

    def _frames(self, camera: str, at: int, inside: Ints | slice, rows: EpisodeColumns) -> VideoFrames:
        """Find the frames of a video that belong to some rows."""
        times = rows[_TIME]
        found = self._videos.match(camera, at, times, self._tolerance)
        if not found.all_near and not found.is_near[inside].all():
            row = int(np.arange(len(found.off))[inside][int(found.is_near[inside].argmin())])
            raise not_near(self.dataset, at, row, found, float(times[row]), self._tolerance)
        info = self.dataset.info.features[camera].info
        return VideoFrames(
            found.clip, found.numbers[inside], self._ranges, info, f"{self.dataset.name}/{found.clip.path}"
        )

    def _window(self, key: str, frame: int, length: int) -> tuple[Ints, NDArray[np.bool_]]:
        return window(frame, self._offsets.get(key, _NO_WINDOW), length)

    def read(self, places: Sequence[Moment]) -> list[Moment | ContentError]:
        return list(places)

    def names(self, uses: Uses) -> list[str]:
        at, frame = self._places(uses)
        numbers = self.dataset.episodes.index[at].tolist()
        return [f"{episode}:{number}" for episode, number in zip(numbers, frame, strict=True)]

    def find(self, name: str, epoch: int) -> list[int]:  # noqa: ARG002  # the same in every epoch
        episode, _, frame = name.rpartition(":")
        group, _, number = episode.rpartition(":")
        groups_of_it = ("", f"episode-{number}", f"{self._manifest.prefix}episode-{number}")
        if not (frame.isdecimal() and number.isdecimal()) or group not in groups_of_it:
            return []
        groups = self._manifest.groups
        same = self.dataset.episodes.index[groups.episode] == int(number)
        item = int(frame) - groups.first
        [found] = np.nonzero(same & (item >= 0) & (item < groups.size))
        rows: list[int] = self._manifest.rows(0, found, item[found]).tolist()
        return rows

    def close(self) -> None:
        self._images.close()
        self._ranges.close()

    def _places(self, uses: Uses) -> tuple[list[int], list[int]]:
        """Return the episode of each use, by its place in the dataset, and the frame in it."""
        groups = self._manifest.groups
        _, _, item = self._manifest.locate(uses.row)
        return groups.episode[uses.group].tolist(), (groups.first[uses.group] + item).tolist()

    def _name(self, at: int, frame: int) -> str:
        return f"{int(self.dataset.episodes.index[at])}:{frame}"


@cache
def _warn_of_size(dataset: str, camera: str, found: tuple[int, int], declared: tuple[int, int]) -> None:
    """Warn once per process, however often a dataset is opened."""
    log.warning(
        "%s/meta/info.json: %s: frames have %d × %d pixels, not %d × %d; their own size is used",
        *(dataset, camera, *found, *declared),
    )


_NO_WINDOW = np.zeros(1, dtype=np.int64)
