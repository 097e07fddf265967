"""What was learnt about objects, kept on disk, so that it outlives the process and the object's place in the cache.

A file is named by store, path and version of the object and by the kind of what is kept. It appears by rename:

    body | the same names as JSON | length of the JSON | CRC-32 of all before it

A file that is damaged, or of another object or kind, is treated as missing and made again. Knows nothing of bodies.
"""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from penstock.manifest.publish import locked
from penstock.runtime.aside import write_aside
from penstock.runtime.owned import share_like_folder

_END = struct.Struct("<II")  # length of the names, checksum


class Subject(NamedTuple):
    """One version of one object. ``store`` is the ``identity`` of its store: the same path may be in several stores."""

    store: str
    path: str
    version: str


def make_folder(folder: Path) -> None:
    """Make the folder of a shelf, if there is none.

    Raises:
        OSError: If it can't be made; says what to do.
    """
    try:
        if folder.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {folder}, in which indexes are kept, can't be made: {error.strerror}; give the run a folder "
            "that you may write to: `cache: {dir: …, size: …}`"
        ) from error
    share_like_folder(folder)


class Shelf:
    """A folder of small results. Safe for any number of processes.

    Args:
        folder: made when something is put into it.
        kind: what is kept, with the version of its format, such as ``frame index 1``. A folder may hold several kinds.
    """

    def __init__(self, folder: str | Path, kind: str) -> None:
        self._folder = Path(folder)
        self._kind = kind

    def get(self, about: Subject) -> memoryview | None:
        """Return what was learnt about an object, or None if that is not known."""
        names = self._names(about)
        try:
            data = memoryview(self._path(names).read_bytes())
        except OSError:
            return None
        if len(data) < _END.size:
            return None
        length, checksum = _END.unpack(data[-_END.size :])
        end = len(data) - _END.size - length
        if zlib.crc32(data[:-4]) != checksum or end < 0 or data[end : -_END.size] != names:
            return None
        return data[:end]

    def put(self, about: Subject, body: bytes | memoryview) -> None:
        """Keep what was learnt about an object."""
        names = self._names(about)
        length = len(names).to_bytes(4, "little")
        checksum = 0
        for piece in (body, names, length):
            checksum = zlib.crc32(piece, checksum)
        make_folder(self._folder)
        with locked(self._folder / ".shelf.lock"):
            write_aside(self._path(names), [body, names, length, checksum.to_bytes(4, "little")])

    def remove(self, about: Subject) -> None:
        """Forget what was learnt about an object."""
        self._path(self._names(about)).unlink(missing_ok=True)

    def _names(self, about: Subject) -> bytes:
        return json.dumps([self._kind, *about]).encode()

    def _path(self, names: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(names).hexdigest()[:32]}.learnt"
