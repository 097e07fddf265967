"""Errors of the disk that name the file. Knows nothing of what is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the path to an OSError that names no file, as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise
