"""Measures shards in parallel, by processes. What an earlier run has measured, even a killed one, is not read again.

Processes, because reading headers, JSON and short arrays holds the GIL.
"""

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

from penstock.curate.speech.measure import measure_shard
from penstock.curate.speech.measured import MeasuredFolder
from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.runtime.processpool import process_pool
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
    with closing(_in_order(store, paths, folder, workers)) as run:
        for done, (path, ready) in enumerate(run, 1):
            try:
                versions[path], size = ready()
                total += size
            except ContentError as error:
                problems.add("broken shard", error.where, error.reason)
            except BrokenProcessPool:
                reason = (
                    "a process that measured this or one of the next shards was killed (out of memory?); run it again"
                )
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
        if folder.load_of(path, blob) is None:
            folder.save(measure_shard(blob, path), blob)
        return blob.version, blob.size
    finally:
        blob.close()


def _in_order(
    store: Store, paths: Sequence[str], folder: MeasuredFolder, workers: int
) -> Generator[tuple[str, Callable[[], tuple[Version, int]]], None, None]:
    workers = min(workers, len(paths))
    if workers <= 1:
        for path in paths:
            yield path, lambda path=path: measure_one(store, path, folder)  # type: ignore[misc]
        return
    with process_pool(workers) as pool:
        futures: list[Future[tuple[Version, int]]] = [pool.submit(measure_one, store, path, folder) for path in paths]
        for path, future in zip(paths, futures, strict=True):
            yield path, future.result
