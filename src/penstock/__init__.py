"""Penstock: a training run as a function from the step to the batch."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compat.lerobot import StreamingLeRobotDataset
    from penstock.compat.multimodal import TrueStreamingDataset
    from penstock.config import ConfigError, StoreKeys, Strict
    from penstock.feed import Feed
    from penstock.feed.state import StateError
    from penstock.feed.steps import Steps
    from penstock.feed.tally import TooManyBad
    from penstock.loader import Loader
    from penstock.loader.processes import WorkerDied
    from penstock.manifest.manifest import Manifest, fingerprint
    from penstock.observe.ledger import Ledger
    from penstock.pipelines.pipeline import Context, Pipeline
    from penstock.readers.blobs import OpenBlobs
    from penstock.readers.errors import ContentError
    from penstock.readers.reader import Reader, Uses
    from penstock.recipes.recipe import Bad, Item, Recipe, each
    from penstock.store.cache.shards import ShardCache
    from penstock.store.extents import Extent, Unit
    from penstock.store.remote.options import StoreOptions

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
    "robot",
]

_HOMES = {
    "Bad": "penstock.recipes.recipe",
    "ConfigError": "penstock.config",
    "ContentError": "penstock.readers.errors",
    "Context": "penstock.pipelines.pipeline",
    "Extent": "penstock.store.extents",
    "Feed": "penstock.feed",
    "Item": "penstock.recipes.recipe",
    "Ledger": "penstock.observe.ledger",
    "Loader": "penstock.loader",
    "Manifest": "penstock.manifest.manifest",
    "OpenBlobs": "penstock.readers.blobs",
    "Pipeline": "penstock.pipelines.pipeline",
    "Reader": "penstock.readers.reader",
    "Recipe": "penstock.recipes.recipe",
    "ShardCache": "penstock.store.cache.shards",
    "StateError": "penstock.feed.state",
    "Steps": "penstock.feed.steps",
    "StoreKeys": "penstock.config",
    "StoreOptions": "penstock.store.remote.options",
    "StreamingLeRobotDataset": "penstock.compat.lerobot",
    "Strict": "penstock.config",
    "TooManyBad": "penstock.feed.tally",
    "TrueStreamingDataset": "penstock.compat.multimodal",
    "Unit": "penstock.store.extents",
    "Uses": "penstock.readers.reader",
    "WorkerDied": "penstock.loader.processes",
    "each": "penstock.recipes.recipe",
    "fingerprint": "penstock.manifest.manifest",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `import penstock` alone stays light."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def robot(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> "Feed":
    """Open a run over robot data: values, windows of time and pictures. See docs/robot.md.

    Args:
        config: a YAML file, or a mapping with the same keys.
        rank: of this process; see ``open``.
        world: the number of ranks; see ``open``.
        options: keys of the config, which win over those of ``config``. Those of its section ``robot``, such as
            ``delta_timestamps``, may be given as they are:
            ``penstock.robot(store="…", batch_size=32, resize=[224, 224])``.
            The other keys of the section stay as ``config`` has them.

    Returns:
        The feed. Metadata has been read, and no data.

    Raises:
        ConfigError: one line per problem, each naming the key.
    """
    return _open_recipe("robot", config, rank, world, options)


def chat(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> "Feed":
    """Open a run over conversations, with text, images, videos and sound. See docs/chat.md.

    Args:
        config: a YAML file, or a mapping with the same keys.
        rank: of this process; see ``open``.
        world: the number of ranks; see ``open``.
        options: keys of the config, which win over those of ``config``. Those of its section ``chat``, such as
            ``tokenizer``, may be given as they are:
            ``penstock.chat(sources=[…], tokenizer="…", batch_size=8, pack=True)``.
            The other keys of the section stay as ``config`` has them.

    Returns:
        The feed. Sources that are shuffled or packed have been indexed, which reads all of their records once; see
        ``open``.

    Raises:
        ConfigError: one line per problem, each naming the key.
    """
    return _open_recipe("chat", config, rank, world, options)


def _open_recipe(
    recipe: str,
    config: str | PathLike[str] | Mapping[str, Any] | None,
    rank: int | None,
    world: int | None,
    options: dict[str, Any],
) -> "Feed":
    """Open a run of one recipe whose section may be given as single options."""
    from penstock.pipelines import PIPELINES

    single = {key: options.pop(key) for key in PIPELINES[recipe].options.model_fields if key in options}
    if single:
        section = options[recipe] if recipe in options else _section_of(config, recipe)
        options[recipe] = {**section, **single} if isinstance(section, Mapping) else section or single
    return open(config, rank=rank, world=world, recipe=recipe, **options)


def _section_of(config: str | PathLike[str] | Mapping[str, Any] | None, recipe: str) -> Any:
    """The section of a recipe as the config has it, or None."""
    from pathlib import Path

    from penstock.config.reading import read_yaml

    if config is None or isinstance(config, Mapping):
        return (config or {}).get(recipe)
    return read_yaml(Path(config)).get(recipe)


def open(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    pipelines: "Mapping[str, Pipeline] | None" = None,
    **options: Any,
) -> "Feed":
    """Open a run.

    Args:
        config: a YAML file, or a mapping with the same keys.
        rank: of this process; by default what torch.distributed or the launcher's environment says.
        world: the number of ranks; by default as for ``rank``.
        pipelines: your own, by the name that ``recipe`` has in the config, in addition to ``raw``, ``speech``, ``chat``
            and ``robot``. A config names them by itself with ``pipelines: {name: "module:Class"}``.
        options: keys of the config, which win over those of ``config``. A section, such as ``chat={…}``, replaces the
            whole section of ``config``.

    Returns:
        The feed. Of speech and robot data only metadata has been read. Chat data that is shuffled, packed or weighed
        by amounts is indexed here, whole, unless an index of it is kept: with many records that takes minutes, and a
        bar or a log line shows how far it is. ``penstock index`` does the same beforehand, in several processes.

    Raises:
        ConfigError: one line per problem, each naming the key.
    """
    from pathlib import Path

    from penstock.config import load_config, make_config
    from penstock.feed import Feed
    from penstock.feed.opening import open_run
    from penstock.pipelines import PIPELINES

    known = {**PIPELINES, **(pipelines or {})}
    if config is None or isinstance(config, Mapping):
        checked = make_config({**(config or {}), **options}, known, folder=Path())
    else:
        checked = load_config(config, known, **options)
    return Feed(checked, open_run(checked), rank=rank, world=world)
