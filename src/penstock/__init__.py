"""Penstock: a training run as a function from the step to the batch."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.feed import Feed
    from penstock.observe.ledger import Ledger
    from penstock.store.cache.shards import ShardCache

__version__ = "0.1.0"
__all__ = ["Feed", "Ledger", "ShardCache", "open"]

_HOMES = {
    "Feed": "penstock.feed",
    "Ledger": "penstock.observe.ledger",
    "ShardCache": "penstock.store.cache.shards",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `import penstock` alone stays light."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def open(
    config: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    rank: int | None = None,
    world: int | None = None,
    **options: Any,
) -> "Feed":
    """Open a run: a YAML file, a mapping or keyword arguments with the same keys; keywords win.

    Args:
        rank, world: of this process; by default what torch.distributed or the launcher's environment says.
    """
    from pathlib import Path

    from penstock.config import load_config, make_config
    from penstock.feed import Feed

    if config is None or isinstance(config, Mapping):
        checked = make_config({**(config or {}), **options}, folder=Path())
    else:
        checked = load_config(config, **options)
    return Feed(checked, rank=rank, world=world)
