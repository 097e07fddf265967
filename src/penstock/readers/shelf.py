"""The shelf, the folder of stored indexes: removes what no run uses any more, and bounds its size. Safe while jobs run.

What is removed is made again when it is needed. A file counts as used when it is written or read; file systems note
reads at most once a day.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.readers.metadatacache import stored_subject
from penstock.readers.records.keptitems import kept_name
from penstock.readers.records.tablefolder import newest_table, noted_store
from penstock.store.local import LocalStore, run_version

_DAY_SECONDS = 86_400
UNUSED_SECONDS = 30 * _DAY_SECONDS
_BOUNDED = ".bounded"  # its time is that of the last look at the bound
_LEFT_BEHIND = (".lock", ".segments", ".partial")  # endings of hidden files that are useless after a day
_ANY_STORE = ("tokenizer", "packs")  # subjects that are no object of a store
_LOCAL_VERSION = re.compile(r"\d+-\d+-\d+-\d+")


class ShelfFile(NamedTuple):
    """A file of the shelf, its size in bytes, and when it was last used."""

    path: Path
    size: int
    used: float


def clean(shelf: Path, progress: Callable[[int, int], None] = lambda *_: None) -> int:
    """Remove indexes of local files that have changed or are gone, and all that was not used for 30 days.

    Args:
        shelf: Folder of stored indexes.
        progress: Called with the number of files looked at, and of all.

    Returns:
        Bytes removed.
    """
    found = list(_files(shelf))
    before = time.time() - UNUSED_SECONDS
    removed = 0
    for number, each in enumerate(found):
        if each.used < before or _is_left_behind(each) or _is_stale(each.path):
            removed += _remove(each)
        progress(number + 1, len(found))
    for folder in (shelf / "tables").glob("*/"):
        if not any(path.suffix in (".table", ".part") for path in folder.iterdir()):
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
            with suppress(OSError):  # a table was written meanwhile
                folder.rmdir()
    return removed


def bound(shelf: Path, max_bytes: int) -> int:
    """Remove what was not used for longest if the shelf is too large; looks once a day. What was used today stays.

    Args:
        shelf: Folder of stored indexes.
        max_bytes: Maximum size in bytes.

    Returns:
        Bytes removed.
    """
    note = shelf / _BOUNDED
    now = time.time()
    with suppress(OSError):
        if now - note.stat().st_mtime < _DAY_SECONDS:
            return 0
    try:
        note.touch()
    except OSError:  # there is no shelf yet, or it is read-only
        return 0
    found = sorted(_files(shelf), key=lambda each: each.used)
    surplus = sum(each.size for each in found) - max_bytes
    removed = 0
    for each in found:
        if removed >= surplus or now - each.used < _DAY_SECONDS:
            break
        removed += _remove(each)
    return removed


def shelf_files(shelf: Path, stores: Collection[str]) -> Iterator[Path]:
    """Yield the files that hold what is known of the data of some stores, and of any tokenizer.

    Args:
        shelf: Folder of stored indexes.
        stores: Identities of the stores.
    """
    for path in sorted(shelf.glob("*.learnt")):
        subject = stored_subject(path)
        if subject is None or subject[1].store not in (*stores, *_ANY_STORE) or _is_stale(path):
            continue
        yield path
        name = kept_name(*subject)
        if name is not None and (shelf / name).exists():
            yield shelf / name
    for folder in sorted((shelf / "tables").glob("*/")):
        table = newest_table(folder).path if noted_store(folder) in stores else None
        if table is not None:
            yield table


def _files(shelf: Path) -> Iterator[ShelfFile]:
    for folder in (shelf, *(shelf / "tables").glob("*/")):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    if entry.is_file(follow_symlinks=False) and entry.name != _BOUNDED:
                        status = entry.stat(follow_symlinks=False)
                        used = max(status.st_atime, status.st_mtime)
                        yield ShelfFile(Path(entry.path), status.st_size, used)


def _is_left_behind(file: ShelfFile) -> bool:
    """Return whether a file is an old lock, or was being written by a process that was killed."""
    hidden = file.path.name.startswith(".") and file.path.name.endswith(_LEFT_BEHIND)
    return hidden and file.used < time.time() - _DAY_SECONDS


def _is_stale(path: Path) -> bool:
    """Return whether a file holds metadata of a local file that has changed or is gone."""
    if path.suffix != ".learnt":
        return False
    subject = stored_subject(path)
    if subject is None:
        return True
    version = subject[1]
    # A store that is not mounted may come back.
    if not _LOCAL_VERSION.fullmatch(version.version) or not os.path.isdir(version.store):
        return False
    try:
        [(stamp, _)] = LocalStore(version.store).stamps([version.path])
    except FileNotFoundError:
        return True
    return run_version(stamp) != run_version(version.version)  # a new ctime alone changes no content


def _remove(file: ShelfFile) -> int:
    """Remove a file, and what belongs to it. Returns its size in bytes."""
    removed = file.size
    if file.path.suffix == ".learnt":
        subject = stored_subject(file.path)
        name = None if subject is None else kept_name(*subject)
        if name is not None:
            with suppress(OSError):
                removed += (file.path.parent / name).stat().st_size
                (file.path.parent / name).unlink()
    file.path.unlink(missing_ok=True)
    return removed
