"""Where evaluation data goes: a folder or a bucket's prefix. Files appear there atomically."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.opening import open_writable
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectMissing
from penstock.store.remote.urls import local_path


class Destination(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def work(self) -> Path:
        """A folder for temporary files."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file, None if there is none."""
        ...

    def holds(self, name: str, size: int, sha256: str) -> bool: ...

    def put(self, made: Path, name: str) -> None:
        """Move a file from ``work`` to its place, replacing an existing one."""
        ...


@contextmanager
def open_destination(url: str, options: StoreOptions | None = None) -> Iterator[Destination]:
    """Open a folder or a prefix. A folder is locked; if two builds write into one prefix, the last write wins.

    Raises:
        ValueError: If the URL is not writable (http, hf).
    """
    folder = local_path(url)
    if folder is None:
        remote = open_writable(url, options)
        assert isinstance(remote, ObjectRemote)
        with TemporaryDirectory(prefix="penstock-eval-") as temporary:
            yield _Prefix(remote, Path(temporary))
        return
    work = folder / ".making"  # in the folder, so that a rename stays on the same file system
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        work.mkdir(exist_ok=True)
        try:
            yield _Folder(folder, work)
        finally:
            shutil.rmtree(work)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process builds there. The kernel frees the lock of a killed process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Folder:
    def __init__(self, root: Path, work: Path) -> None:
        self.url = str(root)
        self.work = work
        self._root = root

    def read(self, name: str) -> bytes | None:
        path = self._root / name
        return path.read_bytes() if path.exists() else None

    def holds(self, name: str, size: int, sha256: str) -> bool:
        path = self._root / name
        if not path.is_file() or path.stat().st_size != size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256

    def put(self, made: Path, name: str) -> None:
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(self._root / name)


class _Prefix:
    def __init__(self, remote: ObjectRemote, work: Path) -> None:
        self.url = remote.url
        self.work = work
        self._remote = remote

    def read(self, name: str) -> bytes | None:
        try:
            info = self._remote.head(name)
        except ObjectMissing:
            return None
        return bytes(self._remote.get_range(name, 0, info.size, info.etag))

    def holds(self, name: str, size: int, sha256: str) -> bool:  # noqa: ARG002
        # Only by size: for the checksum the object would have to be downloaded.
        try:
            return self._remote.head(name).size == size
        except ObjectMissing:
            return False

    def put(self, made: Path, name: str) -> None:
        self._remote.put(name, made)
        made.unlink()
