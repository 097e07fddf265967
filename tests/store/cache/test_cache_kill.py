"""``kill -9`` at every instant: a process dies before each single call that it makes to the system, in turn.

Whatever it was doing (entering, evicting, fetching, marking, leaving), the next one finds a cache that works, within
its bound, with right bytes, and with nothing to clean.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from tests.store.folder_remote import FolderRemote

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
SIZES = {"a": 2_500, "b": 2_500, "c": 3_000}
BOUND = 6_000
REACHES_FILES = {"posix", "fcntl", "io", "_io"}


def die_before_call(number: int) -> Callable[[FrameType, str, object], None]:
    """A profiler that kills the process when it is about to make its n-th call that may reach a file or a lock."""
    left = number

    def at_event(frame: FrameType, event: str, called: object) -> None:
        nonlocal left
        owner = getattr(called, "__self__", None)
        if event == "c_call" and {getattr(called, "__module__", ""), type(owner).__module__} & REACHES_FILES:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return at_event


def store_of(folder: Path, remote: FolderRemote) -> CachedStore:
    known = {key: remote.info(key) for key in SIZES}
    return CachedStore(remote, NodeCache(folder, BOUND, part_bytes=1_000, concurrency=1, patience=0), known)


def read(store: CachedStore, key: str, start: int, end: int) -> bytes:
    blob = store.open(key)
    buffer = bytearray(end - start)
    blob.readinto(memoryview(buffer), start)
    blob.close()
    return bytes(buffer)


def life(folder: Path, remote: FolderRemote) -> None:
    """Two objects fill the cache, partly fetched; the third evicts, and the first comes back."""
    store = store_of(folder, remote)
    read(store, "a", 0, 1_500)
    read(store, "b", 2_000, 2_500)
    read(store, "c", 500, 3_000)
    read(store, "a", 0, 2_500)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: hundreds of lives write out what they complete, slow on a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as made:
        yield Path(made)


def test_a_death_at_any_call_leaves_a_cache_that_works(tmp_path: Path, folder: Path) -> None:
    # In a process of its own: to fork one that has run other tests takes ten times as long.
    code = f"from {__name__} import die_at_every_call; die_at_every_call({str(tmp_path)!r}, {str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def die_at_every_call(bucket: str, cache: str) -> None:
    """Live again and again, each time one call longer, and look at the cache after each death."""
    folder = Path(cache)
    remote = FolderRemote(Path(bucket))
    data = {key: remote.put(key, os.urandom(size)) for key, size in SIZES.items()}
    survived, deaths = False, 0
    while not survived:
        child = os.fork()
        if child == 0:
            sys.setprofile(die_before_call(deaths))
            life(folder, remote)
            os._exit(0)
        survived = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        deaths += not survived
        store = store_of(folder, remote)
        before = maintenance.stat(store.cache)
        assert before.reserved <= BOUND and before.pinned == 0
        for key in data:
            assert read(store, key, 0, SIZES[key]) == data[key], f"after death {deaths}"
        store.cache.close()
        assert set(maintenance.verify(store.cache).bad) == set()
        if deaths % 2:  # every other life starts in an empty cache, the rest in a used one
            maintenance.clear(store.cache)
            assert not [path for path in folder.rglob("*") if path.is_file() and CONTROL not in path.parts]
        assert len(list((folder / CONTROL).rglob("*"))) < 12, "nothing piles up"
    assert deaths > 100
