"""The robot recipe: values, windows and decoded frames of cameras, stacked. Knows no file and no plan."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.video.batch import Wanted, decode
from penstock.media.video.decoders import Decoders
from penstock.media.video.depth import Quantised
from penstock.media.video.sinks import Depth, Rgb, write_depth, write_rgb
from penstock.media.video.torchcodec import TorchcodecDecoders
from penstock.readers.lerobot.images import ImageFrames
from penstock.readers.lerobot.moment import Field, Moment, VideoFrames
from penstock.readers.lerobot.windows import Needs
from penstock.recipes.extras import require_packages
from penstock.recipes.panels import Panel
from penstock.recipes.recipe import Bad, Item, each
from penstock.recipes.robot_fields import Fields, Stacked, stacked_fields
from penstock.recipes.robot_panels import robot_panels, visible
from penstock.recipes.robot_statistics import Statistics, merged
from penstock.runtime.cores import own_cores
from penstock.runtime.daemons import DaemonPool
from penstock.runtime.forking import reset_in_children
from penstock.runtime.lending import Buffers

PACKAGES = ("torch", "av", "PIL")


@dataclass(frozen=True)
class Work:
    """A batch that is being made.

    Attributes:
        rows: Values of each field.
        is_pad: Padding masks of the fields with a window.
        is_missing: Masks of the fields that some dataset lacks.
        tasks: Task of each row, as text.
        dataset: Source number of each row.
        filled: Mask of the rows that are filled; the others are padding.
    """

    rows: dict[str, Any]
    is_pad: dict[str, NDArray[np.bool_]]
    is_missing: dict[str, NDArray[np.bool_]]
    tasks: list[str]
    dataset: NDArray[np.int64]
    filled: NDArray[np.bool_]


class Robot:
    """Makes batches of frames and of windows around them.

    A field per feature: ``[B, …]``, or with a window ``[B, T, …]`` and ``KEY_is_pad`` ``[B, T]``. Cameras are uint8
    ``[B, T, C, H, W]``, with the channels last in memory, and depth cameras float32. Also ``task``, a list of texts,
    and ``dataset_index`` ``[B]``.

    Args:
        deltas: Windows by feature, in seconds.
        tolerance: Maximum distance of a video frame from its timestamp, in seconds.
        keys: Features of a batch; None for those that all sources have. Rows of a source that lacks one are zeros, and
            ``KEY_is_missing`` is true.
        resize: Height and width of camera frames; None keeps their size.
        depth_unit: Unit of depth cameras.
        decoder: Video decoder. Both give the same pixels. Depth cameras are always decoded by PyAV.
    """

    def __init__(
        self,
        *,
        deltas: Mapping[str, tuple[float, ...]],
        tolerance: float = 1e-4,
        keys: Sequence[str] | None = None,
        resize: tuple[int, int] | None = None,
        depth_unit: Literal["mm", "m"] = "mm",
        decoder: Literal["pyav", "torchcodec"] = "pyav",
    ) -> None:
        self.needs = Needs(deltas, tolerance)
        self._keys = keys
        self._resize = resize
        self._depth_unit = depth_unit
        self._numbers: dict[str, int] = {}  # of the sources
        self._stacked = Stacked({}, ())
        self._statistics: dict[str, Statistics] = {}
        self._buffers: dict[str, Buffers] = {}
        self._pyav = Decoders()
        self._torchcodec = TorchcodecDecoders() if decoder == "torchcodec" else None
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._starting = threading.Lock()
        self._executor: DaemonPool | None = None

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_starting", "_executor")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.reset_after_fork()
        reset_in_children(self)

    @property
    def decoders(self) -> Decoders | TorchcodecDecoders:
        """The decoders that are kept between batches, with their counts of reuse."""
        return self._torchcodec or self._pyav

    @property
    def keys(self) -> Sequence[str] | None:
        """Features of a batch, as the config names them; None for those that all sources have."""
        return self._keys

    @property
    def resizes(self) -> bool:
        """Whether camera frames are resized."""
        return self._resize is not None

    @property
    def fields(self) -> Fields:
        """Features of a batch, by key."""
        return self._stacked.fields

    def statistics(self, source: str | None = None) -> Statistics:
        """Return the datasets' own statistics of features, over all episodes.

        Args:
            source: Name of a source; None merges all sources.

        Raises:
            ValueError: If there is no such source.
        """
        if source is None:
            return merged(list(self._statistics.values()))
        if source not in self._statistics:
            raise ValueError(f"there is no source {source!r}; there are {', '.join(self._statistics)}")
        return self._statistics[source]

    def join(self, datasets: Mapping[str, Fields], statistics: Mapping[str, Statistics]) -> None:
        """Set the fields and statistics of the sources.

        Args:
            datasets: Fields by source name.
            statistics: Statistics by source name.

        Raises:
            ConfigError: If the sources can't be stacked.
        """
        self._numbers = {name: number for number, name in enumerate(datasets)}
        self._stacked = stacked_fields(datasets, keys=self._keys, deltas=tuple(self.needs.deltas), resize=self._resize)
        self._statistics = dict(statistics)
        self._buffers = {key: Buffers() for key, field in self.fields.items() if field.is_camera}

    def keep_decoders(self, clips: int) -> None:
        """Set how many decoders are kept between batches.

        Args:
            clips: Number of video clips that are resident at a time.
        """
        self.decoders.resize(clips)

    def start(self, size: int) -> Work:
        require_packages("recipe: robot", "robot", *PACKAGES)
        if self._torchcodec is not None:
            require_packages("robot.decoder: torchcodec", "torchcodec", "torchcodec")
        return Work(
            rows={key: self._empty(key, field, size) for key, field in self.fields.items()},
            is_pad={
                key: np.zeros((size, field.frames), dtype=bool)
                for key, field in self.fields.items()
                if field.frames is not None
            },
            is_missing={key: np.zeros(size, dtype=bool) for key in self._stacked.incomplete},
            tasks=[""] * size,
            dataset=np.zeros(size, np.int64),
            filled=np.zeros(size, dtype=bool),
        )

    def _empty(self, key: str, field: Field, size: int) -> Any:
        window = () if field.frames is None else (field.frames,)
        if field.is_camera:
            dtype = np.float32 if field.kind == "depth" else np.uint8
            return self._buffers[key].empty((size, *window, *field.shape), dtype)
        if field.kind == "string":
            return [""] * size
        return np.zeros((size, *window, *(() if field.shape == (1,) else field.shape)), field.kind)

    def fill(self, work: Work, records: Mapping[int, tuple[Item, Moment]]) -> list[Bad]:
        wanted: list[Wanted] = []
        bad = each(records, lambda index, item, moment: wanted.extend(self._place(work, index, item, moment)))
        failed = {one.index for one in bad}
        wrong = self._decode([one for one in wanted if one.sample not in failed])
        bad += [Bad(index, reason) for index, reason in wrong.items()]
        work.filled[list(records)] = True
        work.filled[[one.index for one in bad]] = False
        return bad

    def _decode(self, wanted: list[Wanted]) -> dict[int, str]:
        cores = own_cores()
        if self._torchcodec is None:
            return decode(wanted, self._pyav, cores, self._threads())
        depth = [each for each in wanted if isinstance(each.sink, Depth)]
        others = [each for each in wanted if not isinstance(each.sink, Depth)]
        failed = self._torchcodec.decode(others, cores, self._threads())
        return failed | decode(depth, self._pyav, cores, self._threads())

    def _place(self, work: Work, index: int, item: Item, moment: Moment) -> Iterator[Wanted]:
        """Write a sample into the batch. Yields the frames that are still to be decoded."""
        work.dataset[index] = self._numbers[item.source]
        work.tasks[index] = moment.task
        for key, marks in work.is_missing.items():
            marks[index] = key not in moment.values and key not in moment.frames
        for key, marks in work.is_pad.items():
            marks[index] = moment.is_pad.get(key, True)
        for key, rows in work.rows.items():
            if key in moment.frames:
                out = rows[index] if self.fields[key].frames is not None else rows[index][None]
                yield from self._frames(index, key, moment.frames[key], out)
            elif key not in moment.values:
                rows[index] = "" if self.fields[key].kind == "string" else 0
            elif self.fields[key].kind == "string" and self.fields[key].frames is not None:
                rows[index] = list(moment.values[key])
            else:
                rows[index] = moment.values[key]

    def _frames(self, index: int, key: str, frames: VideoFrames | ImageFrames, out: NDArray[Any]) -> Iterator[Wanted]:
        resize = self.resizes
        is_depth = self.fields[key].kind == "depth"
        if isinstance(frames, VideoFrames):
            sink = Depth(Quantised.of(frames.info), self._depth_unit, resize) if is_depth else Rgb(resize)
            yield Wanted(index, frames.clip, frames.numbers, frames.ranges, sink, out, frames.file)
            return
        from penstock.media.image.camera import camera_depth, camera_pixels  # imports Pillow

        for place, (name, data) in zip(out, frames.read(), strict=True):
            try:
                if is_depth:
                    write_depth(camera_depth(data, frames.info.get("depth_unit"), self._depth_unit), place, resize)
                else:
                    write_rgb(camera_pixels(data, place.shape[-1]), place, resize)
            except BadMedia as error:
                raise BadMedia(f"{name}: {error}") from None

    def finish(self, work: Work) -> dict[str, Any]:
        empty = np.flatnonzero(~work.filled).tolist()
        if empty:
            _clear(work, empty)
        made = {
            key: np.moveaxis(rows, -1, -3) if self.fields[key].is_camera else rows for key, rows in work.rows.items()
        }
        made |= {f"{key}_is_pad": marks for key, marks in work.is_pad.items()}
        made |= {f"{key}_is_missing": marks for key, marks in work.is_missing.items()}
        return {**made, "task": work.tasks, "dataset_index": work.dataset}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        """Yield the frames of each camera as one image, side by side, and all other values as JSON."""
        from penstock.media.image.file import png_bytes  # imports Pillow

        values = {"task": batch["task"][index]}
        for key in [*self.fields, *(f"{key}_is_pad" for key in self.needs.deltas if key in self.fields)]:
            value = batch[key][index]
            if key in self.fields and self.fields[key].is_camera:
                frames = np.moveaxis(np.asarray(value).reshape(-1, *value.shape[-3:]), -3, -1)
                yield f"{key}.png", png_bytes(visible(np.concatenate(list(frames), axis=1)))
            else:
                values[key] = value.tolist() if hasattr(value, "tolist") else value
        yield "json", json.dumps(values, ensure_ascii=False, indent=1).encode()

    def panels(self, batch: dict[str, Any], index: int) -> Iterable[Panel]:
        return robot_panels(batch, index, self.fields, self.needs.deltas)

    def _threads(self) -> DaemonPool:
        with self._starting:
            if self._executor is None:
                self._executor = DaemonPool(max(1, own_cores() - 1), "penstock-decode")
            return self._executor


def _clear(work: Work, indices: Sequence[int]) -> None:
    """Zero samples, which may hold data of an earlier batch or of a bad sample."""
    for arrays in (work.rows, work.is_pad, work.is_missing):
        for rows in arrays.values():
            if isinstance(rows, np.ndarray):
                rows[indices] = 0
    for index in indices:
        for rows in work.rows.values():
            if isinstance(rows, list):
                rows[index] = ""
        work.tasks[index] = ""
        work.dataset[index] = 0
