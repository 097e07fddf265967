"""The ledgers of a run, summed in bins of steps. Its size depends on bins, sources, ranks and groups, not on lines."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.feed import Feed
from penstock.observe.lines import LedgerLine, LossLine, grad_norms, line_timeline
from penstock.observe.placing import Placing, reports
from penstock.observe.proof import cut
from penstock.observe.runlog import RunLog
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline

MAX_BINS = 500
_CACHE_KEYS = ("hits", "misses", "bytes_fetched", "requests", "retries")
_SHORTEST_SECONDS = 1e-5  # of a wait; shorter ones count as this
_WAIT_BINS = 320  # of a histogram, 32 per factor of ten
_WAITS_AT_ONCE = 8_192  # that are sorted into a histogram: a third of the time of one line after the other

Doubles = npt.NDArray[np.float64]


class WaitHistogram:
    """A histogram of the seconds that a rank waited per step."""

    def __init__(self) -> None:
        self._counts = np.zeros(_WAIT_BINS, dtype=np.int64)
        self._new: list[float] = []
        self.seconds = 0.0
        self.longest = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        self._new.extend(seconds)
        self.seconds += sum(seconds)
        self.longest = max(self.longest, max(seconds, default=0.0))
        if len(self._new) >= _WAITS_AT_ONCE:
            self._sort_new()

    def _sort_new(self) -> None:
        place = np.log10(np.maximum(self._new, _SHORTEST_SECONDS) / _SHORTEST_SECONDS) * 32
        self._counts += np.bincount(np.minimum(place.astype(np.int64), _WAIT_BINS - 1), minlength=_WAIT_BINS)
        self._new.clear()

    def percentile(self, share: float) -> float:
        """Return the seconds that a share of the steps waited at most, to within 4%."""
        self._sort_new()
        below = np.cumsum(self._counts)
        place = int(np.searchsorted(below, share * below[-1]))
        return min(self.longest, _SHORTEST_SECONDS * 10 ** ((place + 0.5) / 32)) if place else 0.0


@dataclass
class Bins:
    """Sums per bin of steps.

    Attributes:
        edges: First step of each bin, and the end.
        whole: Whether no line crosses each edge, so that all counts before it are exact.
        samples: Samples used.
        sources: Samples used per source, by name.
        bad: Bad samples.
        waited: Seconds that ranks waited.
        steps: Steps of all ranks.
        longest: Longest wait of a step.
        timed: Samples of lines whose duration is known.
        seconds: Duration of these lines, per rank: the sum over ranks over the number of ranks.
        cache: Counters of the node cache, by host and rank, shape (bins, counters).
        held: Bytes in the node cache, by host; 0 if unknown.
        losses: Sum of the losses, of their number, of the norms of gradients, and of their number, shape (4, bins).
        source_losses: Sum and number of the losses per source, shape (2, bins).
    """

    edges: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    samples: Doubles
    bad: Doubles
    waited: Doubles
    steps: Doubles
    longest: Doubles
    timed: Doubles
    seconds: Doubles
    losses: Doubles
    sources: dict[str, Doubles] = field(default_factory=dict)
    cache: dict[tuple[str, int], Doubles] = field(default_factory=dict)
    held: dict[str, Doubles] = field(default_factory=dict)
    source_losses: dict[str, Doubles] = field(default_factory=dict)

    @classmethod
    def empty(cls, edges: npt.NDArray[np.int64]) -> "Bins":
        count = len(edges) - 1
        return cls(
            edges,
            np.ones(len(edges), dtype=bool),
            samples=np.zeros(count),
            bad=np.zeros(count),
            waited=np.zeros(count),
            steps=np.zeros(count),
            longest=np.zeros(count),
            timed=np.zeros(count),
            seconds=np.zeros(count),
            losses=np.zeros((4, count)),
        )


@dataclass
class Binned:
    """A run, summed up.

    Attributes:
        bins: Sums per bin of steps.
        waits: WaitHistogram by rank.
        groups: Samples used per group.
        seen: Number of groups that were used before the end of each bin.
        reasons: Number of bad samples by reason.
        bad_groups: Number of bad samples by group.
        hosts: Names of the hosts.
        worlds: Numbers of ranks that the run had.
        first_time: Time of the first line, in seconds since 1970.
        last_time: Time of the last line.
        cache_limit: Bound of the node cache, the largest of all hosts; 0 if unknown.
        timeline: Batch sizes of the run, by its newest line.
        not_finite: Number of losses that are not finite.
        unplaced: Number of losses that belong to no sample of the plan.
    """

    bins: Bins
    waits: dict[int, WaitHistogram] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)
    seen: Doubles = field(default_factory=lambda: np.zeros(0))
    reasons: Counter[str] = field(default_factory=Counter)
    bad_groups: Counter[str] = field(default_factory=Counter)
    hosts: set[str] = field(default_factory=set)
    worlds: set[int] = field(default_factory=set)
    first_time: float = float("inf")
    last_time: float = 0.0
    cache_limit: int = 0
    timeline: AnyTimeline = field(default_factory=lambda: Timeline.constant(1))
    not_finite: int = 0
    unplaced: int = 0


def bin_log(log: RunLog, feed: Feed | None) -> Binned:
    """Read the ledgers of a run.

    Args:
        log: Ledgers.
        feed: Feed of the run, for losses per source, and to cut lines of which only a part counts.
    """
    walk = _Binning(log, feed)
    for used, losses, end in log:
        if used is not None:
            walk.use(used, end)
        if losses is not None:
            walk.lose(losses, end)
    return walk.finish()


def _edges(log: RunLog) -> npt.NDArray[np.int64]:
    """Return bins of equal numbers of steps: of whole lines where most lines have the same length."""
    spans = [span for lineage in (log.used, log.losses) for own in lineage.spans().values() for span in own]
    first = min((first for first, _ in spans), default=0)
    end = max((end for _, end in spans), default=first + 1)
    unit = log.lengths.most_common(1)[0][0] if log.lengths else 1
    first -= first % unit
    width = -(-(end - first) // MAX_BINS)
    width = -(-width // unit) * unit
    edges = np.arange(first, end + width, width, dtype=np.int64)
    edges[-1] = max(end, int(edges[-2]) + 1)
    return edges


class _Binning:
    """Adds lines to bins."""

    def __init__(self, log: RunLog, feed: Feed | None) -> None:
        self._feed = feed
        self._placing = None if feed is None else Placing(feed)
        edges = _edges(log)
        self._edges: list[int] = edges.tolist()
        self._count = len(edges) - 1
        self._found = Binned(Bins.empty(edges))
        self._first_seen: dict[str, int] = {}
        self._times: dict[tuple[str, int, int], float] = {}
        self._newest = -1

    def use(self, line: LedgerLine, end: int) -> None:
        """Add a line that says what was used, up to a step."""
        found = self._found
        bins = found.bins
        first, after = line["steps"]
        found.hosts.add(line["host"])
        found.worlds.add(line["world"])
        found.first_time = min(found.first_time, line["time"])
        found.last_time = max(found.last_time, line["time"])
        if after > self._newest:
            self._newest = after
            found.timeline = line_timeline(line)
        if self._placing is not None:
            self._placing.take_bad(line)
        self._spend(line)
        if end <= first:
            return
        if end < after and self._feed is not None:
            line = cut(self._feed, line, end)
        kept = (min(end, after) - first) / (line["steps"][1] - first)
        bins.whole[bisect_right(self._edges, first) : bisect_left(self._edges, min(end, after))] = False
        for number, share in self._shares(first, min(end, after)):
            bins.samples[number] += share * kept * line["samples"]
            for name, count in line["sources"].items():
                if name not in bins.sources:
                    bins.sources[name] = np.zeros(self._count)
                bins.sources[name][number] += share * kept * count
        start = self._bin(first)
        groups = found.groups
        for name, count in line["groups"].items():
            groups[name] = groups.get(name, 0) + count  # three times as fast as a Counter's own way
            if self._first_seen.setdefault(name, start) > start:
                self._first_seen[name] = start
        for bad in line["bad"]:
            if bad["step"] < end:
                bins.bad[self._bin(bad["step"])] += 1
                found.reasons[bad["reason"]] += 1
                found.bad_groups[bad["group"]] += 1

    def _spend(self, line: LedgerLine) -> None:
        """Add the time of a line and what the cache did, as they were spent, also for steps that were repeated."""
        found = self._found
        bins = found.bins
        after = line["steps"][1]
        stalls = line["stalls"]
        if not line["walk"]:  # workers of a DataLoader do not know how long the trainer waited
            found.waits.setdefault(line["rank"], WaitHistogram()).add(stalls)
        number = self._bin(after - 1)
        bins.waited[number] += sum(stalls)
        bins.steps[number] += len(stalls)
        bins.longest[number] = max(bins.longest[number], *stalls)
        process = (line["host"], line["pid"], line["rank"])
        before = self._times.get(process)
        self._times[process] = line["time"]
        if before is not None and line["time"] > before:
            bins.timed[number] += line["samples"]
            bins.seconds[number] += (line["time"] - before) / line["world"]
        where = (line["host"], line["rank"])
        if line["cache"]:
            if where not in bins.cache:
                bins.cache[where] = np.zeros((self._count, len(_CACHE_KEYS)))
            bins.cache[where][number] += [line["cache"].get(key, 0) for key in _CACHE_KEYS]
        if "cache_held" in line:
            held, limit = line["cache_held"]
            bins.held.setdefault(line["host"], np.zeros(self._count))[number] = held
            found.cache_limit = max(found.cache_limit, limit)

    def lose(self, line: LossLine, end: int) -> None:
        """Add losses before a step."""
        found = self._found
        bins = found.bins
        for report in reports(line, end):
            finite = report.losses[np.isfinite(report.losses)]
            found.not_finite += len(report.losses) - len(finite)
            bins.losses[:2, self._bin(report.step)] += finite.sum(dtype=np.float64), len(finite)
        for step, norm in zip(line["steps"], grad_norms(line).tolist(), strict=True):
            if step < end and np.isfinite(norm):
                bins.losses[2:, self._bin(step)] += norm, 1
        if self._placing is None or self._feed is None:
            return
        for placed in self._placing.placed(line, end):
            number = self._bin(placed.step)
            finite_at = np.isfinite(placed.loss)
            for source in np.unique(placed.source).tolist():
                here = placed.loss[finite_at & (placed.source == source)]
                name = self._feed.catalog.sources[source]
                own = bins.source_losses.setdefault(name, np.zeros((2, self._count)))
                own[:, number] += here.sum(dtype=np.float64), len(here)

    def finish(self) -> Binned:
        found = self._found
        fresh = np.bincount(list(self._first_seen.values()), minlength=self._count) if self._first_seen else 0
        found.seen = np.cumsum(fresh + np.zeros(self._count))
        found.unplaced = 0 if self._placing is None else self._placing.unplaced
        return found

    def _bin(self, step: int) -> int:
        return min(max(bisect_right(self._edges, step) - 1, 0), self._count - 1)

    def _shares(self, first: int, after: int) -> Iterator[tuple[int, float]]:
        """Yield the bins of some steps, and the share of the steps that is in each."""
        for number in range(self._bin(first), self._bin(after - 1) + 1):
            inside = min(after, self._edges[number + 1]) - max(first, self._edges[number])
            yield number, inside / (after - first)
