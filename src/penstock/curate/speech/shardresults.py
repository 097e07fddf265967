"""One result per shard, made by an engine and kept in a folder. Knows nothing of what the results are.

What an earlier run has made, even a killed one, or another job, is not made again.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.manifest.errors import Problems
from penstock.readers.tar.index import SHARD_ERRORS, shard_problem
from penstock.runtime.engines.engine import Engine, ThreadEngine
from penstock.store.blob import Blob, Store

_OPEN_AT_ONCE = 8  # shards that are compared with their results

Version = str
ShardProgress = Callable[[int, int, int], None]
"""Called with shards done, shards in all, and bytes of the shards done."""


class ShardResult(NamedTuple):
    """What was made of a shard.

    Attributes:
        version: Version of the shard, as the folder of results knows it.
        size: Size of the shard.
        content: Result.
    """

    version: Version
    size: int
    content: bytes


class ResultFolder(Protocol):
    """A folder of results, into which several processes and machines may write at once."""

    @property
    def is_empty(self) -> bool: ...

    def find(self, shard: str, blob: Blob) -> Version | None:
        """Return the version of an open shard; None if its result is not in the folder, or damaged."""
        ...

    def keep(self, shard: str, version: Version, content: bytes) -> None:
        """Keep the result of a version of a shard."""
        ...


@dataclass(frozen=True)
class _FindResult:
    """Finds the version and the size of a shard whose result is in the folder."""

    store: Store
    folder: ResultFolder

    def __call__(self, path: str) -> tuple[Version, int] | None:
        try:
            with closing(self.store.open(path)) as blob:
                version = self.folder.find(path, blob)
                return None if version is None else (version, blob.size)
        except (OSError, EOFError):  # raised again where it is read
            return None


def make_missing(
    store: Store,
    paths: Sequence[str],
    folder: ResultFolder,
    work: Callable[[str], ShardResult],
    engine: Engine,
    progress: ShardProgress | None,
    problems: Problems,
) -> dict[str, Version]:
    """Make every result that is not in ``folder``, and keep it there.

    Args:
        store: Store of the shards.
        paths: Paths of the shards.
        folder: Folder of the results. Workers of the engine do not need it.
        work: Function of the path of a shard.
        engine: Engine that maps ``work``.
        progress: Function to call after each shard.
        problems: Problems, to which failures are added in the order of the shards.

    Returns:
        Version of each shard that has a result, in the order of the shards.
    """
    found = _found(store, paths, folder)
    versions = {path: version for path, (version, _) in found.items()}
    total = sum(size for _, size in found.values())
    failed: dict[str, tuple[str, str, str]] = {}
    todo = [path for path in paths if path not in found]
    if found and progress:
        progress(len(found), len(paths), total)
    if not todo:  # do not connect to a cluster
        return {path: versions[path] for path in paths}
    with closing(engine.map(work, todo)) as outcomes:
        for done, outcome in enumerate(outcomes, len(found) + 1):
            try:
                made = outcome.get()
            except SHARD_ERRORS as error:
                failed[outcome.task] = shard_problem(outcome.task, error)
            else:
                folder.keep(outcome.task, made.version, made.content)
                versions[outcome.task] = made.version
                total += made.size
            if progress:
                progress(done, len(paths), total)
    for path in paths:
        if path in failed:
            problems.add(*failed[path])
    return {path: versions[path] for path in paths if path in versions}


def _found(store: Store, paths: Sequence[str], folder: ResultFolder) -> dict[str, tuple[Version, int]]:
    """Return version and size of the shards whose results are in the folder."""
    if folder.is_empty:
        return {}
    found = {each.task: each.get() for each in ThreadEngine(_OPEN_AT_ONCE).map(_FindResult(store, folder), paths)}
    return {path: each for path, each in found.items() if each is not None}
