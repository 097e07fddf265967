"""Where the files of a chat source are: a file, a folder, a pattern, a URL, or a dataset on the Hugging Face Hub.

Hub datasets, and folders that are laid out like them, are resolved by the ``datasets`` package: it knows configs and
splits. Reads no records.
"""

import fnmatch
import glob
import os
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.config import ConfigError
from penstock.readers.records.files import ENDINGS, ending
from penstock.recipes.extras import require_packages
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path, open_remote

_PATTERN = set("*?[")
_HUB = "hf://datasets/"
_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")


class Located(NamedTuple):
    """Files of one store.

    Attributes:
        store: a folder or a URL.
        paths: of the files in it, in order.
    """

    store: str
    paths: tuple[str, ...]


def locate_files(path: str, options: StoreOptions, *, config: str | None, split: str, revision: str | None) -> Located:
    """Find the files of a source.

    Args:
        path: a file, a folder, a pattern such as ``data/*.jsonl``, a URL of one of these, or a dataset on the hub.
        options: how to reach a remote store.
        config: of a hub dataset.
        split: of a hub dataset or a folder.
        revision: of a hub dataset.

    Raises:
        ConfigError: If there are none, or they can't be reached; says what to do.
    """
    folder = local_path(path) if "://" in path or os.path.exists(path) or _PATTERN & set(path) else None
    if folder is not None:
        return _local(str(folder), config, split)
    if "://" in path and not path.startswith(_HUB):
        return _remote(path, options)
    if ending(path):
        raise ConfigError(f"{path}: there is no such file")
    return _hub(path.removeprefix(_HUB), config, split, revision)


def _local(path: str, config: str | None, split: str) -> Located:
    if _PATTERN & set(path):
        found = sorted(name for name in glob.glob(path, recursive=True) if ending(name) and os.path.isfile(name))
        top = _fixed_folder(path)
        return _checked(Located(top, tuple(os.path.relpath(name, top) for name in found)), path)
    if os.path.isfile(path):
        if not ending(path):
            raise ConfigError(f"{path}: the ending is none of {', '.join(ENDINGS)}, plain or with .gz or .zst")
        return Located(os.path.dirname(path) or ".", (os.path.basename(path),))
    return _checked(Located(path, tuple(os.path.relpath(name, path) for name in _dataset(path, config, split))), path)


def _fixed_folder(pattern: str) -> str:
    """Return the folder before the first wildcard of a pattern."""
    parts = Path(pattern).parts
    fixed = next(number for number, part in enumerate(parts) if _PATTERN & set(part))
    return str(Path(*parts[:fixed])) if fixed else "."


def _remote(url: str, options: StoreOptions) -> Located:
    store, _, name = url.rpartition("/")
    if ending(name) and not _PATTERN & set(name):
        return Located(store, (name,))
    top = store if name else url.rstrip("/")
    listed = [key for key, _ in open_remote(top, options).list()]
    matched = fnmatch.filter(listed, name) if _PATTERN & set(name) else listed
    return _checked(Located(top, tuple(sorted(key for key in matched if ending(key)))), url)


def _hub(name: str, config: str | None, split: str, revision: str | None) -> Located:
    if name.count("/") > 1 or not name.strip("/"):
        raise ConfigError(f"{name}: there is no such file, and no dataset of the hub has such a name")
    files = list(_dataset(name, config, split, revision))
    if files and not files[0].startswith(_HUB):  # the hub's local cache
        top = os.path.commonpath([os.path.dirname(file) for file in files])
        return _checked(Located(top, tuple(os.path.relpath(file, top) for file in files)), name)
    stores = {"/".join(file.split("/")[:5]) for file in files}
    if len(stores) != 1:
        raise ConfigError(f"{name}: its files are in {len(stores)} repositories; name the files by themselves")
    [store] = stores
    return _checked(Located(store, tuple(file.removeprefix(f"{store}/") for file in files)), name)


def _dataset(path: str, config: str | None, split: str, revision: str | None = None) -> Iterable[str]:
    """Return the files of a split, as the ``datasets`` package finds them."""
    require_packages(f"the dataset {path}", "chat", "datasets")
    import datasets
    from datasets import exceptions

    try:
        builder = datasets.load_dataset_builder(path, config, revision=revision)
    except exceptions.DatasetNotFoundError as error:
        raise ConfigError(f"{path}: {_sentence(error)}") from None
    except (ValueError, OSError, RuntimeError) as error:
        raise ConfigError(f"{path}: {_sentence(error)}") from None
    files: Any = builder.config.data_files or {}
    if split not in files:
        raise ConfigError(f"{path}: there is no split {split!r}; there are {', '.join(files) or 'none'}")
    named = [str(file) for file in files[split]]
    described = [file for file in named if posixpath.basename(file) in _METADATA]
    return described or named  # a folder of media is described by its metadata


def _sentence(error: Exception) -> str:
    """Return the first line of an error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _checked(located: Located, path: str) -> Located:
    strange: Sequence[str] = [name for name in located.paths if not ending(name)]
    if strange:
        raise ConfigError(f"{path}: {strange[0]}: the ending is none of {', '.join(ENDINGS)}")
    if not located.paths:
        raise ConfigError(f"{path}: there are no files whose ending is one of {', '.join(ENDINGS)}")
    return located
