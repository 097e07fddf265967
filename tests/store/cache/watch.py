"""What a cache folder held at every instant, as the kernel tells it (inotify). Asks nothing of the code under test."""

import ctypes
import os
import struct
import threading
from collections import Counter
from pathlib import Path

IN_MOVED_TO, IN_DELETE, IN_Q_OVERFLOW = 0x80, 0x200, 0x4000
_EVENT = struct.Struct("iIII")


class Watch:
    """All that entered and left one folder, in order. The folder is kept from being removed while it is watched."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kept").touch()
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        if libc.inotify_add_watch(self._fd, os.fsencode(folder), IN_MOVED_TO | IN_DELETE) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))
        self._folder = folder
        self._history: list[tuple[bool, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def history(self) -> list[tuple[bool, str]]:
        """(entered or left, name) of every entry so far. Ends the watch."""
        os.replace(self._folder / "kept", self._folder / "end")
        self._reader.join()
        os.close(self._fd)
        return self._history

    def _read(self) -> None:
        while True:
            events, at = os.read(self._fd, 1 << 16), 0
            while at < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, at)
                name = os.fsdecode(events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
                at += _EVENT.size + length
                if mask & IN_Q_OVERFLOW:
                    raise OverflowError("inotify lost events")
                if name == "end":
                    return
                if name.endswith(".data"):
                    self._history.append((bool(mask & IN_MOVED_TO), name.removesuffix(".data")))


def most_held(history: list[tuple[bool, str]], sizes: dict[str, int]) -> int:
    """The largest sum of sizes that was ever there at once. ``sizes`` are those of objects and pieces; a range's is its
    own."""
    held = 0
    most = 0
    for entered, name in history:
        key, (start, end) = entry(name)
        size = end - start if end else sizes[key]
        held += size if entered else -size
        most = max(most, held)
    return most


def stays(history: list[tuple[bool, str]]) -> Counter[tuple[str, tuple[int, int]]]:
    """How many times each object or range entered."""
    return Counter(entry(name) for entered, name in history if entered)


def entry(name: str) -> tuple[str, tuple[int, int]]:
    """The key and the range of an entry, (0, 0) for the whole, from the name of its file."""
    key, _, tag = name.partition("~")
    _, _, within = tag.partition("@")
    start, _, end = within.partition("-")
    return key, (int(start or 0), int(end or 0))
