"""A run without its data: which samples each step takes, and where the run continues. Reads nothing."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.config import Config
from penstock.feed.catalog import Catalog
from penstock.feed.dataset import StepDataset
from penstock.feed.excluding import find_exclusions
from penstock.feed.lengths import WindowLayout, make_measures
from penstock.feed.measuredcatalog import MeasuredCatalog
from penstock.feed.opening import Opened
from penstock.feed.planning import make_identity, make_plan, mixture_changes
from penstock.feed.pooling import Pool, leaves_open, pool_of
from penstock.feed.state import advanced, global_batch_size, kept_pool, nested_state, read_state, write_state
from penstock.feed.steps import Steps
from penstock.plan.order import Planned
from penstock.plan.plan import Use
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline, WindowTimeline
from penstock.runtime import ranks

log = logging.getLogger("penstock.feed.feed")  # as users know it


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """One planned sample, by names.

    Attributes:
        step: Step of the batch.
        rank: Rank of the batch.
        slot: Place in the rank's batch.
        source: Name of the source.
        epoch: Epoch of the source.
        group: Name of the group.
        item: Id of the item.
    """

    step: int
    rank: int
    slot: int
    source: str
    epoch: int
    group: str
    item: str


class PlannedRun(StepDataset):
    """The plan of a run by the names of its sources and items, and its state: integer arithmetic.

    Args:
        config: Checked configuration of the run.
        opened: Parts and recipes of the run.
        rank: Rank of this process; None for that of the launcher.
        world: Number of ranks; None for that of the launcher.
        pool: Resident groups of the run; None for those that the config asks for.

    Attributes:
        config: Checked configuration of the run.
        catalog: All parts of the run.
        plan: Plan of the run.
        identity: Everything that determines the order of the run.
    """

    def __init__(self, config: Config, opened: Opened, rank: int | None, world: int | None, pool: Pool | None) -> None:
        self.config = config
        self._rank = rank
        self._world = world
        self.catalog = _open_catalog(config, opened)
        self._changes = mixture_changes(config, self.catalog)
        self._exclusions = find_exclusions(config.exclude, self.catalog)
        self._make_plan(pool or pool_of(config, self.catalog))
        self._timeline: AnyTimeline | None = None  # set by a state; otherwise from the batch size and the world

    def _make_plan(self, pool: Pool) -> None:
        self._pool = pool
        self.plan = make_plan(self.config, self.catalog, self._changes, pool, self._exclusions)
        self.identity = make_identity(self.config, self.catalog, self._changes, pool, self._exclusions)
        self._windows = WindowLayout.of(self.config, self.plan, self.catalog, self._changes, pool)

    @property
    def rank(self) -> int:
        """Rank of this process, as given to ``penstock.open`` or set by the launcher."""
        return ranks.current()[0] if self._rank is None else self._rank

    @property
    def world(self) -> int:
        """Number of ranks, as given to ``penstock.open`` or set by the launcher."""
        return ranks.current()[1] if self._world is None else self._world

    def planned(self, step: int, rank: int | None = None, world: int | None = None) -> Planned:
        """Return the plan of a batch, in integers. Reads no data."""
        rank = self.rank if rank is None else rank
        world = self.world if world is None else world
        return self.plan.batch(step, rank, world, self.timeline(world))

    def lines(self, step: int, rank: int | None = None, world: int | None = None) -> Iterator[PlannedSample]:
        """Yield the planned samples of a batch, without padding. Reads no data."""
        planned = self.planned(step, rank, world)
        ids = self.catalog.ids(planned)
        rank = self.rank if rank is None else rank
        for slot in np.flatnonzero(planned.item >= 0).tolist():
            source = int(planned.source[slot])
            group = self.catalog.group_name(source, int(planned.group[slot]))
            yield PlannedSample(
                step, rank, slot, self.catalog.sources[source], int(planned.epoch[slot]), group, ids[slot]
            )

    def where(self, item: str, epochs: range = range(1), world: int | None = None) -> Iterator[tuple[str, Use]]:
        """Yield every planned use of an item.

        Args:
            item: Id, or ``group:id``. An id may name several items.
            epochs: Epochs of the item's source to search.
            world: Number of ranks; by default that of this process.

        Yields:
            ``group:id`` of the item, and the use.
        """
        world = self.world if world is None else world
        for epoch in epochs:
            for row, end in zip(self.catalog.find(item, epoch), self.ends_in_packs(item), strict=True):
                name = self.catalog.item_name(row, epoch)
                for use in self.uses(row, range(epoch, epoch + 1), world, self.timeline(world), end):
                    yield name, use

    def uses(self, row: int, epochs: range, world: int, timeline: AnyTimeline, before: int | None = None) -> list[Use]:
        """Return every planned use of the item with a row, or only those before a slot of the run."""
        [(source, group, item)] = self.catalog.locate([row])
        return list(self.plan.uses(source, group, item, epochs, world=world, timeline=timeline, before=before))

    def ends_in_packs(self, item: str) -> list[int | None]:
        """Return the slot since which a sample is left out of its pack; None if never.

        Returns:
            One value per row that ``catalog.find`` returns.
        """
        return self._exclusions.ends_in_packs(item, self.catalog)

    @property
    def leaves_out_members(self) -> bool:
        """Whether samples are left out of packs, because they are excluded."""
        return bool(self._exclusions.members)

    def timeline(self, world: int) -> AnyTimeline:
        """Return which samples each step takes."""
        if self._timeline is None and self._windows is not None:
            return self._windows.timeline(world)
        return self._timeline or Timeline.constant(global_batch_size(self.config, world), self.plan.epoch)

    def remaining(self, start: int = 0) -> Steps:
        """Return the steps of the run from ``start`` on."""
        return Steps(start, self.plan.steps(self.timeline(self.world)))

    def _warn_of_uneven_epochs(self) -> None:
        """Warn, on one rank, if the last batch of every epoch is not divisible by the number of ranks."""
        timeline = self.timeline(self.world)
        if timeline.epoch is None or self.rank or isinstance(timeline, WindowTimeline):
            return
        *_, (_, _, size) = timeline.segments
        short = timeline.epoch % size
        each = short // self.world
        if short % self.world:
            log.warning(
                "an epoch has %d samples and its last batch %d instead of %d: of %d ranks some get %d and others %d",
                *(timeline.epoch, short, size, self.world, each, each + 1),
            )

    def state(self, step: int) -> dict[str, Any]:
        """Return the state of the run after the trainer has used ``step`` batches."""
        return write_state(self.config, self.identity, self.timeline(self.world), step)

    def resume(self, state: Mapping[str, Any], *, strict: bool = True) -> int:
        """Continue from a state, saved with any number of ranks and workers.

        With ``pool: auto``, the run keeps the pool of the state: sources may have come since.

        Args:
            state: State that ``state`` or ``Loader.state_dict`` returned, or ``state_dict`` of torchdata's
                ``StatefulDataLoader`` over this feed.
            strict: Whether to refuse a state of another seed, data, mixture, pool or number of lanes.

        Returns:
            The next step.

        Raises:
            StateError: If the state is invalid or, with ``strict``, belongs to another run.
        """
        state, more = nested_state(state)
        pool = kept_pool(state) if strict and self.identity.pool is not None else None
        if pool is not None and not leaves_open(self.config, pool):
            pool = None
        identity = self.identity if pool is None else self.identity._replace(pool=pool)
        read = partial(
            read_state,
            config=self.config,
            identity=identity,
            epoch=self.plan.epoch,
            world=self.world,
            strict=strict,
        )
        step, timeline = read(state)
        if more:
            step, timeline = read(advanced(state, identity, more))
        if pool not in (None, self._pool) and not self.rank:
            log.warning(
                "pool: auto is %s for these sources, but the run began with %s and keeps it; write `pool: %s`, or `at` "
                "into the entries of sources that came later, so that commands without a state show the same run",
                *(self._pool, pool, pool),
            )
        self._continue(timeline, pool or self._pool)
        if self._windows is not None and isinstance(timeline, WindowTimeline):
            self._timeline = self._windows.resumed(timeline, step)
        return step

    def _continue(self, timeline: AnyTimeline | None, pool: Pool) -> None:
        if pool != self._pool:
            self._make_plan(pool)
        self._timeline = timeline


def _open_catalog(config: Config, opened: Opened) -> Catalog:
    if config.batch is None:
        return Catalog(opened.parts, config.seed)
    measures = make_measures(config, opened.parts, opened.recipes)
    return MeasuredCatalog(opened.parts, config.seed, measures)
