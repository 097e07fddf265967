"""Penstock: a training run as a function from the step to the batch."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from penstock.compat.lerobot import StreamingLeRobotDataset
    from penstock.compat.multimodal import TrueStreamingDataset
    from penstock.config import ConfigError, StoreKeys, Strict
    from penstock.feed import Feed, StateError, Steps, TooManyBad
    from penstock.loader import Loader, WorkerDied
    from penstock.manifest import Manifest, fingerprint
    from penstock.observe import Ledger
    from penstock.pipelines import Context, Pipeline
    from penstock.readers import ContentError, OpenBlobs, Reader, Uses
    from penstock.recipes import Bad, Item, Recipe, each, per_sample_loss
    from penstock.store import Extent, ShardCache, StoreOptions, Unit

__version__ = "0.1.0"
__all__ = [
    "Bad",
    "ConfigError",
    "ContentError",
    "Context",
    "Extent",
    "Feed",
    "Item",
    "Ledger",
    "Loader",
    "Manifest",
    "OpenBlobs",
    "Pipeline",
    "Reader",
    "Recipe",
    "ShardCache",
    "StateError",
    "Steps",
    "StoreKeys",
    "StoreOptions",
    "StreamingLeRobotDataset",
    "Strict",
    "TooManyBad",
    "TrueStreamingDataset",
    "Unit",
    "Uses",
    "WorkerDied",
    "chat",
    "each",
    "fingerprint",
    "open",
    "per_sample_loss",
    "robot",
    "speech",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.compat.lerobot": ["StreamingLeRobotDataset"],
            "penstock.compat.multimodal": ["TrueStreamingDataset"],
            "penstock.config": ["ConfigError", "StoreKeys", "Strict"],
            "penstock.feed": ["Feed", "StateError", "Steps", "TooManyBad"],
            "penstock.loader": ["Loader", "WorkerDied"],
            "penstock.manifest": ["Manifest", "fingerprint"],
            "penstock.observe": ["Ledger"],
            "penstock.pipelines": ["Context", "Pipeline"],
            "penstock.readers": ["ContentError", "OpenBlobs", "Reader", "Uses"],
            "penstock.recipes": ["Bad", "Item", "Recipe", "each", "per_sample_loss"],
            "penstock.store": ["Extent", "ShardCache", "StoreOptions", "Unit"],
        },
    )


def speech(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: "DeviceMesh | None" = None,
    **options: Any,
) -> "Feed":
    """Open a run over recorded speech: waveforms and their features. See docs/speech.md.

    Args:
        config: Path of a YAML file, or a mapping with the same keys.
        rank: Rank of this process; see ``open``.
        world: Number of ranks; see ``open``.
        mesh: Data-parallel dimensions of a mesh; see ``open``.
        options: Keys of the config, which override those of ``config``. Keys of its section ``speech``, such as
            ``crop``, may be given directly: ``penstock.speech("run.yaml", crop="6s")``. The
            other keys of the section stay as ``config`` has them.

    Returns:
        The feed. Only metadata has been read.

    Raises:
        ConfigError: One line per problem, each naming the key.

    Examples:
        >>> import penstock
        >>> feed = penstock.speech(filelist="speech/train.tsv", store="speech", batch_size=2, crop="1s")
        >>> feed.batch(0)["feats"].shape
        torch.Size([2, 1, 50, 160])
    """
    from penstock.feed.open_feed import open_recipe

    return open_recipe("speech", config, options, rank=rank, world=world, mesh=mesh)


def chat(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: "DeviceMesh | None" = None,
    **options: Any,
) -> "Feed":
    """Open a run over conversations, with text, images, videos and sound. See docs/chat.md.

    Args:
        config: Path of a YAML file, or a mapping with the same keys.
        rank: Rank of this process; see ``open``.
        world: Number of ranks; see ``open``.
        mesh: Data-parallel dimensions of a mesh; see ``open``.
        options: Keys of the config, which override those of ``config``. Keys of its section ``chat``, such as
            ``max_length``, may be given directly: ``penstock.chat("run.yaml", max_length=2048)``. The
            other keys of the section stay as ``config`` has them.

    Returns:
        The feed. Sources that are shuffled or packed have been indexed, which reads all of their records once; see
        ``open``.

    Raises:
        ConfigError: One line per problem, each naming the key.

    Examples:
        >>> import penstock
        >>> feed = penstock.chat(path="chat.jsonl", dtype="conversation", tokenizer="tokenizer", batch_size=2)
        >>> batch = feed.batch(0)
        >>> batch["labels"].shape == batch["input_ids"].shape
        True
    """
    from penstock.feed.open_feed import open_recipe

    return open_recipe("chat", config, options, rank=rank, world=world, mesh=mesh)


def robot(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: "DeviceMesh | None" = None,
    **options: Any,
) -> "Feed":
    """Open a run over robot data: values, windows of time and pictures. See docs/robot.md.

    Args:
        config: Path of a YAML file, or a mapping with the same keys.
        rank: Rank of this process; see ``open``.
        world: Number of ranks; see ``open``.
        mesh: Data-parallel dimensions of a mesh; see ``open``.
        options: Keys of the config, which override those of ``config``. Keys of its section ``robot``, such as
            ``resize``, may be given directly: ``penstock.robot("run.yaml", resize=[96, 96])``. The
            other keys of the section stay as ``config`` has them.

    Returns:
        The feed. Only metadata has been read.

    Raises:
        ConfigError: One line per problem, each naming the key.

    Examples:
        >>> import penstock
        >>> feed = penstock.robot(store="robot", batch_size=2, resize=[64, 64])
        >>> feed.batch(0)["observation.images.top"].shape
        torch.Size([2, 3, 64, 64])
    """
    from penstock.feed.open_feed import open_recipe

    return open_recipe("robot", config, options, rank=rank, world=world, mesh=mesh)


def open(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: "DeviceMesh | None" = None,
    pipelines: "Mapping[str, Pipeline[Any, Any, Any]] | None" = None,
    **options: Any,
) -> "Feed":
    """Open a run.

    Args:
        config: Path of a YAML file, or a mapping with the same keys.
        rank: Rank of this process. By default, taken from torch.distributed or the environment of the launcher.
        world: Number of ranks. By default as for ``rank``.
        mesh: Data-parallel dimensions of a mesh, such as ``mesh["dp"]`` or ``mesh["replicate", "shard"]``, in place of
            ``rank`` and ``world``. Processes that differ only in other dimensions get the same batches, and one of
            them writes the usage ledger.
        pipelines: Pipelines of your own, by the name that ``recipe`` has in the config. They are added to ``raw``,
            ``speech``, ``chat`` and ``robot``. A config may name them with ``pipelines: {name: "module:Class"}``.
        options: Keys of the config, which override those of ``config``. A section, such as ``chat={…}``, replaces the
            whole section of ``config``.

    Returns:
        The feed. Only metadata of speech and robot data has been read. Chat data that is shuffled, packed or weighted
        by amounts has been indexed, unless an index was kept. This reads all records, and may take minutes; a progress
        bar or log lines show how far it is. ``penstock index`` does the same beforehand, in several processes.

    Raises:
        ConfigError: One line per problem, each naming the key.

    Examples:
        >>> import penstock
        >>> feed = penstock.open("run.yaml", batch_size=8)
        >>> len(feed.batch(12345)["ids"])  # any step, in any order
        8
    """
    from penstock.feed.open_feed import open_feed

    return open_feed(config, rank=rank, world=world, mesh=mesh, pipelines=pipelines, **options)
