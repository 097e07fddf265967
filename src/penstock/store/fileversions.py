"""Versions of local files that identify their cached metadata between runs.

A file system gives the inode of a removed file to the next one, and copies keep the time of modification. The time of
the inode's change (ctime) can't be set. Where only that differs, as after ``chmod``, a digest of the content decides:

    ino-size-mtime  ctime        digest    version
    known           the same     -         as noted
    known           another      the same  as noted; the new ctime is noted
    known           another      another   ino-size-mtime-ctime
    not known       any          -         ino-size-mtime-ctime

Notes are lines that are appended to one file per store. A line that was cut by a killed process is ignored.
"""

import hashlib
import json
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from penstock.runtime.forking import reset_in_children
from penstock.runtime.owned import share_like_folder

log = logging.getLogger("penstock.index")


class LocalFile(Protocol):
    """Required properties of an open file; see ``LocalBlob``."""

    @property
    def version(self) -> str: ...

    @property
    def stamp(self) -> str:
        """The version with the ctime."""
        ...

    def digest(self) -> str | None:
        """Return a digest of all bytes; None if the file changed meanwhile."""
        ...


class _Note(NamedTuple):
    stamp: str
    digest: str
    version: str


class FileVersions:
    """Versions of the files of a folder. Safe for any number of threads and processes.

    Args:
        folder: Folder of the notes. If None, each new ctime is a new version.
        store: ``identity`` of the files' store.
    """

    def __init__(self, folder: Path | None, store: str) -> None:
        self._folder = folder
        self._store = store
        self._seen: dict[tuple[str, str], str] = {}  # versions, by path and version of the run
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[tuple[str, str], _Note] | None = None
        self._said = False

    def __reduce__(self) -> tuple[type["FileVersions"], tuple[Path | None, str]]:
        return FileVersions, (self._folder, self._store)

    def get(self, path: str, file: LocalFile) -> str:
        """Return the version of a file. Within a process it changes only with ``file.version``."""
        key = (path, file.version)
        found = self._seen.get(key)
        if found is None:
            with self._lock:
                found = self._seen.get(key)
                if found is None:
                    found = self._seen[key] = self._find(key, file)
        return found

    def keep(self, path: str, file: LocalFile) -> None:
        """Store a digest of a fully indexed file, so that a new ctime alone does not change its version."""
        key = (path, file.version)
        version = self.get(path, file)
        with self._lock:
            if self._folder is None or key in self._read() or version != file.stamp:
                return
            digest = file.digest()
            if digest is not None:
                self._append(key, _Note(file.stamp, digest, version))

    def _find(self, key: tuple[str, str], file: LocalFile) -> str:
        note = self._read().get(key)
        if note is None:
            return file.stamp
        if note.stamp != file.stamp:
            if not self._said:
                self._said = True
                log.warning(
                    "%s in %s has changed since it was indexed, perhaps only its permissions or links; the content of "
                    "such files is compared with a digest",
                    *(key[0], self._store),
                )
            digest = file.digest()
            if digest is None:
                return file.stamp
            version = note.version if digest == note.digest else file.stamp
            note = _Note(file.stamp, digest, version)
            self._append(key, note)
        return note.version

    def _path(self, folder: Path) -> Path:
        return folder / f"{hashlib.sha256(self._store.encode(errors='surrogateescape')).hexdigest()[:32]}.versions"

    def _read(self) -> dict[tuple[str, str], _Note]:
        if self._notes is None:
            self._notes = {}
            lines: list[bytes] = []
            if self._folder is not None:
                with suppress(OSError):
                    lines = self._path(self._folder).read_bytes().splitlines()
            for line in lines:
                with suppress(ValueError, TypeError):
                    path, version, *note = json.loads(line)
                    self._notes[path, version] = _Note(*note)
        return self._notes

    def _append(self, key: tuple[str, str], note: _Note) -> None:
        assert self._folder is not None
        self._read()[key] = note
        path = self._path(self._folder)
        with suppress(OSError):  # on a full disk the file is learnt again
            new = not path.exists()
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                # Begins with a line break: the line before it may have been cut.
                os.write(descriptor, f"\n{json.dumps([*key, *note])}\n".encode())
            finally:
                os.close(descriptor)
            if new:
                share_like_folder(path)
