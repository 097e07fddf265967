"""Listings of datasets on the hub at one commit, requested once per job or node. Knows nothing of reading files.

A commit never changes, so its listing is kept on disk: a job's other processes, and its next start, find it there.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from penstock.runtime import ranks
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.job import once_per_job
from penstock.store.cache.account import CONTROL
from penstock.store.remote.remote import ObjectInfo
from penstock.store.remote.web import Answer


def list_once(url: str, prefix: str, get: Callable[[str], Answer]) -> dict[str, ObjectInfo]:
    """Return the files below a folder, sorted by key.

    Args:
        url: URL of the folder's tree at a commit.
        prefix: Folder, which is removed from keys.
        get: Function that sends one request.
    """
    folder = listings_folder()
    path = None if folder is None else folder / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
    rank, _ = ranks.current()
    if rank and path is not None and path.exists():
        return to_infos(json.loads(path.read_text()))
    # Rank 0 also shares a listing from its disk: another node may not have it.
    listed = once_per_job(url, lambda: _kept(path, lambda: json.dumps(list_pages(url, prefix, get)).encode()))
    return to_infos(json.loads(_kept(path, lambda: listed)))


def _kept(path: Path | None, make: Callable[[], bytes]) -> bytes:
    """Return a listing from this node's disk. If it is not there, make it and keep it."""
    if path is None:
        return make()
    with path.with_suffix(".lock").open("w") as lock:
        # A second process waits for the first one's listing instead of asking the hub again.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            write_atomically(path, [make()])
    return path.read_bytes()


def listings_folder() -> Path | None:
    """Return the user's cache folder; None if it is not writable, and every process must ask the hub."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "penstock" / CONTROL / "hub"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def to_infos(rows: list[tuple[str, int, str]]) -> dict[str, ObjectInfo]:
    return {key: ObjectInfo(size, etag) for key, size, etag in rows}


def list_pages(url: str, prefix: str, get: Callable[[str], Answer]) -> list[tuple[str, int, str]]:
    """Request all pages of the tree: key, size and a hash of the content."""
    rows = []
    while url:
        answer = get(url)
        for entry in json.loads(answer.body):
            if entry["type"] == "file":
                large = entry.get("lfs") or {}
                key = str(entry["path"]).removeprefix(prefix).lstrip("/")
                version = large.get("oid") or entry.get("oid") or entry["xetHash"]  # the last of a bucket
                rows.append((key, int(large.get("size", entry["size"])), str(version)))
        url = answer.next_page
    return sorted(rows)
