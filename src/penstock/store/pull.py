"""Copies all objects under a URL into a folder: resumable, verified, several at a time. Knows nothing of caches."""

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.runtime.daemons import DaemonPool
from penstock.store.digests import digest, hash_in
from penstock.store.pulled import PulledFolder
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, Remote, StoreError
from penstock.store.remote.urls import local_path

PIECE_BYTES = 8 << 20
CONCURRENT_FILES = 8


@dataclass(frozen=True, slots=True)
class PullProgress:
    """Progress of a pull; files that were there already count as done.

    ``unverified``, set at the end, is the number of files for which the store has no checksum.
    """

    files_done: int
    files: int
    bytes_done: int
    bytes: int
    unverified: int = 0


def pull(
    url: str,
    folder: str | os.PathLike[str],
    progress: Callable[[PullProgress], None] = lambda _: None,
    options: StoreOptions | None = None,
) -> PullProgress:
    """Copy every object under ``url`` into ``folder``. Call it again to resume an interrupted pull.

    Args:
        url: Prefix of a bucket, or a folder.
        folder: Target folder, created if it does not exist.
        progress: Function called from several threads, one at a time.
        options: Options of the store.

    Raises:
        ObjectMissing: If there are no objects under the URL.
        StoreError: If an object cannot be a file here, or its bytes do not match the store's checksum.
        OSError: If the disk has not enough space.
        RuntimeError: If another pull into the folder is running.
        ValueError: If the URL is the folder itself.
    """
    source = local_path(url)
    if source is not None and source.resolve() == Path(folder).resolve():
        raise ValueError(f"{source} cannot be pulled into itself: name another folder for the copy")
    remote = open_remote(url, options)
    objects = dict(remote.list())
    if not objects:
        raise ObjectMissing(f"{remote.url}: no objects there; expected the URL of a folder")
    here = PulledFolder(Path(folder))
    try:
        check_names(remote, here, objects)
        check_disk_space(here, objects)
        return Pull(remote, here, objects, progress).run()
    finally:
        here.close()


def check_names(remote: Remote, here: PulledFolder, objects: dict[str, ObjectInfo]) -> None:
    """Raise an error for keys that cannot be file names, before anything is downloaded."""
    for key in objects:
        here.place(key)
        parts = key.split("/")
        for parent in ("/".join(parts[:end]) for end in range(1, len(parts))):
            if parent in objects:
                raise StoreError(f"{remote.url}: {parent!r} cannot be both a file and the folder of {key!r}")


def check_disk_space(here: PulledFolder, objects: dict[str, ObjectInfo]) -> None:
    """Raise OSError if the disk has not enough space for what is missing."""
    needed = sum(info.size for key, info in objects.items() if not here.has(key, info))
    free = shutil.disk_usage(here.root).free
    if needed > free:
        raise OSError(f"{here.root}: the pull needs {needed:,} bytes, but only {free:,} are free")


class Pull:
    """A running pull with several threads."""

    def __init__(
        self,
        remote: Remote,
        here: PulledFolder,
        objects: dict[str, ObjectInfo],
        progress: Callable[[PullProgress], None],
    ) -> None:
        self._remote = remote
        self._here = here
        self._objects = objects
        self._report = progress
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._files_done = 0
        self._bytes_done = 0
        self._bytes = sum(info.size for info in objects.values())
        self._wrong: dict[str, str] = {}
        # ETags of encrypted buckets look like an MD5 but are not. A file that differs from its ETag is damaged only if
        # another file matches its own. That may be known late, so until the end such files are doubtful.
        self._md5_agreed = False
        self._doubtful: dict[str, ObjectInfo] = {}

    def run(self) -> PullProgress:
        self._count(0, 0)
        with DaemonPool(CONCURRENT_FILES, "pull") as threads:
            tasks = [threads.submit(self._one, key, info) for key, info in self._objects.items()]
            try:
                finished, _ = wait(tasks, return_when=FIRST_EXCEPTION)
            finally:
                self._stop.set()
                for task in tasks:
                    task.cancel()
        for task in finished:
            task.result()
        unverified = self._settle_doubts()
        self._here.sweep()
        return replace(self._count(0, 0), unverified=unverified)

    def _one(self, key: str, info: ObjectInfo) -> None:
        if self._already_there(key, info):
            self._count(1, info.size)
            return
        while not self._stop.is_set():
            self._download(key, info)
            if self._stop.is_set() or self._right(key, info):
                break
        if not self._stop.is_set() and key not in self._doubtful:
            self._here.finish(key, info)
            self._count(1, 0)

    def _settle_doubts(self) -> int:
        """Accept doubtful files if the store's ETags are not MD5s. Returns the number of unverifiable files."""
        by_md5 = {key: info for key, info in self._objects.items() if hash_in(info.etag) == "md5"}
        is_one = self._md5_agreed or self._agrees({key: by_md5[key] for key in by_md5.keys() - self._doubtful.keys()})
        for key, info in self._doubtful.items():
            if is_one:
                self._here.piece(key, info).unlink()
                raise StoreError(
                    f"{self._remote.url}/{key}: its bytes do not match the store's md5 {info.etag}, while other "
                    "objects match theirs; the connection or the store corrupts data: pull again"
                )
            self._here.finish(key, info)
            self._count(1, 0)
        return sum(not hash_in(info.etag) for info in self._objects.values()) + (0 if is_one else len(by_md5))

    def _agrees(self, pulled: dict[str, ObjectInfo]) -> bool:
        """Return whether the smallest file of an earlier pull matches the store's MD5."""
        if not pulled:
            return False
        key = min(pulled, key=lambda key: pulled[key].size)
        return digest(self._here.place(key), "md5") == pulled[key].etag

    def _already_there(self, key: str, info: ObjectInfo) -> bool:
        if self._here.has(key, info):
            return True
        place = self._here.place(key)
        kind = hash_in(info.etag)
        if place.is_dir():
            raise StoreError(
                f"{self._remote.url}/{key}: {place} is a folder, so the object cannot be stored there as a file"
            )
        same = bool(kind) and place.is_file() and place.stat().st_size == info.size
        if same and digest(place, kind) == info.etag:
            self._md5_agreed |= kind == "md5"
            self._here.note(key, info, place)
            return True
        return False

    def _download(self, key: str, info: ObjectInfo) -> None:
        """Append the missing bytes to the piece. Its length is its progress, also after a killed pull."""
        with self._here.piece(key, info).open("ab") as piece:
            start = piece.tell()
            self._count(0, start)
            while start < info.size and not self._stop.is_set():
                end = min(start + PIECE_BYTES, info.size)
                data = self._remote.get_range(key, start, end, info.etag)
                if self._stop.is_set():  # after an interrupt the folder may belong to another pull
                    return
                piece.write(data)
                self._count(0, end - start)
                start = end

    def _right(self, key: str, info: ObjectInfo) -> bool:
        """Return whether the piece is accepted. A wrong piece is removed, to be fetched once more."""
        piece = self._here.piece(key, info)
        kind = hash_in(info.etag)
        if not kind:
            return True
        found = digest(piece, kind)
        if found == info.etag:
            self._md5_agreed |= kind == "md5"
            return True
        before = self._wrong.get(key)
        self._wrong[key] = found
        if kind == "md5" and not self._md5_agreed and (self._doubtful or before == found):
            self._doubtful[key] = info  # the same bytes twice, or another object is doubtful already
            return True
        piece.unlink()
        self._count(0, -info.size)
        if before:
            raise StoreError(
                f"{self._remote.url}/{key}: downloaded twice, and its bytes never matched the store's {kind} "
                f"{info.etag}; the connection or the store corrupts data"
            )
        return False

    def _count(self, files: int, size: int) -> PullProgress:
        with self._lock:
            self._files_done += files
            self._bytes_done += size
            now = PullProgress(self._files_done, len(self._objects), self._bytes_done, self._bytes)
            self._report(now)
            return now
