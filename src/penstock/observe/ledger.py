"""The usage ledger: one file to which every process of a run appends a JSON line every N steps.

A ledger that cannot be written never stops a run: see ``appending``.
"""

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
from penstock.feed.batches import BadSample, Batch, count_slots, flat_batches, is_last_unit, names_in
from penstock.feed.state import listed_segments
from penstock.observe.appending import LineFile
from penstock.plan.draws import Ints
from penstock.runtime.forking import reset_in_children

_ORIGIN_KEYS = ("time", "host", "pid", "rank", "world", "walk", "worker", "steps", "segments", "fingerprint")
_CONTENT_KEYS = ("samples", "sources", "groups", "bad", "stalls", "cache")
KEYS = frozenset((*_ORIGIN_KEYS, *_CONTENT_KEYS))
"""Keys of every line. ``ids`` is added if requested, ``epoch`` if no batch crosses the end of an epoch, and
``cache_held`` if there is a node cache."""


class _StepRecord:
    """The batches of one step, which are several in batches by length."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.names: list[str] = []
        self.bad: list[BadSample] = []
        self.stalled = 0.0
        self._slots = 0  # of the units before

    def add(self, batch: Batch, stalled: float, names: list[str]) -> None:
        """Add a batch. Slots of bad samples are counted over all units."""
        for each in flat_batches(batch):
            self.rows.append(each["rows"].copy())  # copied: a batch may lie in memory that is used again
            self.bad += [bad._replace(slot=self._slots + bad.slot) for bad in each["bad"]]
        self._slots += count_slots(batch)
        self.names += names
        self.stalled += stalled


class Ledger:
    """Records the batches of a rank, and appends them to a file.

    Args:
        feed: Feed that makes the batches.
        path: File to append to. It and its folder are created if necessary.
        every: Number of steps per line.
        ids: Whether to also write the ``group:id`` of every item.
        walk: Id shared by the workers that take turns at a rank's steps; empty for a rank without workers.
        worker: Number of this worker among them.

    Examples:
        >>> import penstock
        >>> feed = penstock.open("run.yaml", usage={"log": "usage.jsonl", "every": 1})
        >>> with feed.loader() as loader:  # has a ledger, as the config says
        ...     batch = next(loader)
        >>> with open("usage.jsonl") as lines:
        ...     print('"steps": [0, 1]' in next(lines))
        True
    """

    def __init__(
        self,
        feed: Feed,
        path: str | os.PathLike[str],
        *,
        every: int = 100,
        ids: bool = False,
        walk: str = "",
        worker: int = 0,
    ) -> None:
        self._feed = feed
        self._path = Path(path)
        self._every = every
        self._ids = ids
        self._walk = walk
        self._worker = worker
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.reset_after_fork()
        self._cache = self._cache_counts()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without steps, also in a forked child: the parent writes its own steps."""
        self._lock = threading.RLock()  # a trainer may save a checkpoint, which flushes, in another thread
        self._file = LineFile(self._path)
        self._step = _StepRecord()  # the step whose units are being taken
        self._begin(None)

    def _begin(self, cache: dict[str, int] | None) -> None:
        self._cache = cache  # counters since the cache was created; a line has the difference from the line before
        self._steps: list[int] = []
        self._rows: list[Ints] = []
        self._names: list[list[str]] = []
        self._bad: list[dict[str, Any]] = []
        self._stalls: list[float] = []

    def record(self, batch: Batch, stalled: float = 0.0) -> None:
        """Record a batch. A line is written after every ``every`` consecutive steps.

        Args:
            batch: Batch that the trainer received.
            stalled: Seconds that the trainer waited for it.
        """
        with self._lock:
            self._record(batch, stalled)

    def _record(self, batch: Batch, stalled: float) -> None:
        if self._cache is None:
            self._cache = self._cache_counts()
        step = int(batch["step"])
        if not batch.get("unit"):
            self._step = _StepRecord()  # a step whose units were not all taken is not recorded
        self._step.add(batch, stalled, self._item_names(batch) if self._ids else [])
        if not is_last_unit(batch):
            return
        if self._steps and step != self._steps[-1] + 1:
            self.flush()  # a line holds consecutive steps only
        self._steps.append(step)
        self._rows += self._step.rows
        if self._ids:
            self._names.append(self._step.names)
        self._bad += [{"step": step, **bad._asdict()} for bad in self._step.bad]
        self._stalls.append(round(self._step.stalled, 6))
        if len(self._steps) >= self._every:
            self.flush()

    def _item_names(self, batch: Batch) -> list[str]:
        """Return ``group:id`` of the samples of a batch by slot, empty for padding."""
        found: dict[int, str] = {}
        for each in flat_batches(batch):
            slots = each["slots"].tolist() if "slots" in each else range(len(each["ids"]))
            real = [at for at, row in enumerate(each["rows"].tolist()) if row >= 0]
            groups = self._feed.catalog.group_names(each["rows"][real])
            found |= dict.fromkeys(slots, "")
            names = names_in(each)
            found |= {slots[at]: f"{group}:{names[at]}" for at, group in zip(real, groups, strict=True)}
        return [found[slot] for slot in sorted(found) if slot >= 0]

    def flush(self) -> None:
        """Write a line with the steps since the last one, and lines that could not be written before."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if not self._steps:
            self._file.write()
            return
        cache = self._cache_counts()
        line = json.dumps(self._line(cache or {}), ensure_ascii=False)
        # A name that is not UTF-8 contains lone surrogates.
        self._file.add((self._steps[0], self._steps[-1] + 1), line.encode(errors="replace"))
        self._begin(cache)

    def close(self) -> None:
        """Flush, and log steps that could not be written."""
        with self._lock:
            self._flush()
            self._file.close()

    def _cache_counts(self) -> dict[str, int] | None:
        """Return the counters of the node cache, or the last known ones if its disk is full."""
        try:
            return self._feed.cache_counts()
        except OSError:
            return self._cache

    def _line(self, cache: dict[str, int]) -> dict[str, Any]:
        feed = self._feed
        sources, groups = feed.catalog.count(np.concatenate(self._rows))
        timeline = feed.timeline(feed.world)
        line = {
            "time": round(time.time(), 3),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "rank": feed.rank,
            "world": feed.world,
            "walk": self._walk,
            "worker": self._worker,
            "steps": [self._steps[0], self._steps[-1] + 1],
            "segments": listed_segments(timeline),
            "fingerprint": feed.identity.fingerprint(timeline.end_slot(self._steps[-1])),
            "samples": sum(sources.values()),
            "sources": dict(sources),
            "groups": dict(groups),
            "bad": self._bad,
            "stalls": self._stalls,  # seconds, per step
            "cache": {name: count - (self._cache or {}).get(name, 0) for name, count in cache.items()},
        }
        held = feed.cache_held()
        if held is not None:
            line["cache_held"] = list(held)
        if timeline.epoch is not None:
            line["epoch"] = timeline.epoch
        if self._ids:
            line["ids"] = self._names
        return line
