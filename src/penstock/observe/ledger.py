"""The usage ledger: a line of JSON every so many steps, from every process of a run, into one file.

A line is one write to a file opened for appending, so lines of several processes never tear on a local disk.
"""

import json
import os
import socket
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
from penstock.readers.tar.manifest import Manifest

_WHO = ("time", "host", "pid", "rank", "world", "steps", "segments", "fingerprint")
_WHAT = ("samples", "sources", "shards", "bad", "stalls", "cache")
KEYS = frozenset((*_WHO, *_WHAT))
"""What every line has; ``ids`` where they were asked for."""


class Ledger:
    """Counts what a rank was handed and appends it to a log.

    Args:
        every: steps a line.
        ids: whether to write every item's ``shard:id``, too.
    """

    def __init__(self, feed: Feed, path: str | os.PathLike[str], *, every: int = 100, ids: bool = False) -> None:
        self._feed, self._path, self._every, self._ids = feed, Path(path), every, ids
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._begin(feed.cache_counts())

    def _begin(self, cache: dict[str, int]) -> None:
        self._pid = os.getpid()
        self._cache = cache  # counts are of the folder's whole life: a line tells what came since
        self._steps: list[int] = []
        self._rows: list[list[int]] = []
        self._bad: list[dict[str, Any]] = []
        self._stalls: list[float] = []

    def record(self, batch: dict[str, Any], stalled: float = 0.0) -> None:
        """Note a batch that was handed out, and how many seconds the trainer stood still for it."""
        self._forget_inherited()
        step = int(batch["step"])
        if self._steps and step != self._steps[-1] + 1:
            self.flush()  # a line is about consecutive steps
        self._steps.append(step)
        self._rows.append([int(row) for row in batch["rows"]])
        self._bad += [{"step": step, **asdict(bad)} for bad in batch["bad"]]
        self._stalls.append(round(stalled, 6))
        if len(self._steps) >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write what was recorded since the last line."""
        self._forget_inherited()
        if not self._steps:
            return
        cache = self._feed.cache_counts()
        line = json.dumps(self._line(cache), ensure_ascii=False).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._path}: a line was written in part; is the disk full?")
        finally:
            os.close(descriptor)
        self._begin(cache)

    def _forget_inherited(self) -> None:
        """A forked child has its parent's steps in memory; they are the parent's to tell."""
        if self._pid != os.getpid():
            self._begin(self._feed.cache_counts())

    def _line(self, cache: dict[str, int]) -> dict[str, Any]:
        feed, manifest = self._feed, self._feed.manifest
        rows = [row for step in self._rows for row in step if row >= 0]
        sources, shards = count_rows(manifest, rows)
        timeline = feed.timeline(feed.world)
        line = {
            "time": round(time.time(), 3),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "rank": feed.rank,
            "world": feed.world,
            "steps": [self._steps[0], self._steps[-1] + 1],
            "segments": [list(segment) for segment in timeline.segments],
            "fingerprint": feed.identity.fingerprint(timeline.batch(self._steps[-1] + 1)[0]),
            "samples": len(rows),
            "sources": dict(sources),
            "shards": dict(shards),
            "bad": self._bad,
            "stalls": self._stalls,  # seconds, a step
            "cache": {name: count - self._cache.get(name, 0) for name, count in cache.items()},
        }
        if self._ids:
            line["ids"] = [item_names(manifest, step) for step in self._rows]
        return line


def count_rows(manifest: Manifest, rows: list[int]) -> tuple[Counter[str], Counter[str]]:
    """Samples a source, and a shard."""
    sources = Counter(manifest.sources[i] for i in manifest.locate(rows)[0])
    return sources, Counter(manifest.shard(number).path for number in manifest.shard_of(rows))


def item_names(manifest: Manifest, rows: list[int]) -> list[str]:
    """``shard:id`` of each row, empty for padding."""
    real = np.array([row for row in rows if row >= 0], dtype=np.int64)
    shards = (manifest.shard(number).path for number in manifest.shard_of(real))
    names = (f"{shard}:{name}" for shard, name in zip(shards, manifest.ids(real), strict=True))
    return [next(names) if row >= 0 else "" for row in rows]
