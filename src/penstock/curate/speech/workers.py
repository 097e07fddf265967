"""Measures shards in parallel, by processes. What an earlier run has measured, even a killed one, is not read again.

Processes, because reading headers, JSON and short arrays holds the GIL. They are spawned, so that no thread, client or
lock of the caller is inherited, and they end with their parent, however it ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from penstock.curate.speech.measure import measure_shard
from penstock.curate.speech.measured import MeasuredFolder
from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.store.blob import Store

MeasureProgress = Callable[[int, int, int], None]
"""Called with shards done, shards in all, and bytes of the shards done."""

Version = str


def all_cores() -> int:
    return len(os.sched_getaffinity(0))


def measure_all(
    store: Store,
    paths: Sequence[str],
    folder: MeasuredFolder,
    workers: int,
    progress: MeasureProgress | None,
    problems: Problems,
) -> dict[str, Version]:
    """Measure every shard into ``folder``. Failures are added to ``problems``.

    Returns:
        The version of each shard that was measured.
    """
    versions: dict[str, Version] = {}
    total = 0
    for done, (path, ready) in enumerate(_in_order(store, paths, folder, workers), 1):
        try:
            versions[path], size = ready()
            total += size
        except ContentError as error:
            problems.add("broken shard", error.where, error.reason)
        except BrokenProcessPool:
            reason = "a process that measured this or one of the next shards was killed (out of memory?); run it again"
            problems.add("lost process", path, reason)
            break  # the others ended with it
        except (OSError, EOFError) as error:
            problems.add("unreadable shard", path, str(error))
        if progress:
            progress(done, len(paths), total)
    return versions


def measure_one(store: Store, path: str, folder: MeasuredFolder) -> tuple[Version, int]:
    """Measure one shard unless its table is in the folder. Returns the shard's version and size."""
    blob = store.open(path)
    try:
        if folder.load(path, blob.version) is None:
            folder.save(measure_shard(blob, path))
        return blob.version, blob.size
    finally:
        blob.close()


def _in_order(
    store: Store, paths: Sequence[str], folder: MeasuredFolder, workers: int
) -> Iterator[tuple[str, Callable[[], tuple[Version, int]]]]:
    workers = min(workers, len(paths))
    if workers <= 1:
        for path in paths:
            yield path, lambda path=path: measure_one(store, path, folder)  # type: ignore[misc]
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        futures: list[Future[tuple[Version, int]]] = [pool.submit(measure_one, store, path, folder) for path in paths]
        for path, future in zip(paths, futures, strict=True):
            yield path, future.result
    finally:
        # An interrupted run does not wait for shards that are not started.
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends the pool
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
