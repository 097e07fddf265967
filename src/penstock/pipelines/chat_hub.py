"""Where the files of a dataset are, as the ``datasets`` package finds them: on the Hugging Face Hub, or in a folder.

The package knows configs and splits. Without a connection, the local cache of the hub's own tools is used. Reads no
records.
"""

import glob
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from penstock.config.errors import ConfigError
from penstock.pipelines.chat_saved import SPLIT, find_saved
from penstock.readers.errors import first_line
from penstock.readers.records.files.kinds import ending, is_compressed
from penstock.recipes.extras import require_packages
from penstock.runtime.job import once_per_job
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo

HUB = "hf://datasets/"
_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_NOT_PLAIN = re.compile(r"train|val|dev|test|eval|metadata|dataset|config|^__", re.IGNORECASE)
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_FOLDERS = {"imagefolder": "image", "audiofolder": "audio", "videofolder": "video"}


class LocatedFiles(NamedTuple):
    """Files of one store.

    Attributes:
        store: Folder or URL.
        paths: Paths of the files in the store, in order.
        infos: Sizes and versions of the files of a remote store, which then need not be requested.
        versions: What identifies the content of files, where it is known without reading them.
        medium: Column that names the media, for a folder of media with a file that describes them.
        foreign: Whether others wrote the records. They may then name files of this store only.
        origin: What named the files: path, config and split.
    """

    store: str
    paths: tuple[str, ...]
    infos: Mapping[str, ObjectInfo] = {}
    versions: Mapping[str, str] = {}
    medium: str = ""
    foreign: bool = False
    origin: str = ""


class _Split(NamedTuple):
    files: tuple[str, ...]
    medium: str


def locate_folder(path: str, config: str | None, split: str) -> LocatedFiles:
    """Find the files of a split in a folder.

    Raises:
        ConfigError: If there are none.
    """
    saved = find_saved(path, split, partial(_read, path))
    if saved is not None:
        return LocatedFiles(os.path.join(path, saved.folder) if saved.folder else path, saved.names)
    if config is None and split == SPLIT and (plain := _plain_folder(path)):
        return LocatedFiles(path, plain)
    found = _split_of(path, config, split, None)
    return LocatedFiles(path, tuple(os.path.relpath(file, path) for file in found.files), medium=found.medium)


def _plain_folder(path: str) -> tuple[str, ...]:
    """Return the files of a folder where it is certain that all of them are its training split; empty otherwise.

    The package takes a millisecond per file. It takes all files of a folder if no name has a word such as ``test``.
    """
    with os.scandir(path) as entries:
        found = [(entry.name, entry.is_file()) for entry in entries if not entry.name.startswith(".")]
    names = [name for name, _ in found]
    endings = {ending(name) for name in names}
    is_plain = len(endings) == 1 and "" not in endings and all(is_file for _, is_file in found)
    if not is_plain or any(map(is_compressed, names)) or any(map(_NOT_PLAIN.search, names)):
        return ()
    return tuple(sorted(names))


def _read(folder: str, name: str) -> bytes | None:
    file = Path(folder, name)
    return file.read_bytes() if file.is_file() else None


def locate_dataset(
    name: str, options: StoreOptions, *, config: str | None, split: str, revision: str | None
) -> LocatedFiles:
    """Find the files of a split of a dataset on the hub.

    Raises:
        ConfigError: If there are none, or they can't be reached; the message says what to do.
    """
    if name.count("/") != 1 or not all(name.split("/")):
        raise ConfigError(
            f"{name}: there is no such file or folder, and a dataset on the hub has a name of two parts, as in "
            "databricks/databricks-dolly-15k"
        )
    try:
        found = _split_of_job(name, config, split, revision)
    except _Unreachable as error:
        kept = _downloaded(name, config, split, revision)
        if kept is None:
            raise ConfigError(
                f"{error}; nothing of it is in the hub's local cache, and there is no file of this name either"
            ) from None
        return kept
    if found.files and not found.files[0].startswith(HUB):  # prepared by the package, when there was a connection
        return _in_folder(found)
    stores = {"/".join(file.split("/")[:5]) for file in found.files}
    if len(stores) > 1:
        raise ConfigError(f"{name}: its files are in {len(stores)} repositories; name the files by themselves")
    [store] = stores
    listed = dict(open_remote(store, options).list())
    paths = tuple(file.removeprefix(f"{store}/") for file in found.files)
    missing = [path for path in paths if path not in listed]
    if missing:
        raise ConfigError(f"{name}: {missing[0]} is not in the repository")
    infos = {path: listed[path] for path in paths}
    return LocatedFiles(store, paths, infos, {path: info.etag for path, info in infos.items()}, found.medium)


class _Unreachable(ConfigError):
    """The hub can't be reached; its local cache may be used instead."""


def _split_of_job(name: str, config: str | None, split: str, revision: str | None) -> _Split:
    """Return the files of a split as rank 0 found them on the hub; those in a local cache are this node's own."""
    request = f"split {json.dumps([name, config, split, revision])}"
    files, medium = json.loads(
        once_per_job(request, lambda: json.dumps(_split_of(name, config, split, revision)).encode())
    )
    found = _Split(tuple(files), medium)
    on_hub = found.files and found.files[0].startswith(HUB)
    return found if on_hub else _split_of(name, config, split, revision)


def _split_of(path: str, config: str | None, split: str, revision: str | None) -> _Split:
    """Return the files of a split, as the ``datasets`` package finds them."""
    require_packages(f"the dataset {path}", "chat", "datasets")
    import datasets

    with _explained(path):
        builder = datasets.load_dataset_builder(path, config, revision=revision)
    files: Any = builder.config.data_files
    if not files:  # without a connection the package takes what it has prepared
        pattern = os.path.join(glob.escape(str(builder.cache_dir)), f"*-{glob.escape(split)}*.arrow")
        return _Split(tuple(sorted(glob.glob(pattern))), "")
    if split not in files:
        raise ConfigError(f"{path}: there is no split {split!r}; there are {', '.join(map(str, files))}")
    named = [str(file) for file in files[split]]
    medium = _FOLDERS.get(type(builder).__module__.rpartition(".")[2], "")
    described = [file for file in named if posixpath.basename(file) in _METADATA]
    if medium and not described:
        raise ConfigError(
            f"{path}: this is a folder of media without a file that describes them ({', '.join(_METADATA)})"
        )
    return _Split(tuple(described or named), medium)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn what the ``datasets`` package raises into one sentence."""
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        yield
    except DatasetNotFoundError as error:
        raise ConfigError(f"{path}: {first_line(error)}{_advice(error)}") from None
    except (ConnectionError, OfflineModeIsEnabled) as error:
        raise _Unreachable(f"{path}: the hub can't be reached: {first_line(error)}") from None
    except (ValueError, OSError, RuntimeError) as error:
        status = _status(error)
        if status == _TOO_MANY_REQUESTS:
            raise _Unreachable(
                f"{path}: the hub limits the rate of requests (HTTP {status}); try again later, or set HF_TOKEN"
            ) from None
        if status >= _SERVER_ERROR:
            raise _Unreachable(f"{path}: the hub has failed (HTTP {status}); try again later") from None
        raise ConfigError(f"{path}: {first_line(error)}") from None


def _status(error: BaseException | None) -> int:
    """Return the HTTP status that an error comes from, however deep; 0 if there is none."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            return int(status)
        error = error.__cause__ or error.__context__
    return 0


def _advice(error: Exception) -> str:
    if "gated" in str(error):
        return " Set HF_TOKEN to a token that has access."
    return " There is no file or folder of this name either. A private dataset needs HF_TOKEN."


def _downloaded(name: str, config: str | None, split: str, revision: str | None) -> LocatedFiles | None:
    """Return the files of a dataset that the hub's own tools have downloaded; None if there are none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(name, repo_type="dataset", revision=revision, local_files_only=True)
        found = locate_folder(folder, config, split)
    except (LocalEntryNotFoundError, ConfigError):
        return None
    # A file there is a link to one that is named by its version on the hub.
    targets = {path: os.path.realpath(os.path.join(folder, path)) for path in found.paths}
    linked = {path: target for path, target in targets.items() if os.path.basename(os.path.dirname(target)) == "blobs"}
    versions = {path: os.path.basename(target) for path, target in linked.items()}
    return found._replace(versions=versions, foreign=True)


def _in_folder(found: _Split) -> LocatedFiles:
    top = os.path.commonpath([os.path.dirname(file) for file in found.files])
    return LocatedFiles(top, tuple(os.path.relpath(file, top) for file in found.files))
