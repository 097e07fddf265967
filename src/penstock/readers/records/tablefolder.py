"""The tables of a source on disk, in a folder of their own, named by their content.

The newest table counts, with the parts that a process has written since, which makes a new one. An older table stays
for an hour: processes that opened it may start workers. Knows nothing of what is in a table.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.manifest.publish import locked
from penstock.readers.metadatacache import make_folder
from penstock.readers.records.filetable import FileTable, map_table
from penstock.runtime.atomicwrite import write_atomically

_TABLE = ".table"
_PART = ".part"
_STORE = ".store"
_KEPT_SECONDS = 3_600  # that an older table stays


def write_table(folder: Path, table: FileTable) -> FileTable:
    """Write a table, and remove parts and old tables.

    Args:
        folder: Folder of the source's tables.
        table: Table to write.

    Returns:
        The table as it is mapped.

    Raises:
        OSError: If it can't be written, as on a full disk.
    """
    parts = _written(folder, _PART)
    pieces = table.pieces()
    _make_folders(folder)
    path = folder / _name(pieces, _TABLE)
    with locked(folder / ".lock"):
        write_atomically(path, pieces, sync=True)
    old = [each for each in _written(folder, _TABLE) if each != path and time.time() - _time(each) > _KEPT_SECONDS]
    for each in (*parts, *old):
        each.unlink(missing_ok=True)
    return map_table(path)


def part_file(table: FileTable) -> tuple[str, bytes]:
    """Return name and content of a file with rows that the next table will have."""
    pieces = table.pieces()
    return _name(pieces, _PART), b"".join(pieces)


def write_part(folder: Path, table: FileTable) -> None:
    """Write rows that the next table will have. Takes no lock: several machines may do so at once."""
    name, content = part_file(table)
    _make_folders(folder)
    write_atomically(folder / name, [content], sync=True, shared=True)


def _make_folders(folder: Path) -> None:
    make_folder(folder.parent)
    make_folder(folder)


def _name(pieces: Sequence[bytes | memoryview], suffix: str) -> str:
    """Return the name of a file, which is a digest of its table."""
    return f"{hashlib.sha256(pieces[1]).hexdigest()[:32]}{suffix}"


def note_store(folder: Path, store: str) -> None:
    """Note which store the tables of a folder are about."""
    with suppress(OSError):  # read-only
        if noted_store(folder) != store:
            write_atomically(folder / _STORE, [store.encode(errors="surrogateescape")], shared=True)


def noted_store(folder: Path) -> str | None:
    """Return the identity of the store that the tables of a folder are about; None if it was not noted."""
    with suppress(OSError):
        return (folder / _STORE).read_bytes().decode(errors="surrogateescape")
    return None


def newest_table(folder: Path) -> FileTable:
    """Return the table that was written last, with the parts written since; an empty one if all are damaged."""
    parts = list(_readable(_written(folder, _PART)))
    table = next(_readable(_written(folder, _TABLE)), FileTable.of([]))
    if table.path is not None:
        with suppress(OSError):  # read-only, or of another user
            os.utime(table.path, (time.time(), _time(table.path)))  # in use: ``readers.shelf`` removes what is not
    return parts[0].joined(*parts[1:], table) if parts else table  # of two rows of a file the first counts


def _readable(paths: Sequence[Path]) -> Iterator[FileTable]:
    for path in paths:
        with suppress(OSError, ValueError, pa.ArrowException):
            yield map_table(path)


def _written(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder, the newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [folder / name for name in names if name.endswith(suffix) and not name.startswith(".")]
    return sorted(found, key=_time, reverse=True)


def _time(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
