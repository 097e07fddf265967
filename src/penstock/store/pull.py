"""Copies all objects under a URL into a folder: resumable, verified, several at a time. Knows nothing of caches."""

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.store.digests import digest, hash_in
from penstock.store.pulled import PulledFolder
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, ObjectMissing, Remote, StoreError
from penstock.store.remote.urls import open_remote

PIECE_BYTES = 8 << 20
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull has come; what was there already counts as done.

    ``unverified`` is known at the end: the files whose bytes could be compared with no checksum of the store's.
    """

    files_done: int
    files: int
    bytes_done: int
    bytes: int
    unverified: int = 0


def pull(
    url: str,
    folder: str | os.PathLike[str],
    progress: Callable[[Progress], None] = lambda _: None,
    options: StoreOptions | None = None,
) -> Progress:
    """Have every object under ``url`` as a file in ``folder``. An interrupted pull goes on when it is called again."""
    remote = open_remote(url, options)
    objects = dict(remote.list())
    if not objects:
        raise ObjectMissing(f"{remote.url}: no objects there; the URL of a folder is expected")
    here = PulledFolder(Path(folder))
    try:
        check_names(remote, here, objects)
        check_room(here, objects)
        return Pull(remote, here, objects, progress).run()
    finally:
        here.close()


def check_names(remote: Remote, here: PulledFolder, objects: dict[str, ObjectInfo]) -> None:
    """Refuse what cannot be files before anything is downloaded."""
    for key in objects:
        here.place(key)
        parts = key.split("/")
        for parent in ("/".join(parts[:end]) for end in range(1, len(parts))):
            if parent in objects:
                raise StoreError(f"{remote.url}: {parent!r} and {key!r} cannot be a file and a folder of one name")


def check_room(here: PulledFolder, objects: dict[str, ObjectInfo]) -> None:
    needed = sum(info.size for key, info in objects.items() if not here.has(key, info))
    free = shutil.disk_usage(here.root).free
    if needed > free:
        raise OSError(f"{here.root}: {needed / 1e9:.1f} GB are to come, but only {free / 1e9:.1f} GB are free there")


class Pull:
    """One pull under way, by several threads."""

    def __init__(
        self, remote: Remote, here: PulledFolder, objects: dict[str, ObjectInfo], progress: Callable[[Progress], None]
    ) -> None:
        self._remote = remote
        self._here = here
        self._objects = objects
        self._tell = progress
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._files_done = 0
        self._bytes_done = 0
        self._bytes = sum(info.size for info in objects.values())
        self._wrong: dict[str, str] = {}
        # Encrypted buckets have ETags that only look like an MD5. So a file that differs from its own is damaged if
        # another one agrees with its own, which may come later: until all have come, such files are in doubt.
        self._md5_agreed = False
        self._doubtful: dict[str, ObjectInfo] = {}

    def run(self) -> Progress:
        self._count(0, 0)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pull") as threads:
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
        """Put what is in doubt in its place if no MD5 of this store is one; how many files could not be verified."""
        by_md5 = {key: info for key, info in self._objects.items() if hash_in(info.etag) == "md5"}
        is_one = self._md5_agreed or self._agrees({key: by_md5[key] for key in by_md5.keys() - self._doubtful.keys()})
        for key, info in self._doubtful.items():
            if is_one:
                self._here.piece(key, info).unlink()
                raise StoreError(
                    f"{self._remote.url}/{key}: its bytes have not the md5 {info.etag} that the store names, as those "
                    "of other objects have; the connection or the store corrupts data: pull again"
                )
            self._here.finish(key, info)
            self._count(1, 0)
        return sum(not hash_in(info.etag) for info in self._objects.values()) + (0 if is_one else len(by_md5))

    def _agrees(self, pulled: dict[str, ObjectInfo]) -> bool:
        """Whether a file that an earlier pull left here, the smallest, has the MD5 that the store names."""
        if not pulled:
            return False
        key = min(pulled, key=lambda key: pulled[key].size)
        return digest(self._here.place(key), "md5") == pulled[key].etag

    def _already_there(self, key: str, info: ObjectInfo) -> bool:
        if self._here.has(key, info):
            return True
        place, kind = self._here.place(key), hash_in(info.etag)
        if place.is_dir():
            raise StoreError(
                f"{self._remote.url}/{key}: {place} is a folder, and the object's file cannot be there too"
            )
        same = bool(kind) and place.is_file() and place.stat().st_size == info.size
        if same and digest(place, kind) == info.etag:
            self._md5_agreed |= kind == "md5"
            self._here.note(key, info, place)
            return True
        return False

    def _download(self, key: str, info: ObjectInfo) -> None:
        """Add to the piece what it lacks. Its length is its progress: a killed pull leaves whole first bytes."""
        with self._here.piece(key, info).open("ab") as piece:
            start = piece.tell()
            self._count(0, start)
            while start < info.size and not self._stop.is_set():
                end = min(start + PIECE_BYTES, info.size)
                piece.write(self._remote.get_range(key, start, end, info.etag))
                self._count(0, end - start)
                start = end

    def _right(self, key: str, info: ObjectInfo) -> bool:
        """Whether the piece's bytes may be the object's. A wrong piece is removed, to be fetched once more."""
        piece, kind = self._here.piece(key, info), hash_in(info.etag)
        if not kind:
            return True
        found = digest(piece, kind)
        if found == info.etag:
            self._md5_agreed |= kind == "md5"
            return True
        before, self._wrong[key] = self._wrong.get(key), found
        if kind == "md5" and not self._md5_agreed and (self._doubtful or before == found):
            self._doubtful[key] = info  # twice the same bytes, or another object has shown already that it may be so
            return True
        piece.unlink()
        self._count(0, -info.size)
        if before:
            raise StoreError(
                f"{self._remote.url}/{key}: downloaded twice, and both times its bytes had not the {kind} {info.etag} "
                "that the store names; the connection or the store corrupts data"
            )
        return False

    def _count(self, files: int, size: int) -> Progress:
        with self._lock:
            self._files_done += files
            self._bytes_done += size
            now = Progress(self._files_done, len(self._objects), self._bytes_done, self._bytes)
            self._tell(now)
            return now
