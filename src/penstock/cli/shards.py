"""Tar shards as they are named on the command line: files, folders, objects, prefixes."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from penstock.store.blob import Store
from penstock.store.local import LocalStore
from penstock.store.remote.direct import DirectStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.remote.urls import local_path


@dataclass(frozen=True, slots=True)
class Shards:
    """Shards of one store.

    Attributes:
        root: Folder or URL that ``paths`` are relative to: the ``store`` of a run that uses them.
        store: Open store of ``root``.
        paths: Paths of the shards.
        known: Sizes and versions of shards of a remote store, where it was listed.
    """

    root: str
    store: Store
    paths: list[str]
    known: dict[str, ObjectInfo] = field(default_factory=dict)

    @property
    def versions(self) -> dict[str, str]:
        return {path: info.etag for path, info in self.known.items()}

    @property
    def size(self) -> int:
        """Size of all shards in bytes; of single remote objects it is not known and counts as 0."""
        if isinstance(self.store, LocalStore):
            root = self.store.root
            return sum((root / path).stat().st_size for path in self.paths if (root / path).exists())
        return sum(info.size for info in self.known.values())

    def infos(self, paths: Collection[str]) -> dict[str, ObjectInfo]:
        """Return sizes and versions of some paths that were listed.

        Raises:
            FileNotFoundError: If a local file is missing.
        """
        if not isinstance(self.store, LocalStore):
            return {path: self.known[path] for path in paths}
        stamps = self.store.stamps(paths)
        return {path: ObjectInfo(size, stamp) for path, (stamp, size) in zip(paths, stamps, strict=True)}


def all_files(url: str, options: StoreOptions | None = None) -> Shards:
    """Find all files of a folder or prefix.

    Args:
        url: Folder or URL of a prefix.
        options: Options of remote stores.

    Raises:
        FileNotFoundError: If it has none.
    """
    folder = local_path(url)
    if folder is None:
        remote = open_remote(url.rstrip("/"), options)
        known = dict(remote.list())
        found = Shards(url.rstrip("/"), DirectStore(remote), list(known), known)
    else:
        root = folder.absolute()
        inside = (Path(base, name) for base, _, names in os.walk(root, followlinks=True) for name in names)
        found = Shards(str(root), LocalStore(root), [path.relative_to(root).as_posix() for path in inside])
    if not found.paths:
        raise FileNotFoundError(f"{url}: no files here")
    return found


def named_shards(urls: list[str], root: str | None = None, options: StoreOptions | None = None) -> Shards:
    """Find the tar shards that the arguments name.

    Args:
        urls: Tar shards, or folders or prefixes that contain them.
        root: Folder or URL that paths are relative to; by default the deepest one that contains all shards.
        options: Options of remote stores.

    Raises:
        FileNotFoundError: If an argument names no shards.
        ValueError: If local and remote shards are mixed, or a shard is not below ``root``.
    """
    folders = [local_path(url) for url in urls]
    local = [folder for folder in folders if folder is not None]
    if not local:
        return _remote(urls, root, options)
    below = None if root is None else local_path(root)
    if len(local) < len(urls) or (root is not None and below is None):
        raise ValueError("local folders and remote stores cannot be mixed: a run reads shards from one store")
    return _local(local, below)


def _local(names: list[Path], root: Path | None) -> Shards:
    files: list[Path] = []
    for name in names:
        found = sorted(name.rglob("*.tar")) if name.is_dir() else [name]
        if not found or not found[0].exists():
            raise FileNotFoundError(f"{name}: no tar shards here")
        files += [file.absolute() for file in found]
    if root is None:
        alone = len(names) == 1 and names[0].is_dir()
        root = names[0] if alone else Path(os.path.commonpath([file.parent for file in files]))
    root = root.absolute()
    outside = [str(file) for file in files if not file.is_relative_to(root)]
    if outside:
        raise ValueError(f"--store {root}: {outside[0]} is not below it")
    return Shards(str(root), LocalStore(root), [file.relative_to(root).as_posix() for file in files])


def _remote(urls: list[str], root: str | None, options: StoreOptions | None) -> Shards:
    urls = [url.rstrip("/") for url in urls]
    if root is None and len(urls) > 1:
        raise ValueError("several remote URLs: add --store with the URL that shard paths are relative to")
    root = (root or (urls[0].rpartition("/")[0] if urls[0].endswith(".tar") else urls[0])).rstrip("/")
    remote = open_remote(root, options)
    paths: list[str] = []
    known: dict[str, ObjectInfo] = {}
    for url in urls:
        if url != root and not url.startswith(f"{root}/"):
            raise ValueError(f"--store {root}: {url} is not below it")
        below = url[len(root) + 1 :]
        if below.endswith(".tar"):
            paths.append(below)
            continue
        listed = {key: info for key, info in remote.list(below) if key.endswith(".tar")}
        if not listed:
            raise FileNotFoundError(f"{url}: no tar shards here")
        known |= listed
        paths += listed
    return Shards(root, DirectStore(remote), paths, known)
