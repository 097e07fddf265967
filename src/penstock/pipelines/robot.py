"""The robot pipeline: episodes of LeRobotDatasets -> frames, windows and decoded cameras."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from penstock.config import StoreKeys, Strict
from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import spoken_hours
from penstock.media.video.batch import damaged_frames
from penstock.media.video.codecs import CODECS
from penstock.media.video.decoders import Decoders
from penstock.pipelines.pipeline import BasePipeline, Context, Indexing, Part
from penstock.readers.indextasks import IndexResult, IndexTask
from penstock.readers.lerobot.checking import EpisodeFile
from penstock.readers.lerobot.dataset import POOL_EPISODES, STATS_PATH, EpisodeManifest, read_dataset, select
from penstock.readers.lerobot.reader import EpisodeReader
from penstock.readers.lerobot.windows import Needs
from penstock.recipes.extras import require_packages
from penstock.recipes.robot import Robot
from penstock.recipes.robot_statistics import Statistics, as_arrays
from penstock.store.blob import Store, read_object
from penstock.store.cache.cached import CachedStore
from penstock.store.remote.listed import ListedObjects
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, StoreError, StoreUnavailable
from penstock.store.remote.urls import local_path
from penstock.store.stores import OpenOnce, derive_from


class RobotOptions(Strict):
    """The section ``robot:`` of a config.

    Attributes:
        delta_timestamps: Windows by feature, in seconds before (negative) and after the frame.
        tolerance_s: Maximum deviation of a video frame from its time, and of a delta from a frame, in seconds.
        keys: Features of the batches. By default those that all sources have. For a source that lacks one, rows are
            zeros, and ``KEY_is_missing`` is true.
        resize: Height and width of camera frames. By default as they are stored.
        depth_unit: Unit of depth cameras.
        decoder: Decoder of videos. ``torchcodec`` has to be installed, with FFmpeg.
    """

    delta_timestamps: dict[str, Annotated[tuple[float, ...], Field(min_length=1)]] = Field(default_factory=dict)
    tolerance_s: float = Field(default=1e-4, gt=0)
    keys: tuple[str, ...] | None = None
    resize: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    depth_unit: Literal["mm", "m"] = "mm"
    decoder: Literal["pyav", "torchcodec"] = "pyav"


class RobotSource(StoreKeys):
    """The keys of an entry of ``sources`` that is a LeRobotDataset v3.0.

    Attributes:
        store: Folder or URL of the dataset.
        episodes: Numbers of the episodes to use. By default all.
        exclude_episodes: Numbers of episodes to leave out.
        tasks: Tasks of the episodes to use. By default all.
        drop_n_last_frames: Frames at the end of each episode that are not drawn. Windows still reach them.
        rename: New names of features.
    """

    episodes: tuple[int, ...] | None = None
    exclude_episodes: tuple[int, ...] = ()
    tasks: tuple[str, ...] | None = None
    drop_n_last_frames: int = Field(default=0, ge=0)
    rename: dict[str, str] = Field(default_factory=dict)


class RobotPipeline(BasePipeline[RobotSource, Robot]):
    options = RobotOptions
    source = RobotSource

    def recipe(self, options: RobotOptions) -> Robot:
        return Robot(
            deltas=options.delta_timestamps,
            tolerance=options.tolerance_s,
            keys=options.keys,
            resize=options.resize,
            depth_unit=options.depth_unit,
            decoder=options.decoder,
        )

    def open(self, source: RobotSource, needs: Needs, context: Context) -> tuple[EpisodeManifest, EpisodeReader]:
        manifest, reader = self._open(source, needs, context)
        problems = reader.contradictions()
        if problems:
            raise problems.error("; correct meta/, or leave the episodes out with exclude_episodes")
        return manifest, reader

    def _open(self, source: RobotSource, needs: Needs, context: Context) -> tuple[EpisodeManifest, EpisodeReader]:
        folder = local_path(source.store)
        if folder is not None and not folder.is_dir():
            raise ManifestError(
                f"{folder}: there is no such folder; a dataset on the Hugging Face Hub is hf://datasets/ORG/NAME"
            )
        infos = ListedObjects(listed(context.opener(source)()))
        open_store = OpenOnce(context.stores, source.store, StoreOptions(**source.remote.model_dump()), infos)
        dataset = read_dataset(lambda path: read_object(open_store(), path), source.store)
        groups = select(
            dataset,
            episodes=source.episodes,
            exclude_episodes=source.exclude_episodes,
            tasks=source.tasks,
            drop_n_last_frames=source.drop_n_last_frames,
        )
        manifest = EpisodeManifest(dataset, groups, context.name)
        pool = context.pool or POOL_EPISODES
        metadata = context.scratch / "indexes"
        derive = partial(derive_from, context.stores, open_store)
        return manifest, EpisodeReader(manifest, open_store, needs, metadata, pool, derive, source.rename)

    def _open_to_index(
        self, source: RobotSource, recipe: Robot, context: Context
    ) -> tuple[EpisodeManifest, EpisodeReader]:
        manifest, reader = self._open(source, recipe.needs, context)
        if recipe.keys is not None:
            reader.use(recipe.keys)
        if manifest.dataset.info.of_kind("video"):
            require_packages("penstock index of videos", "robot", "av")
        return manifest, reader

    def index_tasks(
        self, sources: Sequence[RobotSource], recipe: Robot, contexts: Sequence[Context], how: Indexing
    ) -> Iterator[IndexTask]:
        for source, context in zip(sources, contexts, strict=True):
            _, reader = self._open_to_index(source, recipe, context)
            if how.anew:
                reader.forget_checksums()
            work = pickle.dumps(_VideosOfSource(partial(self._open_to_index, source, recipe), context))
            yield from (IndexTask(work, video) for video in reader.unindexed_videos(how.share))

    def index(self, source: RobotSource, recipe: Robot, context: Context, how: Indexing) -> str:
        manifest, reader = self._open_to_index(source, recipe, context)
        damaged = partial(damaged_frames, decoders=Decoders())
        problems = reader.check(CODECS, damaged, lambda done, all_: how.progress(done, all_, ""), anew=how.anew)
        if problems:
            raise problems.error()
        if how.sha256:
            reader.hash_content(lambda done, all_: how.progress(done, all_, "SHA-256"))
        info = manifest.dataset.info
        episodes = len(np.unique(manifest.groups.episode))
        cameras = f"{len(info.cameras)} camera{'' if len(info.cameras) == 1 else 's'}"
        time = spoken_hours(len(manifest) / info.fps / 3600)
        return f"{episodes:,} episodes, {len(manifest):,} frames, {time} at {info.fps:g} fps, {cameras}"

    def join(self, recipe: Robot, parts: Sequence[Part]) -> None:
        fields = {}
        statistics = {}
        for part in parts:
            assert isinstance(part.reader, EpisodeReader)
            [name] = part.source_names
            part.reader.use(recipe.keys)
            if not recipe.resizes:
                part.reader.measure()
            fields[name] = part.reader.fields
            statistics[name] = _statistics(part.reader)
        recipe.join(fields, statistics)
        clips = 0
        for part in parts:
            assert isinstance(part.reader, EpisodeReader)
            part.reader.use(tuple(recipe.fields))
            clips += part.reader.clips
        recipe.keep_decoders(clips)


@dataclass(frozen=True)
class _VideosOfSource:
    """Indexes videos of a source in a folder of its own: the work of a task.

    Attributes:
        open: Function that opens the source.
        context: What it needs.
    """

    open: Callable[[Context], tuple[EpisodeManifest, EpisodeReader]]
    context: Context

    def __call__(self, video: EpisodeFile) -> IndexResult:
        folder = Path(self._folder.name) / "indexes"
        self._reader.index_video(video, CODECS, partial(damaged_frames, decoders=Decoders()))
        result = IndexResult.of(folder)
        for name in result.files:
            (folder / name).unlink()
        return result

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="penstock-index-")

    @cached_property
    def _reader(self) -> EpisodeReader:
        return self.open(self.context._replace(scratch=Path(self._folder.name)))[1]


def _statistics(reader: EpisodeReader) -> Statistics:
    dataset = reader.dataset
    try:
        return as_arrays(dataset.stats, reader.names_of_features)
    except (ValueError, TypeError) as error:
        raise ManifestError(f"{dataset.name}/{STATS_PATH}: {error}") from None


def listed(store: Store) -> dict[str, ObjectInfo]:
    """Return sizes and versions of the files of a remote dataset, in one request.

    Raises:
        ObjectMissing: If there is no such bucket, repository or revision.
    """
    if not isinstance(store, CachedStore):
        return {}
    try:
        return dict(store.remote.list())
    except (ObjectMissing, StoreUnavailable):
        raise
    except StoreError:  # a web server can't be listed, and credentials may not allow it
        return {}
