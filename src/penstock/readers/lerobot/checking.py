"""Every file of a dataset checked beforehand: metadata that a run needs is cached on disk, and all faults are found.

All values of rows and all frames of the episodes' videos are read. Embedded images are not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.manifest.errors import Problems
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.columns import column_array
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.framechecks import FrameChecks
from penstock.readers.lerobot.info import INDEX_COLUMNS
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lerobot.tables import EpisodeColumns, Tables, check_rows
from penstock.readers.lerobot.videos import Videos, lateness
from penstock.runtime.daemons import DaemonPool

_FILES_AT_ONCE = 16  # most of the time is spent waiting for a store


class DatasetFiles(NamedTuple):
    """Readers of the files of a dataset.

    Attributes:
        rows: Files of rows.
        tables: Rows.
        videos: Videos.
        cameras: Cameras with videos.
        embedded: Cameras whose images are embedded in the rows.
        codecs: Supported codecs, by their names in MP4 files.
        sizes: Height and width of the frames, by camera.
        frames: Check of all frames.
    """

    rows: RowFiles
    tables: Tables
    videos: Videos
    cameras: Sequence[str]
    embedded: Sequence[str]
    codecs: Collection[str]
    sizes: Mapping[str, tuple[int, ...]]
    frames: FrameChecks


class EpisodeFile(NamedTuple):
    """A file of a dataset.

    Attributes:
        camera: Camera of a video; empty for a file of rows.
        path: Path of the file.
        episodes: Places of the episodes in it.
    """

    camera: str
    path: str
    episodes: list[int]


class _Fault(NamedTuple):
    kind: str
    where: str
    reason: str


def check_files(
    dataset: Dataset,
    episodes: Ints,
    files: DatasetFiles,
    tolerance: float,
    problems: Problems,
    progress: Callable[[int, int], None],
) -> None:
    """Check all files of some episodes.

    Args:
        dataset: Dataset.
        episodes: Places of the episodes in the dataset.
        files: Readers of the files.
        tolerance: Maximum difference of a frame from its time, in seconds.
        problems: Problems, to which all faults are added.
        progress: Function called with the number of files and video episodes that are done, and their total.
    """
    jobs: list[Iterator[_Fault]] = []
    for file in episode_files(dataset, "", episodes):
        jobs.append(_if_there(dataset, file, _check_rows(dataset, file, files, tolerance)))
    for camera in files.cameras:
        for file in episode_files(dataset, camera, episodes):
            jobs.append(_if_there(dataset, file, _check_video(dataset, file, files, tolerance)))
            jobs += [_check_frames(dataset, file, at, files) for at in file.episodes]
    with DaemonPool(_FILES_AT_ONCE, "penstock-index") as pool:
        for done, faults in enumerate(pool.map(list[_Fault], jobs), 1):
            for fault in faults:
                problems.add(*fault)
            progress(done, len(jobs))


def _if_there(dataset: Dataset, file: EpisodeFile, check: Iterator[_Fault]) -> Iterator[_Fault]:
    try:
        yield from check
    except FileNotFoundError:
        episodes = "episode" if len(file.episodes) == 1 else "episodes"
        of = f"with {episodes} {_numbers(dataset, file.episodes)}"
        yield _Fault("missing file", file.path, f"the file {of} is missing")
    except IsADirectoryError:
        yield _Fault("missing file", file.path, "this is a folder, not a file")


def _check_frames(dataset: Dataset, file: EpisodeFile, at: int, files: DatasetFiles) -> Iterator[_Fault]:
    try:
        if files.videos.video(file.camera, at).coding.fourcc in files.codecs:
            wrong = files.frames.check(file.camera, at, len(file.episodes))
            if wrong:
                yield _Fault("damage", f"{file.path}, {dataset.episode_name(at)}", wrong)
    except (ContentError, FileNotFoundError, IsADirectoryError):  # a fault of the file, which is reported already
        pass


def episode_files(dataset: Dataset, camera: str, episodes: Ints) -> Iterator[EpisodeFile]:
    """Yield the files of a camera, or with an empty name those of rows, that have some episodes."""
    by_path: dict[str, list[int]] = {}
    for at in episodes.tolist():
        path = dataset.video_path(camera, at) if camera else dataset.data_path(at)
        by_path.setdefault(path, []).append(at)
    return (EpisodeFile(camera, path, own) for path, own in by_path.items())


def _numbers(dataset: Dataset, episodes: Sequence[int]) -> str:
    """Return the numbers of some episodes as text: the first, the last, and how many there are."""
    numbers = dataset.episodes.index[list(episodes)]
    if len(numbers) <= 2:
        return " and ".join(map(str, numbers.tolist()))
    return f"{numbers.min()} to {numbers.max()} ({len(numbers)})"


def _check_rows(dataset: Dataset, file: EpisodeFile, files: DatasetFiles, tolerance: float) -> Iterator[_Fault]:
    spans = {}
    for at in file.episodes:
        try:
            spans[at] = files.rows.span(at, files.rows.footer(at))
        except ContentError as error:
            yield _Fault("rows", _where(error), error.reason)
            if error.item is None:  # the whole file
                return
    if not spans:
        return
    one = next(iter(spans))
    try:
        files.rows.require_columns(one, files.embedded)
        files.tables.check_types(one)
        table = files.tables.whole_file(one)
    except ContentError as error:
        yield _Fault("rows", _where(error), error.reason)
        return
    for at, (start, stop) in spans.items():
        where = f"{file.path}, {dataset.episode_name(at)}"
        own = {}
        for key in table.column_names:
            try:
                own[key] = column_array(table.column(key).slice(start, stop - start), dataset.info.features[key])
            except ValueError as error:
                yield _Fault("rows", where, f"{key}: {error}")
        if own.keys() >= set(INDEX_COLUMNS):
            for kind, reason in _wrong_rows(dataset, at, own, tolerance, bool(files.cameras)):
                yield _Fault(kind, where, reason)


def _wrong_rows(
    dataset: Dataset, at: int, own: EpisodeColumns, tolerance: float, has_videos: bool
) -> Iterator[tuple[str, str]]:
    try:
        check_rows(dataset, at, own)
    except ContentError as error:
        yield "rows", error.reason
        return
    fps = dataset.info.fps
    times = own["timestamp"].astype(np.float64)
    if not np.isfinite(times).all():
        frame = int(np.isfinite(times).argmin())
        yield "time", f"frame {frame} has the timestamp {times[frame]}"
        return
    # Times are stored with 24 bits.
    off = np.abs(np.diff(times) - 1 / fps) - 2 * np.spacing(own["timestamp"][1:])
    if not off.max(initial=0) <= tolerance:
        frame = int(np.argmax(~(off <= tolerance)))
        between = f"frames {frame} and {frame + 1} are {times[frame + 1] - times[frame]:.4f} s apart"
        yield "gap", f"{between}; at {fps:g} fps it should be {1 / fps:.4f} s"
    elif has_videos:  # whose frames are found by these times
        late = lateness(own["timestamp"], fps)
        if not late.max(initial=0) <= tolerance:
            frame = int(np.argmax(~(late <= tolerance)))
            should_be = f"at {fps:g} fps it should be {frame / fps:.4f} s"
            yield "time", f"frame {frame} has the timestamp {times[frame]:.4f} s; {should_be}"


def _check_video(dataset: Dataset, file: EpisodeFile, files: DatasetFiles, tolerance: float) -> Iterator[_Fault]:
    videos = files.videos
    try:
        codec = videos.video(file.camera, file.episodes[0]).coding.fourcc
    except ContentError as error:
        yield _Fault("video", _where(error), error.reason)
        return
    if codec not in files.codecs:
        yield _Fault("codec", file.path, f"the codec {codec!r} is not supported; there are {', '.join(files.codecs)}")
    wrong = _wrong_size(file, files)
    if wrong:
        yield _Fault("size", file.path, wrong)
    for at in file.episodes:
        length = int(dataset.episodes.length[at])
        where = f"{file.path}, {dataset.episode_name(at)}"
        clip = videos.clip(file.camera, at)
        if len(clip.shown) < length:
            yield _Fault("missing frames", where, f"the video has {len(clip.shown)} of its {length} frames")
            continue
        times = dataset.episodes.videos[file.camera].start[at] + np.arange(length) / dataset.info.fps
        _, off = clip.nearest(times)
        if not off.max(initial=0) <= tolerance:
            frame = int(np.argmax(~(off <= tolerance)))
            gap = f"at {dataset.info.fps:g} fps frame {frame} should be shown at {times[frame]:.4f} s"
            yield _Fault("gap", where, f"{gap}, but the nearest frame of the video is {off[frame]:.4f} s away")


def _wrong_size(file: EpisodeFile, files: DatasetFiles) -> str:
    height, width = files.sizes[file.camera]
    coding = files.videos.video(file.camera, file.episodes[0]).coding
    if (coding.height, coding.width) == (height, width):
        return ""
    return f"frames have {coding.width} × {coding.height} pixels, but those of the first video have {width} × {height}"


def _where(error: ContentError) -> str:
    return error.shard if error.item is None else f"{error.shard}, {error.item}"


def in_words(error: ContentError) -> str:
    """Return the place and the reason of an error."""
    return f"{_where(error)}: {error.reason}"
