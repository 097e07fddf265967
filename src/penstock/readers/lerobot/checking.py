"""Every file of a dataset looked at beforehand: what a run needs to know is put on the shelf, and all faults are found.

Only headers are read, and nothing is decoded.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from penstock.manifest.errors import Problems
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lerobot.videos import Videos
from penstock.runtime.daemons import DaemonPool

_AT_ONCE = 16  # files; most of the time is spent waiting for a store


class _File(NamedTuple):
    """A file, and the places of the episodes in it."""

    camera: str  # empty for a file of rows
    path: str
    episodes: list[int]


class _Fault(NamedTuple):
    kind: str
    where: str
    reason: str


def check_files(
    dataset: Dataset,
    episodes: Ints,
    rows: RowFiles,
    videos: Videos,
    tolerance: float,
    progress: Callable[[int, int], None],
) -> Problems:
    """Look at all files of some episodes.

    Args:
        dataset: what ``meta/`` says.
        episodes: their places in the dataset.
        rows: the files of rows.
        videos: the videos.
        tolerance: seconds that a frame of a video may be off its time.
        progress: called with the number of files that are done, and of all.

    Returns:
        All faults.
    """
    files = [*_files(dataset, "", episodes)]
    for camera in dataset.info.of_kind("video"):
        files += _files(dataset, camera, episodes)

    def check(file: _File) -> list[_Fault]:
        try:
            return list(_check_video(dataset, file, videos, tolerance) if file.camera else _check_rows(file, rows))
        except FileNotFoundError:
            return [_Fault("missing", file.path, "the file is missing")]

    problems = Problems(dataset.name)
    with DaemonPool(_AT_ONCE, "penstock-index") as pool:
        for done, faults in enumerate(pool.map(check, files), 1):
            for fault in faults:
                problems.add(*fault)
            progress(done, len(files))
    return problems


def _files(dataset: Dataset, camera: str, episodes: Ints) -> Iterator[_File]:
    by_path: dict[str, list[int]] = {}
    for at in episodes.tolist():
        path = dataset.video_path(camera, at) if camera else dataset.data_path(at)
        by_path.setdefault(path, []).append(at)
    return (_File(camera, path, own) for path, own in by_path.items())


def _check_rows(file: _File, rows: RowFiles) -> Iterator[_Fault]:
    for at in file.episodes:
        try:
            rows.footer(at)
        except ContentError as error:
            yield _Fault("rows", error.where, error.reason)
            if error.item is None:  # the whole file
                return


def _check_video(dataset: Dataset, file: _File, videos: Videos, tolerance: float) -> Iterator[_Fault]:
    try:
        videos.video(file.camera, file.episodes[0])
    except ContentError as error:
        yield _Fault("video", error.where, error.reason)
        return
    for at in file.episodes:
        length = int(dataset.episodes.length[at])
        where = f"{file.path}, {dataset.episode_name(at)}"
        clip = videos.clip(file.camera, at)
        if len(clip.shown) < length:
            yield _Fault("frames", where, f"the video has {len(clip.shown)} of its {length} frames")
            continue
        times = dataset.episodes.videos[file.camera].start[at] + np.arange(length) / dataset.info.fps
        _, off = clip.nearest(times)
        if not off.max() <= tolerance:
            frame = int(np.argmax(off > tolerance))
            gap = f"at {dataset.info.fps:g} fps frame {frame} is shown at {times[frame]:.4f} s"
            yield _Fault("gap", where, f"{gap}, and the nearest one of the video is {off[frame]:.4f} s away")
