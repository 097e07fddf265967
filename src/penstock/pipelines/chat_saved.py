"""Which files a dataset has that ``save_to_disk`` of the ``datasets`` package wrote. Knows no folder and no store."""

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.config.errors import ConfigError

SPLIT = "train"  # where none is named
_SPLITS = "dataset_dict.json"
_STATE = "state.json"


class Saved(NamedTuple):
    """Files of one split: the folder in the dataset's own, empty if it is that one, and names in it."""

    folder: str
    names: tuple[str, ...]


def find_saved(path: str, split: str, read: Callable[[str], Any]) -> Saved | None:
    """Return the files of a split; None if ``save_to_disk`` did not write this folder.

    Args:
        path: of the folder, for messages.
        split: the name of the split.
        read: returns what a JSON file of the folder says, by its name; None if there is no such file.

    Raises:
        ConfigError: If there is no such split, or its rows are a selection of what the files have.
    """
    whole = read(_SPLITS)
    if whole is not None and split not in whole["splits"]:
        raise ConfigError(f"{path}: there is no split {split!r}; there are {', '.join(whole['splits'])}")
    folder = "" if whole is None else split
    state = read(f"{folder}/{_STATE}" if folder else _STATE)
    if not isinstance(state, dict) or "_data_files" not in state:
        return None
    if whole is None and split not in (SPLIT, state.get("_split")):
        raise ConfigError(f"{path}: there is no split {split!r}: one dataset was saved here; remove `split`")
    if state.get("_indices_data_files"):
        raise ConfigError(f"{path}: its rows have another order than its files: call flatten_indices(), save it again")
    return Saved(folder, tuple(file["filename"] for file in state["_data_files"]))
