"""A local folder as a store, read with ``preadv`` or zero-copy. Knows nothing of caches or of what the files hold."""

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from mmap import PROT_READ, mmap
from pathlib import Path

from penstock.store.blob import Blob, ByteRange
from penstock.store.fileversions import FileVersions
from penstock.store.ranges import RangedBlob, check_range, read_exactly
from penstock.store.remote.remote import ObjectChanged

_RECHECK_SECONDS = 0.1
_TICK_NS = 20_000_000  # more than the resolution of times that a kernel gives to files
_DIGEST_BYTES = 1 << 20  # at a time
_PIECES_PER_CALL = 1_024  # IOV_MAX on Linux


class LocalBlob:
    """One open file. Reads keep no position, so any number of threads may read at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise IsADirectoryError(f"{path} is a folder, not a file")
        self._size = status.st_size
        self._version = _version(status)
        self._stamp = _stamp(status)
        self._mapped: memoryview | None = None
        self._looked = time.monotonic()  # when the file was last seen to be unchanged
        self._checked: set[tuple[int, int]] = set()
        self._trusted = False
        self._doubted = False

    @property
    def size(self) -> int:
        return self._size

    @property
    def version(self) -> str:
        """Version within a run: inode, size and mtime. Between runs see ``stamp``."""
        return self._version

    @property
    def stamp(self) -> str:
        """Version that no other file of this name ever had. ``chmod`` and a new link change it, too."""
        return self._stamp

    def digest(self) -> str | None:
        """Return a digest of all bytes; None if the file changed since it was opened."""
        found = hashlib.sha256()
        buffer = memoryview(bytearray(_DIGEST_BYTES))
        for start in range(0, self._size, _DIGEST_BYTES):
            piece = buffer[: self._size - start]
            self.readinto(piece, start)
            found.update(piece)
        return found.hexdigest() if _stamp(os.fstat(self._fd)) == self._stamp else None

    def readinto(self, buffer: memoryview, offset: int) -> None:
        if self._fd < 0:
            raise ValueError(f"read from {self.path} after it was closed")
        read_exactly(self._fd, self._size, buffer, offset, self.path)

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return a zero-copy view of the bytes, through a memory map. It stays valid when the blob is closed.

        A page fault on it holds the GIL, and reading bytes of a file that was truncated after the last check raises
        SIGBUS, which ends the process. Copying through the kernel, as :class:`CopyBuffer` does, avoids both.

        Returns:
            None if the file system does not support memory maps.

        Raises:
            EOFError: If the range is not in the file, or the file was truncated.
            ObjectChanged: If the file was written to while it was open.
        """
        if self._fd < 0:
            raise ValueError(f"read from {self.path} after it was closed")
        if offset < 0 or offset + size > self._size:
            check_range(self._size, size, offset, self.path)
        if (moment := time.monotonic()) >= self._looked + _RECHECK_SECONDS:  # each fstat releases the GIL
            self.require_unchanged()
            self._looked = moment
        if self._mapped is None:
            try:
                self._mapped = memoryview(mmap(self._fd, self._size, prot=PROT_READ))
            except OSError:  # not supported by the file system
                return None
        return self._mapped[offset : offset + size]

    def mapped(self) -> mmap:
        """Return all bytes of the open file as a memory map, even if its name has been reused."""
        return mmap(self._fd, self._size, prot=PROT_READ)

    def is_checked(self, start: int, end: int) -> bool:
        """Return whether ``note_checked`` was called for exactly this range since the file was opened, or ``trust``."""
        return self._trusted or (start, end) in self._checked

    def note_checked(self, start: int, end: int) -> None:
        """Record that the bytes of a range are right."""
        self._checked.add((start, end))

    def trust(self) -> None:
        """Count every range as checked, unless one was found to be wrong."""
        self._trusted = not self._doubted

    def doubt(self) -> None:
        """Record that bytes are wrong: from now on, each range has to be checked."""
        self._doubted = True
        self._trusted = False

    def require_unchanged(self) -> None:
        """Raise an error if the file was written to since it was opened.

        Raises:
            EOFError: If it is shorter.
            ObjectChanged: If it was written to.
        """
        status = os.fstat(self._fd)
        if status.st_size < self._size:
            raise EOFError(
                f"{self.path}: the file was truncated to {status.st_size} bytes while it was open (it had "
                f"{self._size}), so what an index knows of it no longer holds; start the run again"
            )
        if _version(status) != self._version:
            raise ObjectChanged(
                f"{self.path}: the file was written to while it was open, so what an index knows of it no longer "
                "holds; start the run again"
            )

    def close(self) -> None:
        """Close the descriptor. The caller ensures that no other thread is still reading."""
        fd = self._fd
        self._fd = -1
        self._mapped = None
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and os is not None:  # modules are None at interpreter shutdown
            self.close()


def _version(status: os.stat_result) -> str:
    """Return a version that changes when a file is replaced or written to."""
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


def _stamp(status: os.stat_result) -> str:
    return f"{_version(status)}-{status.st_ctime_ns}"


def run_version(stamp: str) -> str:
    """Return ``LocalBlob.version`` of the file that has a stamp."""
    return stamp.rpartition("-")[0]


def stamp(blob: Blob) -> str:
    """Return a version that no other object ever has: the ``stamp`` of a local file."""
    return blob.stamp if isinstance(blob, LocalBlob) else blob.version


class CopyBuffer:
    """``memory`` of ``size`` bytes that the kernel fills, many pieces per call and without the GIL.

    Where a mapped file was truncated the kernel copies no further; reading its bytes here would raise SIGBUS.
    """

    def __init__(self, size: int) -> None:
        self._fd = os.memfd_create("penstock")
        os.ftruncate(self._fd, max(1, size))
        self.memory = memoryview(mmap(self._fd, 0))[:size]

    def put(self, pieces: Sequence[memoryview | bytes]) -> None:
        """Copy the pieces one after the other, from the beginning. From the first unreadable byte on, all are zeros."""
        end = sum(map(len, pieces))
        done = 0
        for first in range(0, len(pieces), _PIECES_PER_CALL):
            some = pieces[first : first + _PIECES_PER_CALL]
            try:
                copied = os.pwritev(self._fd, some, done)
            except OSError:  # the first byte is unreadable
                copied = 0
            done += copied
            if copied < sum(map(len, some)):
                self.memory[done:end] = bytes(end - done)
                return

    def __del__(self) -> None:
        if os is not None and getattr(self, "_fd", -1) >= 0:  # modules are None at interpreter shutdown
            os.close(self._fd)


class LocalStore:
    """A folder. Symbolic links in it are followed: the owner of the folder is trusted.

    Args:
        root: Folder.
        notes: Folder that keeps versions of files between runs; see ``FileVersions``.
    """

    def __init__(self, root: str | os.PathLike[str], notes: Path | None = None) -> None:
        # Absolute now: the process may change its working directory later.
        self.root = Path(root).absolute()
        self._prefix = f"{self.root}/"
        self.url = ""
        self.file_versions = FileVersions(notes, self.identity)

    @cached_property
    def identity(self) -> str:
        """The folder after symbolic links."""
        return os.path.realpath(self.root)

    def stamps(self, paths: Iterable[str]) -> list[tuple[str, int]]:
        """Return ``LocalBlob.stamp`` and the size of each file, without opening it.

        A file that was changed just now could change again without a new ctime: it is looked at after the next tick.

        Raises:
            FileNotFoundError: If a file is missing.
        """
        paths = list(paths)
        found = list(map(self._status, paths))
        settled = time.time_ns() - _TICK_NS
        fresh = [number for number, status in enumerate(found) if status.st_ctime_ns > settled]
        if fresh:
            time.sleep(_TICK_NS / 1e9)
            for number in fresh:
                found[number] = self._status(paths[number])
        return [(_stamp(status), status.st_size) for status in found]

    def _status(self, path: str) -> os.stat_result:
        full = f"{self._prefix}{path}"
        try:
            return os.stat(full)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"{full}: no such file (in store {self.root})") from None

    def open(self, path: str, within: ByteRange | None = None) -> Blob:
        """Open a file, or a range of it."""
        blob = self.open_file(path)
        return blob if within is None else RangedBlob(blob, within, blob.path)

    def version(self, path: str) -> str:
        """Return the version of a file that identifies its cached metadata between runs."""
        blob = self.open_file(path)
        try:
            return self.file_versions.get(path, blob)
        finally:
            blob.close()

    def open_file(self, path: str) -> LocalBlob:
        full = within(self.root, path)
        try:
            return LocalBlob(full)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"{full}: no such file (in store {self.root})") from None

    def open_if_here(self, path: str, within: ByteRange | None = None) -> Blob:
        return self.open(path, within)

    def close(self) -> None:
        """Do nothing: only blobs hold descriptors."""


def within(root: Path, path: str) -> Path:
    """Return ``root / path``.

    Raises:
        ValueError: If the path is empty or absolute, or contains ``..`` or NUL.
    """
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or ".." in parts:
        raise ValueError(f"path {path!r} is refused: it must be relative to {root}, without '..' or NUL")
    return root / path
