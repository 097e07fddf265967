"""Stored indexes in a bucket: published once, taken by any node that needs them. Takes no locks there.

    URL/objects/<SHA-256>   files of the shelf, named by their content: nothing is ever replaced by something else
    URL/index.json          the marker: names, sizes and digests of all files, written last

Until the marker is written, runs see what was published before. Knows nothing of what is in the files.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.manifest.publish import locked
from penstock.readers.metadatacache import make_folder
from penstock.readers.shelf import shelf_files
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.daemons import DaemonPool
from penstock.store.local import within
from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.opening import FolderRemote, open_remote, open_writable
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, Remote, StoreError

MARKER = "index.json"
_OBJECTS = "objects"
_FORMAT = 1
_FILES_AT_ONCE = 16
_PIECE_BYTES = 32 << 20

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of all."""


class PublishedFile(NamedTuple):
    """A file as the marker names it.

    Attributes:
        name: Path in the shelf.
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
    shelf: Path, stores: Collection[str], url: str, options: StoreOptions, progress: Progress = lambda *_: None
) -> Publication:
    """Upload what is stored of the data of some stores. Objects that are there already are not uploaded again.

    Args:
        shelf: Folder of stored indexes.
        stores: Identities of the stores.
        url: Prefix of a bucket, or folder.
        options: Access to the bucket.
        progress: Called after every upload.

    Raises:
        StoreError: If the bucket takes no more objects, or can't be reached. What was uploaded stays.
        ValueError: If the URL can't be written.
    """
    remote = open_writable(url, options)
    files = [_described(shelf, path) for path in shelf_files(shelf, stores)]
    known = {each.sha256: each.etag for each in _earlier(remote)}
    there = _listed(remote)
    missing = {each.key: each for each in files if not _is_there(each, there, known.get(each.sha256))}
    _upload(remote, shelf, list(missing.values()), progress)
    there = _listed(remote)
    lost = next((each for each in files if not _is_there(each, there, None)), None)
    if lost is not None:
        raise StoreError(
            f"{url}/{lost.key}: not there after its upload, or of another size; run the same command again"
        )
    content = [each._replace(etag=there[each.key].etag) for each in files]
    with tempfile.TemporaryDirectory(prefix="penstock-index-") as folder:
        marker = Path(folder) / MARKER
        marker.write_text(json.dumps({"format": _FORMAT, "files": content}))
        remote.put(MARKER, marker)
    return Publication(len(files), sum(each.size for each in files), len(missing))


def _upload(
    remote: "FolderRemote | ObjectRemote", shelf: Path, files: Sequence[PublishedFile], progress: Progress
) -> None:
    def put(file: PublishedFile) -> None:
        remote.put(file.key, shelf / file.name)
        if _described(shelf, shelf / file.name) != file:
            raise StoreError(f"{shelf / file.name} was written to during its upload; run the same command again")

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


def _described(shelf: Path, path: Path) -> PublishedFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return PublishedFile(path.relative_to(shelf).as_posix(), os.fstat(file.fileno()).st_size, digest)


def _is_there(file: PublishedFile, listed: Mapping[str, ObjectInfo], etag: str | None) -> bool:
    """Return whether an object has the size of a file, and its version if that is known."""
    info = listed.get(file.key)
    return info is not None and info.size == file.size and etag in (None, info.etag)


def _listed(remote: Remote) -> dict[str, ObjectInfo]:
    with suppress(ObjectMissing):  # a folder that is not made yet
        return dict(remote.list(_OBJECTS))
    return {}


def _earlier(remote: Remote) -> list[PublishedFile]:
    """Return what was published before; nothing if that can't be read, as then all objects are compared by size."""
    with suppress(ObjectMissing, ValueError):
        return _parsed(_read(remote, remote.head(MARKER)))
    return []


def _read(remote: Remote, info: ObjectInfo) -> bytes:
    return bytes(remote.get_range(MARKER, 0, info.size, info.etag))


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


def take(shelf: Path, url: str, options: StoreOptions) -> int:
    """Download what was published, unless it is in the shelf. Of several processes of a node one does.

    Args:
        shelf: Folder of stored indexes.
        url: Prefix of a bucket, or folder.
        options: Access to the bucket.

    Returns:
        Number of files that were downloaded.

    Raises:
        StoreError: If nothing was published, or objects are missing or damaged. What was downloaded stays.
    """
    remote = open_remote(url, options)
    again = f"run  penstock index CONFIG --to {url}  again, or remove `indexes` from the config"
    try:
        info = remote.head(MARKER)
    except ObjectMissing:
        raise StoreError(f"{url}: there is no {MARKER}, so no index was uploaded, or not all of it; {again}") from None
    note = shelf / f".taken-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    if _noted(note) == info.etag:
        return 0
    make_folder(shelf)
    with locked(shelf / ".taken.lock"):
        if _noted(note) == info.etag:
            return 0
        try:
            files = _parsed(_read(remote, info))
        except ValueError as error:
            raise StoreError(f"{url}/{MARKER}: {error}; {again}") from None
        new = [each for each in files if not within(shelf, each.name).exists()]
        try:
            with DaemonPool(_FILES_AT_ONCE, "penstock-take") as pool:
                list(pool.map(lambda each: _download(remote, shelf, each), new))
        except _Damaged as error:
            raise StoreError(f"{error}; {again}") from None
        write_atomically(note, [info.etag.encode()])
    return len(new)


def _noted(note: Path) -> str:
    """Return the version of the marker whose files are here; empty if there is none."""
    try:
        return note.read_text()
    except OSError:
        return ""


class _Damaged(Exception):
    """An object is missing, or is not what the marker says."""


def _download(remote: Remote, shelf: Path, file: PublishedFile) -> None:
    try:
        info = remote.head(file.key)
    except ObjectMissing:
        raise _Damaged(f"{remote.url}/{file.key} is missing, which is {file.name} of the index") from None
    path = within(shelf, file.name)
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
