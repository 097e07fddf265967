"""Ranks steps, samples, sources and groups by their losses. Knows the lines of ledgers; reads no data.

Losses fall over a run, so each is compared with the level of its time: the median of the losses in its line.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.feed import Feed
from penstock.feed.catalog import Catalog
from penstock.observe.lines import LossLine, grad_norms, loss_values
from penstock.observe.placing import Placing, SampleLosses, reports
from penstock.observe.runlog import RunLog
from penstock.plan.draws import Ints

_MAX_PENDING = 1 << 20  # losses, before they are summed
_GROUP_BITS = 32

Doubles = npt.NDArray[np.float64]


class Spike(NamedTuple):
    """Something whose losses are high.

    Attributes:
        name: Step, ``group:id`` of an item, or name of a source or group.
        source: Name of the source; empty for a step.
        uses: Number of losses.
        loss: Mean of its losses, as far as they are finite.
        above: Mean of its losses above the level of their time; infinite if a loss is not finite.
        step: Step of the highest loss.
        rank: Rank of the highest loss.
        world: Number of ranks at that step.
        slot: Place of the highest loss in the rank's batch; 0 for a step.
        grad_norm: Norm of the gradients of a step; NaN if unknown.
    """

    name: str
    source: str
    uses: int
    loss: float
    above: float
    step: int
    rank: int
    world: int
    slot: int
    grad_norm: float = float("nan")


class Spikes(NamedTuple):
    """What has the highest losses, the highest first.

    Attributes:
        steps: Steps.
        samples: Items, over all epochs; members of packs on their own.
        sources: Sources.
        groups: Groups.
        losses: Number of losses.
        unplaced: Number of losses that belong to no sample of the plan.
    """

    steps: list[Spike]
    samples: list[Spike]
    sources: list[Spike]
    groups: list[Spike]
    losses: int
    unplaced: int


def find_spikes(log: RunLog, feed: Feed | None = None, top: int = 10) -> Spikes:
    """Rank what was reported.

    Args:
        log: Ledgers of the run.
        feed: Feed of the run. Without it, only steps are ranked: the plan says which samples they had.
        top: Maximum number of each.

    Raises:
        ValueError: If the ledgers have no losses.
    """
    steps = _Ranking()
    samples = _Ranking()
    sources = _Ranking()
    groups = _Ranking()
    norms: dict[int, float] = {}
    members: dict[str, tuple[int, int]] = {}  # number and source, by name
    placing = None if feed is None else Placing(feed)
    for used, line, end in log:
        if used is not None and placing is not None:
            placing.take_bad(used)
        if line is None:
            continue
        level = _level(line)
        norms |= _norms(line, end)
        where = (line["rank"], line["world"])
        for report in reports(line, end):
            steps.add(np.full(len(report.losses), report.step), report.losses, level, report.step, where)
        for placed in [] if placing is None else placing.placed(line, end):
            for ranking, keys in (
                (samples, _sample_keys(placed, members)),
                (sources, placed.source),
                (groups, (placed.source << _GROUP_BITS) + placed.group),
            ):
                ranking.add(keys, placed.loss, level, placed.step, where, placed.slot)
    if not steps.count:
        raise ValueError("the ledger has no losses: call feed.report(step, losses) in the training loop")
    ranked = [
        spike._replace(name=str(key), grad_norm=norms.get(key, float("nan"))) for key, spike in steps.highest(top)
    ]
    if feed is None or placing is None:
        return Spikes(ranked, [], [], [], steps.count, 0)
    names = _Names(feed.catalog, list(members.items()))
    return Spikes(
        ranked,
        [names.sample(key, spike) for key, spike in samples.highest(top)],
        [spike._replace(name=feed.catalog.sources[key]) for key, spike in sources.highest(top)],
        [names.group(key, spike) for key, spike in groups.highest(top)],
        steps.count,
        placing.unplaced,
    )


def _level(line: LossLine) -> float:
    values = loss_values(line)
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else 0.0


def _norms(line: LossLine, end: int) -> dict[int, float]:
    found = zip(line["steps"], grad_norms(line).tolist(), strict=True)
    return {step: norm for step, norm in found if step < end and norm == norm}


def _sample_keys(placed: SampleLosses, members: dict[str, tuple[int, int]]) -> Ints:
    """Return a number per sample: the row of an item, or below zero the number of a member of packs."""
    if not placed.member:
        return placed.row
    found = zip(placed.member, placed.source.tolist(), strict=True)
    return np.array([-1 - members.setdefault(name, (len(members), source))[0] for name, source in found])


class _Names:
    """Names of what is ranked by number."""

    def __init__(self, catalog: Catalog, members: Sequence[tuple[str, tuple[int, int]]]) -> None:
        self._catalog = catalog
        self._members = members

    def sample(self, key: int, spike: Spike) -> Spike:
        if key < 0:
            name, (_, source) = self._members[-1 - key]
        else:
            name = self._catalog.item_name(key, 0)
            [(source, _, _)] = self._catalog.locate([key])
        return spike._replace(name=name, source=self._catalog.sources[source])

    def group(self, key: int, spike: Spike) -> Spike:
        source = key >> _GROUP_BITS
        name = self._catalog.group_name(source, key & ((1 << _GROUP_BITS) - 1))
        return spike._replace(name=name, source=self._catalog.sources[source])


class _Ranking:
    """Sums of losses per number, in as much memory as there are numbers.

    Attributes:
        count: Number of losses.
    """

    def __init__(self) -> None:
        self.count = 0
        self._keys: list[Ints] = []
        self._values: list[Doubles] = []  # columns: see ``add``
        self._pending = 0

    def add(
        self,
        keys: Ints,
        losses: npt.NDArray[np.float32],
        level: float,
        step: int,
        where: tuple[int, int],
        slots: Ints | None = None,
    ) -> None:
        """Add losses.

        Args:
            keys: Number that each loss belongs to.
            losses: Losses.
            level: Level that they are compared with.
            step: Their step.
            where: Their rank, and the number of ranks.
            slots: Their places in the rank's batch.
        """
        values = np.empty((len(keys), 9))
        finite = np.isfinite(losses)
        loss = np.where(finite, losses, 0.0)
        above = np.where(finite, losses - level, 0.0)
        columns = (1, finite, loss, above, np.where(finite, above, np.inf), step, *where, 0 if slots is None else slots)
        for number, column in enumerate(columns):
            values[:, number] = column
        self.count += len(keys)
        self._keys.append(keys)
        self._values.append(values)
        self._pending += len(keys)
        if self._pending > _MAX_PENDING:
            self._sum()

    def _sum(self) -> None:
        """Replace what was added by one row per number."""
        keys = np.concatenate(self._keys)
        values = np.concatenate(self._values)
        order = np.lexsort((values[:, 4], keys))  # the highest loss of each number last
        keys = keys[order]
        values = values[order]
        last = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
        starts = np.append(0, last[:-1] + 1)
        summed = values[last]
        summed[:, :4] = np.add.reduceat(values[:, :4], starts, axis=0)
        self._keys = [keys[last]]
        self._values = [summed]
        self._pending = 0

    def highest(self, top: int) -> list[tuple[int, Spike]]:
        """Return the numbers with the highest losses above their level, and these without names."""
        if not self.count:
            return []
        self._sum()
        keys = self._keys[0]
        count, finite, loss, above, _, *places = self._values[0].T
        mean = np.where(finite < count, np.inf, above / np.maximum(finite, 1))
        order = np.lexsort((-loss, -mean))[:top]
        found = []
        for at in order.tolist():
            step, rank, world, slot = (int(each[at]) for each in places)
            average = float(loss[at] / finite[at]) if finite[at] else float("nan")
            spike = Spike("", "", int(count[at]), average, float(mean[at]), step, rank, world, slot)
            found.append((int(keys[at]), spike))
        return found
