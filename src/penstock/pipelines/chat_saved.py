"""Files of a dataset that ``save_to_disk`` of the ``datasets`` package wrote. Knows no folder and no store."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.config.errors import ConfigError

SPLIT = "train"  # where none is named
_SPLITS = "dataset_dict.json"
_STATE = "state.json"


class Saved(NamedTuple):
    """Files of one split: its folder below the dataset's (empty if it is the same), and their names."""

    folder: str
    names: tuple[str, ...]


def find_saved(path: str, split: str, read: Callable[[str], bytes | None]) -> Saved | None:
    """Return the files of a split; None if ``save_to_disk`` did not write this folder.

    Args:
        path: Path of the folder, for messages.
        split: Name of the split.
        read: Function from the name of a file to its content; None if there is no such file.

    Raises:
        ConfigError: If there is no such split, its rows are not in the order of its files, or a file is damaged.
    """
    whole = _parsed(path, _SPLITS, read(_SPLITS))
    splits = [] if whole is None else whole.get("splits", [])
    if whole is not None and split not in splits:
        raise ConfigError(f"{path}: there is no split {split!r}; there are {', '.join(splits) or 'none'}")
    folder = "" if whole is None else split
    name = f"{folder}/{_STATE}" if folder else _STATE
    state = _parsed(path, name, read(name))
    if state is None or "_data_files" not in state:
        return None
    if whole is None and split not in (SPLIT, state.get("_split")):
        raise ConfigError(f"{path}: there is no split {split!r}: one dataset was saved here; remove `split`")
    if state.get("_indices_data_files"):
        raise ConfigError(f"{path}: its rows have another order than its files: call flatten_indices(), save it again")
    return Saved(folder, tuple(file["filename"] for file in state["_data_files"]))


def _parsed(path: str, name: str, data: bytes | None) -> dict[str, Any] | None:
    """Return what a file says; None if there is no such file."""
    if data is None:
        return None
    try:
        said = json.loads(data)
    except ValueError as error:
        raise ConfigError(f"{path}: {name} is damaged: {error}") from None
    return said if isinstance(said, dict) else {}
