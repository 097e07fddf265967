"""State of a pull in its folder: finished files and pieces of unfinished ones. Knows nothing of downloading.

The pull's own files are in one hidden folder. A line is added to ``done`` when a file is in its place. A line that was
cut by a killed process is ignored, and its file is checked or fetched again.
"""

import fcntl
import hashlib
import json
import os
from pathlib import Path

from penstock.store.local import within
from penstock.store.remote.remote import ObjectInfo

PULL_STATE = ".penstock-pull"


class PulledFolder:
    """The folder of one running pull; a second pull into it at the same time is refused."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._own = self.root / PULL_STATE
        self._own.mkdir(parents=True, exist_ok=True)
        self._lock = (self._own / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RuntimeError(
                f"another pull into {self.root} is running: wait for it, or choose another folder"
            ) from None
        self._done = self._read_done()

    def place(self, key: str) -> Path:
        """Return the path of an object's file.

        Raises:
            ValueError: If the key would leave the folder or cannot be a file name.
        """
        path = within(self.root, key)
        parts = key.split("/")
        if parts[0] == PULL_STATE or "" in parts or "." in parts:
            raise ValueError(
                f"object {key!r} cannot be a file in {self.root}: its name is reserved or has empty or '.' components"
            )
        if long := [part for part in parts if len(os.fsencode(part)) > 255]:
            raise ValueError(f"object {key!r}: {long[0][:40]!r}… is longer than the 255 bytes of a file name")
        return path

    def piece(self, key: str, info: ObjectInfo) -> Path:
        """Return the path of an unfinished file, which holds the first bytes of one version of an object."""
        name = hashlib.sha256(f"{key}\0{info.size}\0{info.etag}".encode()).hexdigest()[:40]
        return self._own / f"{name}.part"

    def has(self, key: str, info: ObjectInfo) -> bool:
        """Return whether this version of the object was pulled and its file not modified since."""
        try:
            stat = self.place(key).stat()
        except OSError:
            return False
        return stat.st_size == info.size and self._done.get(key) == (info.size, info.etag, stat.st_mtime_ns)

    def finish(self, key: str, info: ObjectInfo) -> None:
        """Move the complete piece to its place, atomically and synced, and note it."""
        piece = self.piece(key, info)
        place = self.place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with piece.open("rb") as file:
            os.fsync(file.fileno())
        self.note(key, info, piece)  # first: the note has no effect until the file is in its place
        piece.rename(place)

    def note(self, key: str, info: ObjectInfo, file: Path) -> None:
        mark = (info.size, info.etag, file.stat().st_mtime_ns)
        with (self._own / "done").open("a") as done:  # one write, so that lines of several threads do not mix
            done.write(json.dumps([key, *mark]) + "\n")
        self._done[key] = mark

    def sweep(self) -> None:
        """Remove pieces of versions that are no longer needed."""
        for piece in self._own.glob("*.part"):
            piece.unlink(missing_ok=True)

    def close(self) -> None:
        self._lock.close()

    def _read_done(self) -> dict[str, tuple[int, str, int]]:
        path = self._own / "done"
        found: dict[str, tuple[int, str, int]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                key, size, etag, modified = json.loads(line)
            except ValueError:
                continue
            found[key] = (size, etag, modified)
        return found
