"""``StreamingLeRobotDataset``: LeRobot's arguments and items, with exact windows, an exact order and exact resume."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from penstock.compat.lerobot.items import FrameItems
from penstock.compat.lerobot.meta import Metadata
from penstock.compat.lerobot.place import place_of
from penstock.compat.stream import OWN_BATCH, EpochStream
from penstock.feed.open_feed import open_feed
from penstock.media.video.decoders import Decoders
from penstock.media.video.torchcodec import TorchcodecDecoders
from penstock.readers.lerobot.dataset import POOL_EPISODES, Dataset
from penstock.readers.lerobot.reader import EpisodeReader
from penstock.recipes.extras import require_packages
from penstock.recipes.robot import Robot

Transform = Callable[[torch.Tensor], torch.Tensor]

_DECODERS = {"pyav": "pyav", "torchcodec": "torchcodec", "video_reader": "pyav"}
_IGNORED = {
    "buffer_size": "frames are drawn from whole episodes; use episode_pool_size",
    "decode_threads": "all cores of this process decode",
    "byte_budget_gb": "use cache={'dir': …, 'size': …}",
    "repeat": "each `for` is an epoch; begin another one",
}


class StreamingLeRobotDataset(EpochStream[dict[str, Any]]):
    """Frames of a LeRobotDataset v3.0, drawn at random from a pool of whole episodes, as an ``IterableDataset``.

    Arguments and items are those of LeRobot's class of this name. Each ``for`` is the next epoch, which has every frame
    once. See docs/lerobot.md.

    Args:
        repo_id: Dataset on the hub.
        root: Folder of the dataset; the hub is not asked. With a bucket, the folder to which ``meta/`` is copied.
        episodes: Numbers of the episodes to use. By default all.
        image_transforms: Function of the frames of each camera. Random numbers that it draws depend only on the seed,
            the epoch and the item.
        delta_timestamps: Windows by feature, in seconds before (negative) and after the frame.
        tolerance_s: Maximum deviation of a video frame from its time, in seconds.
        revision: Revision of the dataset on the hub.
        force_cache_sync: Whether to copy ``meta/`` of a bucket again. All else is always read from the store.
        streaming: Whether to read files where they are. Otherwise the dataset is downloaded first.
        buffer_size: Ignored; use ``episode_pool_size``.
        max_num_shards: Ignored: all files are used.
        seed: Seed of the order.
        rng: Generator from which the seed is drawn instead.
        shuffle: Whether frames come in random order. Otherwise they come in the order of the files.
        return_uint8: Whether frames of videos are uint8 instead of floats from 0 to 1.
        depth_output_unit: Unit of depth frames, ``mm`` or ``m``.
        repo_type: Kind of repository, ``dataset`` or ``bucket``.
        token: Token of the hub. By default taken from the environment; False for none.
        episode_pool_size: Number of episodes from which frames are drawn at a time.
        batch_size: Batch size of the ``DataLoader``. If given, the order is the same for any number of workers.
        rank: Rank of this process. By default taken from the launcher.
        world_size: Number of ranks. By default as for ``rank``.
        exclude_episodes: Numbers of episodes to leave out.
        drop_n_last_frames: Frames at the end of each episode that are not drawn. Windows still reach them.
        on_error: ``raise`` if a frame can't be used, or ``substitute`` another one.
        cache: Folder and size of the node cache for remote data, as in a config: ``{"dir": …, "size": "50GB"}``.
        video_backend: Decoder of videos, ``pyav`` or ``torchcodec``; the pixels are the same.
        data_root: Folder or URL of the dataset, with its ``meta/``. Takes precedence over ``root`` and the hub.
        max_open_decoders: Maximum number of video decoders that stay open, up to 128.
        decode_threads: Ignored: all cores of the process decode.
        byte_budget_gb: Ignored; use ``cache``.
        repeat: Ignored: each ``for`` is an epoch.

    Examples:
        >>> from penstock.compat.lerobot import StreamingLeRobotDataset
        >>> from torch.utils.data import DataLoader
        >>> dataset = StreamingLeRobotDataset("lab/arm", root="robot", batch_size=4)
        >>> batch = next(iter(DataLoader(dataset, batch_size=4)))
        >>> len(batch["action"])
        4
    """

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        episodes: list[int] | None = None,
        image_transforms: Transform | None = None,
        delta_timestamps: dict[str, list[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        streaming: bool = True,
        buffer_size: int | None = None,
        max_num_shards: int | None = None,  # noqa: ARG002
        seed: int = 42,
        rng: np.random.Generator | None = None,
        shuffle: bool = True,
        return_uint8: bool = False,
        depth_output_unit: Literal["mm", "m"] = "mm",
        *,
        repo_type: Literal["dataset", "bucket"] = "dataset",
        token: str | bool | None = None,
        episode_pool_size: int = POOL_EPISODES,
        batch_size: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        exclude_episodes: list[int] | None = None,
        drop_n_last_frames: int = 0,
        on_error: Literal["raise", "substitute"] = "raise",
        cache: Mapping[str, Any] | None = None,
        video_backend: str | None = None,
        data_root: str | Path | None = None,
        max_open_decoders: int | None = None,
        decode_threads: int | None = None,
        byte_budget_gb: float | None = None,
        repeat: bool = False,
    ) -> None:
        given = {
            "buffer_size": buffer_size,
            "decode_threads": decode_threads,
            "byte_budget_gb": byte_budget_gb,
            "repeat": repeat or None,
        }
        for name in (name for name, value in given.items() if value is not None):
            warnings.warn(f"{name} is ignored: {_IGNORED[name]}", FutureWarning, stacklevel=2)
        if image_transforms is not None and not callable(image_transforms):
            raise TypeError(f"image_transforms must be callable, and {image_transforms!r} is not")
        if repo_type not in ("dataset", "bucket"):
            raise ValueError(f"repo_type must be 'dataset' or 'bucket', not {repo_type!r}")
        if video_backend is not None and video_backend not in _DECODERS:
            raise ValueError(f"video_backend must be one of {', '.join(_DECODERS)}, not {video_backend!r}")
        if max_open_decoders is not None and max_open_decoders < 1:
            raise ValueError(f"max_open_decoders must be at least 1, not {max_open_decoders}")
        if rng is not None and not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng is a numpy.random.Generator, not {rng!r}")
        self.repo_id = repo_id
        self.repo_type = repo_type
        self.revision = revision
        self.episodes = episodes
        self.tolerance_s = tolerance_s
        self.delta_timestamps = delta_timestamps
        self.seed = seed if rng is None else int(rng.integers(1 << 63))
        self.shuffle = shuffle
        self.streaming = streaming
        self.depth_output_unit = depth_output_unit
        store, remote = (
            place_of(repo_id, root, revision, repo_type, token, streaming, force_cache_sync)
            if data_root is None
            else (str(data_root), {})
        )
        feed = open_feed(
            recipe="robot",
            seed=self.seed,
            batch_size=OWN_BATCH if batch_size is None else batch_size,
            sources=[
                {
                    "name": repo_id,
                    "store": store,
                    "remote": remote,
                    "episodes": episodes,
                    "exclude_episodes": exclude_episodes or [],
                    "drop_n_last_frames": drop_n_last_frames,
                }
            ],
            robot={
                "delta_timestamps": delta_timestamps or {},
                "tolerance_s": tolerance_s,
                "depth_unit": depth_output_unit,
                "decoder": _DECODERS[video_backend or "pyav"],
            },
            pool=episode_pool_size,
            shuffle=shuffle,
            whole_epochs=True,
            on_error=on_error,
            cache=cache,
            rank=rank,
            world=world_size,
        )
        super().__init__(feed, None if batch_size is None else feed.config.batch_size)
        dataset = self._dataset
        self.streaming_from_local = Path(store).is_dir()
        self.root = Path(store) if self.streaming_from_local else Path(root) if root is not None else None
        if max_open_decoders is not None:
            self.video_decoder_cache.resize(max_open_decoders)
        self.meta = Metadata(dataset, repo_id, self.root, store, revision, depth_output_unit)
        self._items = FrameItems(dataset, delta_timestamps or {}, image_transforms, return_uint8, self.seed)

    @property
    def _dataset(self) -> Dataset:
        reader = self.feed.catalog.reader(0)
        assert isinstance(reader, EpisodeReader)
        return reader.dataset

    @property
    def video_decoder_cache(self) -> Decoders | TorchcodecDecoders:
        """Video decoders. ``stats()`` counts over all worker processes."""
        recipe = self.feed.recipes["robot"]
        assert isinstance(recipe, Robot)
        return recipe.decoders

    @property
    def delta_indices(self) -> dict[str, list[int]] | None:
        """The windows in frames, by key; None without any."""
        if self.delta_timestamps is None:
            return None
        return {key: [round(each * self.fps) for each in own] for key, own in self.delta_timestamps.items()}

    @cached_property
    def hf_dataset(self) -> Any:
        """The rows of all files in order, without videos, windows and ranks, as the package ``datasets`` has it."""
        require_packages("hf_dataset", "chat", "datasets")
        from datasets import load_dataset

        paths = dict.fromkeys(map(self._dataset.data_path, range(len(self._dataset.episodes))))
        files = [f"{self.meta.url_root}/{path}" for path in paths]
        return load_dataset("parquet", data_files=files, split="train", streaming=self.streaming)

    @property
    def image_transforms(self) -> Transform | None:
        return self._items.transforms

    @property
    def num_frames(self) -> int:
        """Frames per epoch over all ranks."""
        return self.epoch_samples

    @property
    def num_episodes(self) -> int:
        """Number of episodes in use."""
        groups = self.feed.catalog.parts[0].manifest.groups  # type: ignore[attr-defined]
        return len(np.unique(groups.episode))

    @property
    def fps(self) -> int:
        return self.meta.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        return self.meta.features

    def samples(self, batch: dict[str, Any], epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the items of a batch, as LeRobot has them."""
        return self._items.of(batch, epoch)
