"""The feed: step -> batch. Plan, parts and recipes in one function that remembers nothing between calls."""

import logging
import secrets
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.config import Config
from penstock.feed.ahead import Ahead
from penstock.feed.catalog import Catalog
from penstock.feed.lookup import Lookup
from penstock.feed.making import BatchMaker
from penstock.feed.opening import Opened, require_room
from penstock.feed.planning import make_identity, make_plan, mixture_changes, pool_size
from penstock.feed.sampled import Sampled
from penstock.feed.state import global_batch_size, read_state, write_state
from penstock.feed.steps import Sampler, Steps
from penstock.feed.walk import Walk
from penstock.plan.order import Planned
from penstock.plan.plan import Use
from penstock.plan.timeline import Timeline
from penstock.recipes.recipe import Recipe
from penstock.runtime import ranks
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.prefetch import Prefetcher

if TYPE_CHECKING:
    from penstock.loader import Loader
    from penstock.observe.ledger import Ledger

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """One planned sample, in words."""

    step: int
    rank: int
    slot: int
    source: str
    epoch: int
    group: str
    item: str


class Feed:
    """A training run as a function from the step to the batch.

    ``feed.batch(step)`` does not depend on the process, the time or the order of calls. The feed is also a map-style
    dataset whose index is the step: ``DataLoader(feed, batch_size=None, sampler=feed.steps(), …)``. Open one with
    ``penstock.open``.
    """

    def __init__(self, config: Config, opened: Opened, *, rank: int | None = None, world: int | None = None) -> None:
        self.config = config
        self._opened = opened
        self._rank = rank
        self._world = world
        self.catalog = Catalog(opened.parts, config.seed)
        self._residents = pool_size(config, self.catalog)
        changes = mixture_changes(config, self.catalog)
        self.plan = make_plan(config, self.catalog, changes, self._residents)
        self.identity = make_identity(config, self.catalog, changes, self._residents)
        self._maker = BatchMaker(
            self.catalog,
            opened.recipes,
            self.plan.order,
            replace=config.on_error == "substitute",
            padded=config.passes is not None,
        )
        self._name = secrets.token_hex(4)  # tells the workers of a restarted trainer from those before
        self._timeline: Timeline | None = None  # set by a state; else the batch size times the caller's world
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._starting = threading.RLock()
        self._started = False
        self._ahead: Ahead | None = None
        self._sampled = Sampled(self.config.max_bad)

    @property
    def rank(self) -> int:
        """This process's rank: as given, else as its launcher says."""
        return ranks.current()[0] if self._rank is None else self._rank

    @property
    def world(self) -> int:
        """How many ranks there are: as given, else as the launcher says."""
        return ranks.current()[1] if self._world is None else self._world

    def batch(self, step: int, rank: int | None = None, world: int | None = None) -> dict[str, Any]:
        """One rank's batch of a step; by default this process's.

        Returns:
            The recipe's fields, and

            - ``step``; ``ids``, ``sources`` and ``rows`` of the items, in order;
            - ``bad``: what was planned and could not be used (see ``on_error``);
            - ``valid``, in a finite run: False marks padding;
            - ``global_label_tokens`` and the like, where the reader counts them: planned sums over all ranks.

            With several recipes: ``step``, and all of the above by recipe name, with ``slots``: the samples' places in
            the rank's batch. Every recipe is there, also without a sample.

        Raises:
            IndexError: the run ends before this step.
            ContentError: a sample is bad and ``on_error`` is ``raise``, or its substitutes are bad, too.
        """
        with self.walk(Steps(step, step + 1), rank, world) as walk:
            return walk.batch(step)

    def walk(
        self, steps: Steps, rank: int | None = None, world: int | None = None, timeline: Timeline | None = None
    ) -> Walk:
        """Take steps in order: each is planned once, and its bytes are fetched before it is asked for.

        Args:
            steps: those that this process takes. Of several workers each walks with a stride of their number.
            rank: by default that of this process.
            world: the number of ranks; by default as for ``rank``.
            timeline: which samples each step takes; by default that of the run.
        """
        rank = self.rank if rank is None else rank
        world = self.world if world is None else world
        ahead = self.start_fetching(steps.stride)
        lookup = Lookup(self.plan, self.catalog, rank, world, timeline or self.timeline(world), steps)
        return Walk(lookup, self._maker, ahead, steps)

    def start_fetching(self, workers: int = 1) -> Ahead | None:
        """Open the stores, and what fetches ahead from remote ones: one per process, at the first step.

        Args:
            workers: processes of this rank that share its requests.

        Raises:
            ConfigError: the cache is too small for what the run has in use at once.
        """
        if not self._started:
            with self._starting:
                if not self._started:
                    self._ahead = self._open_ahead(workers)
                    self._started = True
        return self._ahead

    def open_stores(self) -> NodeCache | None:
        """Open the stores of all sources.

        Returns:
            The node cache that remote stores are read through; None where all are local.

        Raises:
            ConfigError: the cache is too small for what the run has in use at once.
        """
        cache = self._cache()
        if cache is not None:
            require_room(cache, self.catalog, self.identity.mixture, self._residents)
        return cache

    def _cache(self) -> NodeCache | None:
        """The node cache, if there is a remote store; whether it has room was asked at the start."""
        for source in range(len(self.catalog.sources)):
            self.catalog.resident(source, 0)  # names its store, and so opens it
        return self._opened.stores.cache

    def _open_ahead(self, workers: int) -> Ahead | None:
        cache = self.open_stores()
        if cache is None:
            return None
        how = self.config.prefetch
        prefetcher = Prefetcher(cache, max(1, how.concurrency // workers), how.bandwidth)
        ahead = Ahead(self.catalog, self.plan.order, cache, how.steps, prefetcher)
        # Its threads would outlive the feed; not at exit, where they may be in the middle of a request.
        weakref.finalize(self, ahead.close, wait=False).atexit = False
        return ahead

    @property
    def recipes(self) -> Mapping[str, Recipe[Any]]:
        """What makes batches, by the name of the recipe."""
        return self._opened.recipes

    def by_recipe(self, batch: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The batch of each recipe by its name, also where there is only one and batches are flat."""
        names = list(self._opened.recipes)
        return {name: batch[name] for name in names} if len(names) > 1 else {names[0]: batch}

    def preview(self, recipe: str, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        """One row of a recipe's batch as files to look at: (ending, content) of each."""
        return self._opened.recipes[recipe].preview(batch, index)

    def planned(self, step: int, rank: int | None = None, world: int | None = None) -> Planned:
        """What a batch is to hold, in integers; reads no data."""
        rank = self.rank if rank is None else rank
        world = self.world if world is None else world
        return self.plan.batch(step, rank, world, self.timeline(world))

    def lines(self, step: int, rank: int | None = None, world: int | None = None) -> Iterator[PlannedSample]:
        """The plan of a batch, one line per sample; padding is left out. Reads no data."""
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
        """Every planned use, in the given epochs of its source, of every item that an id or ``group:id`` names.

        Returns:
            ``group:id`` and the use.
        """
        world = self.world if world is None else world
        for epoch in epochs:
            for row in self.catalog.find(item, epoch):
                name = self.catalog.item_name(row, epoch)
                for use in self.uses(row, range(epoch, epoch + 1), world, self.timeline(world)):
                    yield name, use

    def uses(self, row: int, epochs: range, world: int, timeline: Timeline) -> list[Use]:
        """Every planned use of an item, by its row."""
        [(source, group, item)] = self.catalog.locate([row])
        return list(self.plan.uses(source, group, item, epochs, world=world, timeline=timeline))

    def timeline(self, world: int) -> Timeline:
        """Which samples each step takes."""
        return self._timeline or Timeline.constant(global_batch_size(self.config, world), self.plan.epoch)

    def _warn_of_uneven_epochs(self) -> None:
        """Log, on one rank, that the last batch of every epoch can not be divided equally among the ranks."""
        timeline = self.timeline(self.world)
        if timeline.epoch is None or self.rank:
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
        """The state after ``step`` batches were used: the number to give is the trainer's own."""
        self._sampled.flush()
        return write_state(self.config, self.identity, self.timeline(self.world), step)

    def resume(self, state: Mapping[str, Any], *, strict: bool = True) -> int:
        """Take over a state, of any number of ranks and workers.

        Args:
            strict: refuse a state of another seed, data, mixture, pool or number of lanes.

        Returns:
            The step to go on from.
        """
        step, self._timeline = read_state(
            state, self.config, self.identity, self.plan.epoch, world=self.world, strict=strict
        )
        return step

    def loader(
        self,
        start: int = 0,
        *,
        threads: int | None = None,
        workers: int = 0,
        prefetch: int = 2,
        pin_memory: bool = False,
    ) -> "Loader":
        """Walk the feed from a step on, as this process's rank.

        Args:
            start: the first step.
            threads: number of threads that make batches ahead; 4 by default. With 0 the caller makes them itself.
            workers: number of processes that make batches ahead, instead of threads.
            prefetch: number of batches that each thread or worker makes ahead of the caller.
            pin_memory: put tensors into page-locked memory; without an accelerator this does nothing but warn.
        """
        from penstock.loader import Loader

        self.start_fetching()  # a cache that is too small is an error now
        self._warn_of_uneven_epochs()
        return Loader(
            self,
            start,
            threads=threads,
            workers=workers,
            prefetch=prefetch,
            pin_memory=pin_memory,
            ledger=self.open_ledger(),
        )

    def open_ledger(self, walk: str = "", worker: int = 0) -> "Ledger | None":
        """Open the ledger that the batches of this process are noted in, if the config has one.

        Args:
            walk: names what the workers of a ``DataLoader`` walk together; empty for a process that makes all steps.
            worker: the number of this process among them.
        """
        usage = self.config.usage
        if usage is None:
            return None
        from penstock.observe.ledger import Ledger

        if not walk:
            return Ledger(self, usage.log, every=usage.every, ids=usage.ids)
        # A worker's steps do not follow each other, so each gets a line.
        return Ledger(self, usage.log, every=1, ids=usage.ids, walk=f"{self._name}-{walk}", worker=worker)

    def cache_counts(self) -> dict[str, int]:
        """What the node cache has done so far, over all processes of the node; nothing for local folders."""
        cache = self._cache()
        return asdict(cache.counters.node()) if cache else {}

    def close(self) -> None:
        """End what fetches ahead and unpin what it holds in the node cache. The next batch begins it anew."""
        ahead = self._ahead
        self._ahead = None
        self._started = False
        self._sampled.close()
        if ahead:
            ahead.close()
        self.catalog.close()
        self._opened.stores.close()

    def remaining(self, start: int = 0) -> Steps:
        """The steps of the run from ``start`` on."""
        return Steps(start, self.plan.steps(self.timeline(self.world)))

    def steps(self, start: int = 0) -> Sampler:
        """The sampler of a ``DataLoader`` over this feed: its indices are steps, from ``start`` on."""
        self._warn_of_uneven_epochs()
        return Sampler(self.remaining(start), self._sampled)

    def __getitem__(self, step: int) -> dict[str, Any]:
        return self._sampled.batch(self, step) or self.batch(step)

    def __len__(self) -> int:
        return len(self.remaining())

    def __getstate__(self) -> dict[str, Any]:
        return {
            "config": self.config.model_copy(update={"pipelines": {}}),  # all is open; a script's own may not pickle
            "opened": self._opened,
            "rank": self.rank,
            "world": self.world,
            "name": self._name,
            "timeline": self._timeline,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Another process opens files and clients itself: descriptors and threads do not travel.
        Feed.__init__(self, state["config"], state["opened"], rank=state["rank"], world=state["world"])
        self._name = state["name"]
        self._timeline = state["timeline"]
