"""A local folder as a store, read with ``preadv`` or in place. Knows nothing of caches or of what the files hold."""

import os
import time
from mmap import PROT_READ, mmap
from pathlib import Path

from penstock.store.exact import check_range, fill

_JUST_NOW = 0.1  # seconds


class LocalBlob:
    """One open file. Reads keep no position, so any number of threads may read at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        stat = os.fstat(self._fd)
        self._size = stat.st_size
        self._version = f"{stat.st_size}-{stat.st_mtime_ns}"
        self._mapped: memoryview | None = None
        self._checked = time.monotonic()  # when the file was last seen to be as long as it was

    @property
    def size(self) -> int:
        return self._size

    @property
    def version(self) -> str:
        return self._version

    def readinto(self, buffer: memoryview, offset: int) -> None:
        if self._fd < 0:
            raise ValueError(f"read from {self.path} after it was closed")
        fill(self._fd, self._size, buffer, offset, self.path)

    def view(self, offset: int, size: int) -> memoryview | None:
        """The bytes themselves, through a memory map; they stay readable when the blob is closed. None where there are
        no maps.

        Look at them soon, where waiting for the disk holds nobody up. A file that was cut is an error, but if that was
        just now it ends the process; not where the kernel looks at them, as for a :class:`Tray`.
        """
        if self._fd < 0:
            raise ValueError(f"read from {self.path} after it was closed")
        if offset < 0 or offset + size > self._size:
            check_range(self._size, size, offset, self.path)
        if (moment := time.monotonic()) >= self._checked + _JUST_NOW:  # each look hands the interpreter's lock over
            if (now := os.fstat(self._fd).st_size) < self._size:
                raise EOFError(f"{self.path}: the file was cut to {now} bytes while it was open (had {self._size})")
            self._checked = moment
        if self._mapped is None:
            try:
                self._mapped = memoryview(mmap(self._fd, self._size, prot=PROT_READ))
            except OSError:  # some file systems have none
                return None
        return self._mapped[offset : offset + size]

    def close(self) -> None:
        """Give the descriptor back. The caller sees to it that no other thread is still reading."""
        fd, self._fd, self._mapped = self._fd, -1, None
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and os is not None:  # at the interpreter's end modules are gone
            self.close()


class LocalStore:
    """A folder. Symbolic links in it are followed: whoever made the folder vouches for them."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        # Absolute at once: the process may change its folder later.
        self.root = Path(root).absolute()
        self.url = ""

    def open(self, path: str) -> LocalBlob:
        full = within(self.root, path)
        try:
            blob = LocalBlob(full)
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, f"no such file (in store {self.root})", str(full)) from None
        if full.is_dir():
            blob.close()
            raise IsADirectoryError(f"{full} is a folder, not a file")
        return blob

    def close(self) -> None:
        """Nothing is held but by the blobs themselves."""


def within(root: Path, path: str) -> Path:
    """``root / path``, refusing what by its name alone would leave ``root`` or name no file in it."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or ".." in parts:
        raise ValueError(f"path {path!r} is refused: it must be relative to {root}, without '..' or NUL")
    return root / path
