"""The last steps of a run that is going on, from the ends of its ledgers. Never reads a whole ledger again.

It keeps the lines of the last thousand steps of each process. When a run is resumed, the lines of the earlier processes
are forgotten.
"""

import heapq
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from penstock.feed import Feed
from penstock.observe.lines import LedgerLine, LossLine, grad_norms, line_timeline, loss_values, parse_line
from penstock.observe.placing import Placing
from penstock.observe.runlog import is_run_of
from penstock.observe.summary.binned import Doubles

_FIRST_BYTES = 16 << 20  # that are read of a ledger that exists already
_WINDOW_STEPS = 1_000


class LedgerTail:
    """Reads the lines that are appended to a ledger.

    Args:
        path: Ledger. It may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position: int | None = None
        self._inode = 0

    def read(self) -> Iterator[LedgerLine | LossLine]:
        """Yield the complete lines since the last call; at first, those of the last megabytes."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            state = os.fstat(file.fileno())
            if self._position is None or state.st_ino != self._inode or state.st_size < self._position:
                self._position = max(0, state.st_size - _FIRST_BYTES)
                self._inode = state.st_ino
            file.seek(self._position)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return  # still being written
                self._position += len(raw)
                line = parse_line(raw.decode(errors="replace"))
                if line is not None:
                    yield line


def _read_with_path(tail: LedgerTail) -> Iterator[tuple[Path, LedgerLine | LossLine]]:
    return ((tail.path, line) for line in tail.read())


class _Seen(NamedTuple):
    """What is kept of a line that says what was used."""

    time: float
    first: int
    after: int
    samples: int
    sources: dict[str, int]
    reasons: list[str]
    stalls: Doubles
    cache: dict[str, int]


@dataclass
class _Process:
    """The last lines of a process."""

    host: str
    pid: int
    walk: str
    lines: deque[_Seen] = field(default_factory=deque)

    @property
    def seconds(self) -> float:
        """Time from the first line to the last."""
        return self.lines[-1].time - self.lines[0].time

    def rate(self, amounts: Sequence[float]) -> float:
        """Return an amount per second, from its value in each line; NaN for a single line."""
        return sum(amounts[1:]) / self.seconds if self.seconds > 0 else float("nan")


class RankNow(NamedTuple):
    """A rank in its last steps.

    Attributes:
        rank: Number of the rank.
        host: Its host.
        next_step: Step after the last one that it has reported.
        samples_per_second: Speed; NaN if unknown.
        waits: Median, p95 and p99 of the seconds that it waited per step; None if unknown.
        wait_share: Share of the time that it waited; NaN if unknown.
        age: Seconds since its last line.
    """

    rank: int
    host: str
    next_step: int
    samples_per_second: float
    waits: list[float] | None
    wait_share: float
    age: float


class CacheNow(NamedTuple):
    """The node cache of a host in the last steps.

    Attributes:
        held: Bytes in it.
        limit: Its bound in bytes.
        hit_share: Share of the reads whose bytes were all in it; NaN without reads.
        download_rate: Bytes downloaded per second; NaN if unknown.
    """

    held: int
    limit: int
    hit_share: float
    download_rate: float


class SourceNow(NamedTuple):
    """A source in the last steps.

    Attributes:
        name: Name of the source.
        share: Share of the samples.
        quota: Share by the mixture; None without a config, or if the run has no mixture.
        passes: Passes over the source since the start of the run, by the plan; None likewise.
        loss: Mean of its reported losses; None if unknown.
    """

    name: str
    share: float
    quota: float | None
    passes: float | None
    loss: float | None


class RunNow(NamedTuple):
    """A run in its last steps.

    Attributes:
        first_step: First of these steps.
        next_step: Step after the last one.
        world: Number of ranks.
        ranks: Ranks that have reported.
        sources: Sources, by falling share.
        reasons: Number of bad samples by reason.
        samples: Number of samples.
        caches: Node caches by host.
        loss: Mean of the finite losses of each rank's last line; None without losses.
        not_finite: Number of these losses that are not finite.
        grad_norm: Mean norm of the gradients; None without norms.
    """

    first_step: int
    next_step: int
    world: int
    ranks: list[RankNow]
    sources: list[SourceNow]
    reasons: Counter[str]
    samples: int
    caches: dict[str, CacheNow]
    loss: float | None
    not_finite: int
    grad_norm: float | None


class LiveRun:
    """Follows the ledgers of a run.

    Args:
        paths: Ledgers, one per node.
        feed: Feed of the run, for quotas and losses per source.
    """

    def __init__(self, paths: Sequence[Path], feed: Feed | None = None) -> None:
        self._tails = [LedgerTail(path) for path in paths]
        self._feed = feed
        self._placing = None if feed is None else Placing(feed)
        self._run: object = None
        self._newest: LedgerLine | None = None
        self._processes: dict[tuple[int, int], _Process] = {}  # by rank and worker
        self._held: dict[str, tuple[int, int]] = {}
        self._losses: dict[int, LossLine] = {}
        self._by_source: dict[str, float] | None = None  # mean losses; None if they are not computed yet

    def update(self) -> None:
        """Read what was appended to the ledgers, in the order of time: a resumed run forgets its earlier processes.

        Raises:
            ValueError: If the config is that of another run.
        """
        newest: dict[Path, LedgerLine] = {}
        for path, line in heapq.merge(*map(_read_with_path, self._tails), key=lambda read: read[1]["time"]):
            self._add(line)
            if "kind" not in line:
                newest[path] = line
        for path, last in newest.items():
            if self._feed is not None and not is_run_of(self._feed, last, last["steps"][1]):
                raise ValueError(
                    f"{path}: written by another run (seed, data, mixture or exclude differ from the config)"
                )

    def _add(self, line: LedgerLine | LossLine) -> None:
        run = (line["world"], *(line["fingerprint"].get(key) for key in ("seed", "items", "run")))
        if run != self._run:
            self._run = run
            self._processes.clear()
            self._losses.clear()
        if "kind" in line:
            self._losses[line["rank"]] = cast(LossLine, line)
            self._by_source = None
        else:
            self._use(line)

    def _use(self, line: LedgerLine) -> None:
        first, after = line["steps"]
        who = (line["rank"], line["worker"])
        process = self._processes.get(who)
        origin = (line["host"], line["pid"], line["walk"])
        if process is None or origin != (process.host, process.pid, process.walk) or first < process.lines[-1].after:
            process = _Process(*origin)
            others = [key for key, other in self._processes.items() if key[0] == who[0] and other.walk != line["walk"]]
            for key in others:  # workers of an earlier DataLoader
                del self._processes[key]
            self._processes[who] = process
        reasons = [bad["reason"] for bad in line["bad"]]
        stalls = np.array(line["stalls"])
        process.lines.append(
            _Seen(line["time"], first, after, line["samples"], line["sources"], reasons, stalls, line["cache"])
        )
        while len(process.lines) > 2 and after - process.lines[1].first >= _WINDOW_STEPS:
            process.lines.popleft()
        if "cache_held" in line:
            self._held[line["host"]] = line["cache_held"]
        if self._placing is not None:
            self._placing.take_bad(line)
        self._newest = line

    def now(self) -> RunNow | None:
        """Return the run in its last steps; None if no step was recorded yet."""
        if self._newest is None or not self._processes:
            return None
        lines = [line for process in self._processes.values() for line in process.lines]
        first = min(line.first for line in lines)
        after = max(line.after for line in lines)
        samples: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for line in lines:
            samples.update(line.sources)
            reasons.update(line.reasons)
        losses = [loss_values(line) for line in self._losses.values()]
        together = np.concatenate([np.zeros(0, dtype=np.float32), *losses])
        finite = together[np.isfinite(together)]
        norms = np.concatenate([np.zeros(0, dtype=np.float32), *map(grad_norms, self._losses.values())])
        norms = norms[np.isfinite(norms)]
        return RunNow(
            first_step=first,
            next_step=after,
            world=self._newest["world"],
            ranks=[self._rank(rank) for rank in sorted({rank for rank, _ in self._processes})],
            sources=self._sources(samples, first, after),
            reasons=reasons,
            samples=samples.total(),
            caches={host: self._cache(host) for host in sorted(self._held)},
            loss=float(finite.mean(dtype=np.float64)) if len(finite) else None,
            not_finite=len(together) - len(finite),
            grad_norm=float(norms.mean(dtype=np.float64)) if len(norms) else None,
        )

    def _rank(self, rank: int) -> RankNow:
        own = [process for (number, _), process in self._processes.items() if number == rank]
        known = [process for process in own if not process.walk]  # workers do not know how long the trainer waited
        stalls = np.concatenate([np.zeros(0), *(line.stalls for process in known for line in process.lines)])
        waits = np.percentile(stalls, (50, 95, 99)).tolist() if len(stalls) else None
        return RankNow(
            rank,
            own[-1].host,
            max(process.lines[-1].after for process in own),
            sum(process.rate([line.samples for line in process.lines]) for process in own),
            waits,
            sum(process.rate([float(line.stalls.sum()) for line in process.lines]) for process in known)
            if known
            else float("nan"),
            max(0.0, time.time() - max(process.lines[-1].time for process in own)),
        )

    def _cache(self, host: str) -> CacheNow:
        """Return the cache of a host. Each rank counts what all of its node did, so one of them is enough."""
        held, limit = self._held[host]
        own = [process for process in self._processes.values() if process.host == host]
        if not own:
            return CacheNow(held, limit, float("nan"), float("nan"))
        longest = max(own, key=lambda process: process.seconds)
        hits = sum(line.cache.get("hits", 0) for line in longest.lines)
        reads = hits + sum(line.cache.get("misses", 0) for line in longest.lines)
        rate = longest.rate([line.cache.get("bytes_fetched", 0) for line in longest.lines])
        return CacheNow(held, limit, hits / reads if reads else float("nan"), rate)

    def _sources(self, samples: Counter[str], first: int, after: int) -> list[SourceNow]:
        quotas = self._granted(first, after)
        granted = sum(quotas.values())
        passed = self._granted(0, after)
        if self._by_source is None:
            self._by_source = self._source_losses()
        losses = self._by_source
        feed = self._feed
        items = {} if feed is None else dict(zip(feed.catalog.sources, feed.catalog.amounts["items"], strict=True))
        return [
            SourceNow(
                name,
                count / max(1, samples.total()),
                quotas[name] / granted if granted and name in quotas else None,
                passed[name] / items[name] if name in passed and items.get(name) else None,
                losses.get(name),
            )
            for name, count in samples.most_common()
        ]

    def _granted(self, first: int, after: int) -> dict[str, float]:
        """Return the samples that the mixture grants to each source in some steps; empty without a mixture."""
        if self._feed is None or self._newest is None:
            return {}
        timeline = line_timeline(self._newest)
        granted = self._feed.plan.order.quotas(*timeline.span(first, after))
        return {} if granted is None else dict(zip(self._feed.catalog.sources, granted.tolist(), strict=True))

    def _source_losses(self) -> dict[str, float]:
        if self._feed is None or self._placing is None:
            return {}
        sums: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for line in self._losses.values():
            for placed in self._placing.placed(line, max(line["steps"]) + 1):
                finite = np.isfinite(placed.loss)
                for source, loss in zip(placed.source[finite].tolist(), placed.loss[finite].tolist(), strict=True):
                    sums[self._feed.catalog.sources[source]] += loss
                    counts[self._feed.catalog.sources[source]] += 1
        return {name: sums[name] / count for name, count in counts.items()}
