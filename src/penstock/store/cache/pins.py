"""What this process has pinned in a node cache: one entry per object, shared by its users. Knows paths, not keys."""

import contextlib
import threading
from functools import partial
from pathlib import Path

from penstock.store.cache.admission import Admission
from penstock.store.cache.parts import Entry, pin, seal
from penstock.store.cache.sealer import Sealer


class Pins:
    """Entries by path, with a refcount: the first user pins, the last one unpins."""

    def __init__(self, admission: Admission, part_bytes: int) -> None:
        self._admission = admission
        self._part_bytes = part_bytes
        self._sealer = Sealer()
        self.reset()

    def reset(self) -> None:
        """Start without pins, also in a forked child, whose inherited descriptors are closed."""
        self._lock = threading.RLock()  # reentrant: a finalizer may close a blob while this thread has it
        self._entries: dict[Path, Entry] = {}
        self._sealer.reset()

    def enter(self, path: Path, size: int, patience: float) -> Entry:
        """Pin an object. If it is not in the cache, its size is reserved."""
        with self._lock:
            if entry := self._entries.get(path):
                entry.users += 1
                return entry
        new = pin(path, size, self._part_bytes) or self._admission.enter(path, size, patience)
        return self._share(new)

    def enter_if_complete(self, path: Path) -> Entry | None:
        """Pin an object if it is in the cache and complete, whatever its size. Reserves nothing."""
        with self._lock:
            if entry := self._entries.get(path):
                if entry.complete:
                    entry.users += 1
                    return entry
                return None
        try:
            new = pin(path, path.stat().st_size, self._part_bytes)
        except FileNotFoundError:
            return None
        if new is None or not new.complete:
            if new is not None:
                new.close()
            return None
        return self._share(new)

    def _share(self, new: Entry) -> Entry:
        """Give all users of this process one entry: the first one's."""
        new.make_space = self._admission.make_space
        new.touch()
        path = new.path
        with self._lock:
            entry = self._entries.setdefault(path, new)
            if entry is not new:
                entry.users += 1
        if entry is not new:
            new.close()  # without the lock: closing takes another one, which a finalizer may take the other way round
            return entry
        if entry.complete and not entry.sealed:  # the process that completed it died before it was synced
            self.seal(entry)
        return entry

    def leave(self, entry: Entry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.users or entry.data.fd < 0:
                return
            del self._entries[entry.path]
        # The time of the last use, set after all writes.
        with contextlib.suppress(OSError):
            entry.touch()
        entry.close()

    def seal(self, entry: Entry) -> None:
        """Sync the object to disk in the background. Only a reboot needs it there.

        Until then nothing of it is kept open: an object that is evicted meanwhile leaves the disk at once.
        """
        self._sealer.add(partial(seal, entry.path, entry.size, entry.part_bytes))

    def close(self) -> None:
        """Sync now what is still waiting for it."""
        self._sealer.close()
