"""Creates folders that appear whole or not at all, even with concurrent processes. Knows nothing of their contents."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.runtime.owned import share_like_folder


def publish(out: Path, write: Callable[[Path], None], *, keep: bool = False) -> None:
    """Fill a temporary folder beside ``out``, then rename it to ``out``.

    One process at a time does this. The next process removes what a killed one left behind.

    Args:
        out: Folder to create.
        write: Function that fills the temporary folder.
        keep: Whether to do nothing if another process has created ``out`` meanwhile; otherwise it is replaced.
    """
    _make_parent(out)
    with locked(out.with_name(f".{out.name}.lock")):
        if keep and out.exists():
            return
        partial = out.with_name(f".{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            write(partial)
            share_like_folder(partial)
            _sync(partial)
            _replace(partial, out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _make_parent(out: Path) -> None:
    new = not out.parent.exists()
    out.parent.mkdir(parents=True, exist_ok=True)
    if new:
        share_like_folder(out.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file. The kernel releases the lock of a killed process."""
    # The lock file is kept: otherwise two processes could lock two different files of the same name.
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if new:
            share_like_folder(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a child was forked meanwhile
        os.close(descriptor)


def _sync(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(made: Path, out: Path) -> None:
    old = out.with_name(f".{out.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    made.rename(out)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Add a path to each ``OSError`` that names no file, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise
