"""Indexes in a bucket: published once, taken by any node that needs them. Takes no locks there.

    URL/objects/<SHA-256>     files, named by their content: nothing is ever replaced by something else
    URL/indexes/<name>.json   the marker of an index: names, sizes and digests of its files, written last

Until the marker is written, runs see what was published before. Knows nothing of what is in the files.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.manifest.publish import locked
from penstock.readers.metadatacache import make_folder
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.daemons import DaemonPool
from penstock.store.local import within
from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.opening import FolderRemote, open_remote, open_writable
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, Remote, StoreError

_OBJECTS = "objects"
_MARKERS = "indexes"
_FORMAT = 1
_FILES_AT_ONCE = 16
_PIECE_BYTES = 32 << 20

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of all."""


class PublishedFile(NamedTuple):
    """A file as the marker names it.

    Attributes:
        name: Path in the folder.
        size: Size in bytes.
        sha256: Digest of its content, which names its object.
        etag: Version of its object.
    """

    name: str
    size: int
    sha256: str
    etag: str = ""

    @property
    def key(self) -> str:
        return f"{_OBJECTS}/{self.sha256}"


class Publication(NamedTuple):
    """What ``publish`` did: the number of files and bytes in all, and the number of files that were uploaded."""

    files: int
    size: int
    uploaded: int


def publish(
    folder: Path,
    paths: Iterable[Path],
    url: str,
    name: str,
    options: StoreOptions,
    progress: Progress = lambda *_: None,
) -> Publication:
    """Upload files of a folder as an index. Objects that are there already are not uploaded again.

    Args:
        folder: Folder.
        paths: Paths of the files, in the folder.
        url: Prefix of a bucket, or folder.
        name: Name of the index. Others below the URL stay as they are.
        options: Access to the bucket.
        progress: Called after every upload.

    Raises:
        StoreError: If the bucket takes no more objects, or can't be reached. What was uploaded stays.
        ValueError: If the URL can't be written.
    """
    remote = open_writable(url, options)
    files = [_described(folder, path) for path in paths]
    known = {each.sha256: each.etag for each in _earlier(remote, _marker(name))}
    there = _listed(remote)
    missing = {each.key: each for each in files if not _is_there(each, there, known.get(each.sha256))}
    _upload(remote, folder, list(missing.values()), progress)
    there = _listed(remote)
    lost = next((each for each in files if not _is_there(each, there, None)), None)
    if lost is not None:
        raise StoreError(
            f"{url}/{lost.key}: not there after its upload, or of another size; run the same command again"
        )
    content = [each._replace(etag=there[each.key].etag) for each in files]
    with tempfile.TemporaryDirectory(prefix="penstock-index-") as scratch:
        marker = Path(scratch) / "marker"
        marker.write_text(json.dumps({"format": _FORMAT, "files": content}))
        remote.put(_marker(name), marker)
    return Publication(len(files), sum(each.size for each in files), len(missing))


def _marker(name: str) -> str:
    return f"{_MARKERS}/{name}.json"


def _upload(
    remote: "FolderRemote | ObjectRemote", folder: Path, files: Sequence[PublishedFile], progress: Progress
) -> None:
    def put(file: PublishedFile) -> None:
        remote.put(file.key, folder / file.name)
        if _described(folder, folder / file.name) != file:
            raise StoreError(f"{folder / file.name} was written to during its upload; run the same command again")

    done = 0
    with DaemonPool(_FILES_AT_ONCE, "penstock-publish") as pool:
        try:
            for _ in pool.map(put, files):
                done += 1
                progress(done, len(files))
        except OSError as error:
            kept = "what is uploaded stays, and the same command uploads the rest"
            raise StoreError(
                f"{error}; {len(files) - done:,} of {len(files):,} files are not uploaded: {kept}"
            ) from None


def _described(folder: Path, path: Path) -> PublishedFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return PublishedFile(path.relative_to(folder).as_posix(), os.fstat(file.fileno()).st_size, digest)


def _is_there(file: PublishedFile, listed: Mapping[str, ObjectInfo], etag: str | None) -> bool:
    """Return whether an object has the size of a file, and its version if that is known."""
    info = listed.get(file.key)
    return info is not None and info.size == file.size and etag in (None, info.etag)


def _listed(remote: Remote) -> dict[str, ObjectInfo]:
    with suppress(ObjectMissing):  # a folder that is not made yet
        return dict(remote.list(_OBJECTS))
    return {}


def _earlier(remote: Remote, marker: str) -> list[PublishedFile]:
    """Return what was published before; nothing if that can't be read, as then all objects are compared by size."""
    with suppress(ObjectMissing, ValueError):
        return _parsed(_read(remote, marker, remote.head(marker)))
    return []


def _read(remote: Remote, marker: str, info: ObjectInfo) -> bytes:
    return bytes(remote.get_range(marker, 0, info.size, info.etag))


def _parsed(data: bytes) -> list[PublishedFile]:
    """Return the files that a marker names.

    Raises:
        ValueError: If it is damaged, or of another format.
    """
    try:
        found = json.loads(data)
        if found["format"] == _FORMAT:
            return [PublishedFile(*each) for each in found["files"]]
    except (KeyError, TypeError):
        pass
    raise ValueError("not a marker of this version")


class Published:
    """An index in a bucket.

    Args:
        url: Prefix of a bucket, or folder.
        name: Name of the index. If there is none of this name, all others below the URL count as one.
        options: Access to the bucket.

    Attributes:
        version: Changes whenever the index does.

    Raises:
        StoreError: If there is no index.
    """

    def __init__(self, url: str, name: str, options: StoreOptions) -> None:
        self._url = url
        self._remote = open_remote(url, options)
        self._markers = self._find(_marker(name))
        self.version = " ".join(info.etag for info in self._markers.values())
        if not self._markers:
            raise StoreError(
                f"{url}: there is no {_MARKERS}/*.json, so no index was uploaded, or not all of it; {self._again}"
            )

    @property
    def _again(self) -> str:
        return f"run  penstock index … --to {self._url}  again"

    def _find(self, marker: str) -> dict[str, ObjectInfo]:
        try:
            return {marker: self._remote.head(marker)}
        except ObjectMissing:
            pass
        with suppress(StoreError):  # a web server can't be listed, and credentials may not allow it
            return dict(self._remote.list(_MARKERS))
        return {}

    def take(self, folder: Path) -> int:
        """Download all files, unless they are in a folder. One process of a node does so for all.

        Args:
            folder: Folder, such as that of stored indexes.

        Returns:
            Number of files that were downloaded.

        Raises:
            StoreError: If objects are missing or damaged. What was downloaded stays.
        """
        note = folder / f".taken-{hashlib.sha256(self._url.encode()).hexdigest()[:16]}"
        if _noted(note) == self.version:
            return 0
        make_folder(folder)
        with locked(folder / ".taken.lock"):
            if _noted(note) == self.version:
                return 0
            new = [each for each in self._files() if not within(folder, each.name).exists()]
            try:
                with DaemonPool(_FILES_AT_ONCE, "penstock-take") as pool:
                    list(pool.map(lambda each: _download(self._remote, folder, each), new))
            except _Damaged as error:
                raise StoreError(f"{error}; {self._again}") from None
            write_atomically(note, [self.version.encode()])
        return len(new)

    def _files(self) -> Collection[PublishedFile]:
        files: dict[str, PublishedFile] = {}
        for marker, info in self._markers.items():
            try:
                files |= {each.name: each for each in _parsed(_read(self._remote, marker, info))}
            except ValueError as error:
                raise StoreError(f"{self._url}/{marker}: {error}; {self._again}") from None
        return files.values()


def _noted(note: Path) -> str:
    """Return the version of the index whose files are here; empty if there is none."""
    try:
        return note.read_text()
    except OSError:
        return ""


class _Damaged(Exception):
    """An object is missing, or is not what the marker says."""


def _download(remote: Remote, folder: Path, file: PublishedFile) -> None:
    try:
        info = remote.head(file.key)
    except ObjectMissing:
        raise _Damaged(f"{remote.url}/{file.key} is missing, which is {file.name} of the index") from None
    path = within(folder, file.name)
    make_folder(path.parent)
    write_atomically(path, _pieces(remote, file, info))


def _pieces(remote: Remote, file: PublishedFile, info: ObjectInfo) -> Iterator[memoryview]:
    digest = hashlib.sha256()
    for start in range(0, info.size, _PIECE_BYTES):
        piece = remote.get_range(file.key, start, min(info.size, start + _PIECE_BYTES), info.etag)
        digest.update(piece)
        yield piece
    if digest.hexdigest() != file.sha256:
        raise _Damaged(f"{remote.url}/{file.key} is damaged, which is {file.name} of the index")
