"""A dataset as its ``meta/`` describes it, and which of its frames a run uses. Holds nothing per frame."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import UNITS, Manifest, fingerprint
from penstock.plan.draws import Ints, ranges
from penstock.readers.lerobot.episodes import Episodes, ReadObject, read_episodes, read_tasks
from penstock.readers.lerobot.info import PATH, Info, parse_info

STATS_PATH = "meta/stats.json"
MOST_FRAMES = 8_192  # per group: longer episodes are cut
POOL_EPISODES = 256
SOURCE = "robot"


@dataclass(frozen=True)
class Dataset:
    """The contents of ``meta/``.

    Attributes:
        name: Folder, URL or repository, for messages.
        info: Features, frame rate and paths.
        episodes: All episodes, selected or not.
        tasks: Tasks in words, by number.
        stats: Statistics of each feature from ``meta/stats.json``; empty without that file.
    """

    name: str
    info: Info
    episodes: Episodes
    tasks: Sequence[str]
    stats: Mapping[str, Any]

    def __reduce__(self) -> tuple[object, ...]:
        return Dataset, (self.name, self.info, self.episodes, self.tasks, self.stats)  # without cached properties

    @cached_property
    def first_rows(self) -> Mapping[tuple[int, int], int]:
        """Number of the first frame of each file of rows, by chunk and file."""
        first: dict[tuple[int, int], int] = {}
        columns = (self.episodes.chunk, self.episodes.file, self.episodes.start)
        for chunk, file, start in zip(*(column.tolist() for column in columns), strict=True):
            first[chunk, file] = min(start, first.get((chunk, file), start))
        return first

    def episode_name(self, at: int) -> str:
        """Return the name of an episode for messages, by its place in ``episodes``."""
        return f"episode {int(self.episodes.index[at])}"

    def data_path(self, at: int) -> str:
        """Return the path of the file with the rows of an episode, by its place in ``episodes``."""
        chunk = int(self.episodes.chunk[at])
        return self.info.data_path.format(chunk_index=chunk, file_index=int(self.episodes.file[at]))

    def video_path(self, camera: str, at: int) -> str:
        """Return the path of the video of an episode."""
        seconds = self.episodes.videos[camera]
        chunk = int(seconds.chunk[at])
        return self.info.video_path.format(video_key=camera, chunk_index=chunk, file_index=int(seconds.file[at]))


def read_dataset(read: ReadObject, name: str) -> Dataset:
    """Read ``meta/``.

    Args:
        read: Function that reads an object of the dataset.
        name: Name of the dataset, for messages.

    Raises:
        ManifestError: If it is not a LeRobotDataset v3.0, or its parts contradict each other.
    """
    try:
        info = parse_info(read(PATH), name)
    except FileNotFoundError:
        raise ManifestError(f"{name}: there is no {PATH}: this is not a LeRobotDataset") from None
    return Dataset(name, info, read_episodes(info, read, name), read_tasks(read, name), _read_stats(read, name))


def _read_stats(read: ReadObject, name: str) -> Mapping[str, Any]:
    where = f"{name}/{STATS_PATH}"
    try:
        stats = json.loads(read(STATS_PATH))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{where}: not JSON: {error}") from None
    if not isinstance(stats, dict) or not all(isinstance(own, dict) for own in stats.values()):
        raise ManifestError(f"{where}: not a JSON object of statistics by feature")
    return stats


@dataclass(frozen=True)
class EpisodeGroups:
    """The groups of a run, as parallel arrays: an episode each, or a part of a long one.

    Attributes:
        episode: Place of the episode in ``Dataset.episodes``.
        first: First frame of the group in its episode.
        size: Number of frames.
        chosen: Places of all episodes that passed the filters, including those without a frame to draw.
    """

    episode: Ints
    first: Ints
    size: Ints
    chosen: Ints


def select(
    dataset: Dataset,
    *,
    episodes: Sequence[int] | None = None,
    exclude_episodes: Sequence[int] = (),
    tasks: Sequence[str] | None = None,
    drop_n_last_frames: int = 0,
) -> EpisodeGroups:
    """Return the groups of the episodes that a run uses.

    Args:
        dataset: Dataset.
        episodes: Numbers of the episodes to use; None for all.
        exclude_episodes: Numbers of the episodes to leave out.
        tasks: Tasks of the episodes to use; None for all.
        drop_n_last_frames: Number of frames at the end of each episode that are not drawn. Windows still reach them.

    Raises:
        ManifestError: If an episode or task does not exist, or nothing is left.
    """
    known = dataset.episodes.index
    wanted = np.ones(len(known), dtype=bool)
    for numbers in (episodes, exclude_episodes):
        missing = sorted(set(numbers or ()) - set(known.tolist()))
        if missing:
            raise ManifestError(f"{dataset.name}: there is no episode {missing[0]}; there are {_span(known)}")
    if episodes is not None:
        wanted &= np.isin(known, list(episodes))
    wanted &= ~np.isin(known, list(exclude_episodes))
    if tasks is not None:
        unknown = [task for task in tasks if task not in dataset.tasks]
        if unknown:
            raise ManifestError(f"{dataset.name}: there is no task {unknown[0]!r}; there are {_some(dataset.tasks)}")
        wanted &= np.array([bool(set(own) & set(tasks)) for own in dataset.episodes.tasks.to_pylist()])
    at = np.flatnonzero(wanted)
    chosen = at
    # A wrong length is reported later. Until then it must not make more groups than memory holds.
    frames = np.minimum(dataset.episodes.length[at], dataset.info.frames) - drop_n_last_frames
    at = at[frames > 0]
    frames = frames[frames > 0]
    if not len(at):
        raise ManifestError(f"{dataset.name}: no frame is left of {len(known)} episodes after the filters")
    parts = -(-frames // MOST_FRAMES)
    number = ranges(parts)
    first = number * MOST_FRAMES
    size = np.minimum(np.repeat(frames, parts) - first, MOST_FRAMES)
    return EpisodeGroups(np.repeat(at, parts), first, size, chosen)


class EpisodeManifest(Manifest):
    """The frames of a dataset that a run uses; see ``Manifest``.

    Its one source has a name that does not depend on where the dataset is: the order of frames depends on it.

    Args:
        dataset: Dataset.
        groups: Episodes, or parts of long ones.
        name: Name of the source in the run, which makes names of episodes unique in a mix; may be empty.

    Attributes:
        dataset: Dataset.
        groups: Episodes, or parts of long ones.
        prefix: Prefix of the names of groups.
    """

    def __init__(self, dataset: Dataset, groups: EpisodeGroups, name: str = "") -> None:
        self.dataset = dataset
        self.groups = groups
        self.prefix = f"{name}/" if name else ""
        numbers = dataset.episodes.index[groups.episode]
        frames = int(groups.size.sum())
        super().__init__(
            [SOURCE],
            [groups.size],
            fingerprints=[fingerprint(dataset.info.frames, numbers, groups.first, groups.size)],
            amounts={"hours": [round(frames / dataset.info.fps * UNITS["hours"] / 3600)]},
            pool=POOL_EPISODES,
        )

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002  # there is one source
        return f"{self.prefix}episode-{self.dataset.episodes.index[self.groups.episode[group]]}"


def _span(numbers: Ints) -> str:
    return f"{len(numbers)}, from {int(numbers.min())} to {int(numbers.max())}"


def _some(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:8])) + (" …" if len(words) > 8 else "")
