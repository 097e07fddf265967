"""Where the files of a chat source are: a file, a folder, a pattern, a URL, or a dataset on the Hugging Face Hub.

Reads no records.
"""

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from penstock.config import ConfigError
from penstock.pipelines.chat_hub import HUB, LocatedFiles, locate_dataset, locate_folder
from penstock.pipelines.chat_saved import SPLIT, find_saved
from penstock.readers.records.files.kinds import FILE_KINDS, ending
from penstock.store.remote.hub import DatasetRemote
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, Remote
from penstock.store.remote.urls import local_path

_PATTERN = set("*?[")
_URL_HEAD_PARTS = 3  # scheme, nothing, host; a host such as [::1] is not a pattern
_ENDINGS = f"{', '.join(FILE_KINDS)}, plain or with .gz or .zst"


def locate_files(
    path: str, options: StoreOptions, *, config: str | None, split: str, revision: str | None
) -> LocatedFiles:
    """Find the files of a source.

    Args:
        path: File, folder, pattern such as ``data/*.jsonl``, URL of one of these, or dataset on the hub.
        options: Access to a remote store.
        config: Config of a hub dataset.
        split: Split of a hub dataset or a folder.
        revision: Revision of a hub dataset.

    Raises:
        ConfigError: If there are none, or they can't be reached; the message says what to do.
        StoreError: If a remote store can't be reached, or has no such object.
    """
    is_url = "://" in path
    folder = local_path(path) if is_url or os.path.exists(path) or _PATTERN & set(path) else None
    if folder is not None:
        located = _local(str(folder), config, split)
    elif is_url and not _is_dataset(path):
        located = _remote(path, options, split)
    elif ending(path) or path.startswith(("/", ".")):
        raise ConfigError(f"{path}: there is no such file or folder")
    else:
        located = locate_dataset(path.removeprefix(HUB), options, config=config, split=split, revision=revision)
    return _checked(located, path)._replace(origin=f"{path} {config} {split}")


def _is_dataset(url: str) -> bool:
    """Return whether a URL names a whole dataset of the hub, not a file or folder in it."""
    return url.startswith(HUB) and url.removeprefix(HUB).strip("/").count("/") == 1 and "@" not in url


def _local(path: str, config: str | None, split: str) -> LocatedFiles:
    if _PATTERN & set(path) and not os.path.exists(path):
        _refuse_split(path, split)
        top = _fixed_folder(path)
        folder, pattern = os.path.split(path)
        if pattern not in ("", "**") and not _PATTERN & set(folder):
            return LocatedFiles(top, tuple(sorted(name for name in _matching(folder, pattern) if ending(name))))
        found = sorted(name for name in glob.glob(path, recursive=True) if ending(name) and os.path.isfile(name))
        return LocatedFiles(top, tuple(os.path.relpath(name, top) for name in found))
    if os.path.isfile(path):
        _refuse_split(path, split)
        return LocatedFiles(os.path.dirname(path) or ".", (os.path.basename(path),))
    if not os.path.exists(path):
        raise ConfigError(f"{path}: there is no such file or folder")
    return locate_folder(path, config, split)


def _matching(folder: str, pattern: str) -> Iterator[str]:
    """Yield the names of the files of a folder that match a pattern, as ``glob`` does, without a call per file."""
    matches = re.compile(fnmatch.translate(pattern)).match
    with suppress(OSError), os.scandir(folder or ".") as entries:  # without the folder nothing matches
        for entry in entries:
            is_hidden = entry.name.startswith(".") and not pattern.startswith(".")
            if matches(entry.name) and not is_hidden and entry.is_file():
                yield entry.name


def _fixed_folder(pattern: str) -> str:
    """Return the folder before the first wildcard of a pattern."""
    parts = Path(pattern).parts
    fixed = next(number for number, part in enumerate(parts) if _PATTERN & set(part))
    return str(Path(*parts[:fixed])) if fixed else "."


def _refuse_split(path: str, split: str) -> None:
    if split != SPLIT:
        raise ConfigError(
            f"{path}: there is no split {split!r}: only datasets and folders have splits; remove `split`, and "
            "name the files of that split"
        )


def _remote(url: str, options: StoreOptions, split: str) -> LocatedFiles:
    top, pattern = _split_url(url)
    if ending(top) and not pattern and not url.endswith("/"):
        _refuse_split(url, split)
        store, _, name = url.rpartition("/")
        remote = open_remote(store, options)
        return _listed(_pinned(remote, store), {name: remote.head(name)})
    remote = open_remote(top, options)
    listed = dict(remote.list())
    saved = None if pattern else find_saved(url, split, partial(_read, remote, listed))
    if saved is not None:
        below = f"{saved.folder}/" if saved.folder else ""
        store = f"{_pinned(remote, top)}/{saved.folder}".rstrip("/")
        missing = next((name for name in saved.names if below + name not in listed), None)
        if missing is not None:
            raise ConfigError(f"{url}: {below}{missing} is missing, which save_to_disk wrote; upload it again")
        return _listed(store, {name: listed[below + name] for name in saved.names})
    _refuse_split(url, split)
    parts = tuple(pattern.split("/")) if pattern else ("**",)
    matched = sorted(key for key in listed if ending(key) and _matches(tuple(key.split("/")), parts))
    return _listed(_pinned(remote, top), {key: listed[key] for key in matched})


def _listed(store: str, infos: dict[str, ObjectInfo]) -> LocatedFiles:
    return LocatedFiles(store, tuple(infos), infos, {key: info.etag for key, info in infos.items()})


def _read(remote: Remote, listed: Mapping[str, ObjectInfo], key: str) -> bytes | None:
    info = listed.get(key)
    return None if info is None else bytes(remote.get_range(key, 0, info.size, info.etag))


def _matches(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Return whether the parts of a key match those of a pattern, as in a folder: only ``**`` matches several."""
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[number:], patterns[1:]) for number in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def _pinned(remote: Remote, url: str) -> str:
    """Return the URL of a store. One on the hub has the commit, which other processes then need not request."""
    return remote.resolve_url() if isinstance(remote, DatasetRemote) else url


def _split_url(url: str) -> tuple[str, str]:
    """Return the folder before the first wildcard of a URL, and the pattern that follows; empty without wildcards."""
    parts = url.rstrip("/").split("/")
    below = range(_URL_HEAD_PARTS, len(parts))
    fixed = next((number for number in below if _PATTERN & set(parts[number])), len(parts))
    return "/".join(parts[:fixed]), "/".join(parts[fixed:])


def _checked(located: LocatedFiles, path: str) -> LocatedFiles:
    strange = [name for name in located.paths if not ending(name)]
    if strange:
        raise ConfigError(f"{path}: {strange[0]} ends with none of {_ENDINGS}")
    if not located.paths:
        what = "no file matches this pattern and ends" if _PATTERN & set(path) else "there are no files that end"
        raise ConfigError(f"{path}: {what} with one of {_ENDINGS}")
    return located
