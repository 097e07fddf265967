"""Metadata of objects on disk: it outlives the process, and the object's bytes in the node cache.

One file per object version and kind of metadata. Its name is a digest of both. It is written aside and renamed:

    body | object version and kind as JSON | length of the JSON | CRC-32 of all before it

A file that is damaged, or belongs to another object or kind, counts as missing. Knows nothing of bodies.
"""

import hashlib
import json
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.manifest.publish import locked
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.owned import share_like_folder

_TRAILER = struct.Struct("<II")  # length of the JSON, checksum


class ObjectVersion(NamedTuple):
    """One version of one object.

    Attributes:
        store: Identity of its store: several stores may have the same path.
        path: Path in the store.
        version: Version, as the store names it.
    """

    store: str
    path: str
    version: str


def make_folder(folder: Path) -> None:
    """Create the folder of a metadata cache if it does not exist.

    Raises:
        OSError: If it cannot be created; the message says what to do.
    """
    try:
        if folder.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {folder} for indexes can't be made: {error.strerror}; name a folder that you may write to: "
            "`cache: {dir: …, size: …}`"
        ) from error
    share_like_folder(folder)


def stored_subject(path: Path) -> tuple[str, ObjectVersion] | None:
    """Return the kind of the metadata in a file, and its object; None if the file is damaged. Reads no body."""
    with suppress(OSError, ValueError, TypeError), open(path, "rb") as file:
        file.seek(-_TRAILER.size, os.SEEK_END)
        length, _ = _TRAILER.unpack(file.read())
        file.seek(-_TRAILER.size - length, os.SEEK_END)
        kind, *version = json.loads(file.read(length))
        return kind, ObjectVersion(*version)
    return None


class MetadataCache:
    """A folder of metadata of one kind. Safe for any number of processes.

    Args:
        folder: Folder, created by the first ``put``. Several kinds may share it.
        kind: Kind of metadata with the version of its format, such as ``frame index 1``.
    """

    def __init__(self, folder: str | Path, kind: str) -> None:
        self._folder = Path(folder)
        self._kind = kind

    def get(self, version: ObjectVersion) -> memoryview | None:
        """Return the metadata of an object, or None if it is missing."""
        key = self._key(version)
        try:
            data = memoryview(self._path(key).read_bytes())
        except OSError:
            return None
        if len(data) < _TRAILER.size:
            return None
        length, checksum = _TRAILER.unpack(data[-_TRAILER.size :])
        end = len(data) - _TRAILER.size - length
        if zlib.crc32(data[:-4]) != checksum or end < 0 or data[end : -_TRAILER.size] != key:
            return None
        return data[:end]

    def put(self, version: ObjectVersion, body: bytes | memoryview) -> None:
        """Write the metadata of an object, replacing what is there."""
        name, pieces = self.file(version, body)
        make_folder(self._folder)
        with locked(self._folder / ".shelf.lock"):
            write_atomically(self._folder / name, pieces)

    def put_unlocked(self, version: ObjectVersion, body: bytes | memoryview) -> None:
        """Write the metadata of an object without a lock, which a network file system may not have.

        The file appears whole. Processes that write it at the same time must write the same bytes. A process that is
        killed may leave a hidden file.
        """
        name, pieces = self.file(version, body)
        make_folder(self._folder)
        write_atomically(self._folder / name, pieces, shared=True)

    @property
    def is_empty(self) -> bool:
        """Whether the folder has no metadata of any kind."""
        return next(self._folder.glob("*.learnt"), None) is None

    def file(self, version: ObjectVersion, body: bytes | memoryview) -> tuple[str, list[bytes | memoryview]]:
        """Return name and content of the file that ``put`` writes. Another process may write it."""
        key = self._key(version)
        length = len(key).to_bytes(4, "little")
        checksum = 0
        for piece in (body, key, length):
            checksum = zlib.crc32(piece, checksum)
        return self._path(key).name, [body, key, length, checksum.to_bytes(4, "little")]

    def name(self, version: ObjectVersion) -> str:
        """Return the name of the file with the metadata of an object."""
        return self._path(self._key(version)).name

    def remove(self, version: ObjectVersion) -> None:
        """Remove the metadata of an object if it is there."""
        self._path(self._key(version)).unlink(missing_ok=True)

    def _key(self, version: ObjectVersion) -> bytes:
        return json.dumps([self._kind, *version]).encode()

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(key).hexdigest()[:32]}.learnt"
