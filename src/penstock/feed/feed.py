"""The feed: step -> batch. Joins plan, parts and recipes in one function without memory between calls."""

import logging
import secrets
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.config import Config
from penstock.feed.ahead import Ahead
from penstock.feed.batches import Batch, only_fields
from penstock.feed.catalog import Catalog
from penstock.feed.dataset import StepDataset
from penstock.feed.excluding import find_exclusions
from penstock.feed.fetching import Fetching
from penstock.feed.lengths import WindowLayout, make_measures
from penstock.feed.lookup import Lookup
from penstock.feed.making import BatchMaker
from penstock.feed.meter import Meter
from penstock.feed.nested import advanced, nested_state
from penstock.feed.opening import Opened, require_room
from penstock.feed.planning import make_identity, make_plan, mixture_changes
from penstock.feed.pooling import Pool, leaves_open, pool_of
from penstock.feed.sampled import Sampled
from penstock.feed.state import StateError, global_batch_size, kept_pool, read_state, write_state
from penstock.feed.steps import Sampler, Steps
from penstock.feed.walk import Walk
from penstock.plan.order import Planned
from penstock.plan.plan import Use
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline, WindowTimeline
from penstock.recipes.recipe import Recipe
from penstock.runtime import ranks
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.cache import NodeCache

if TYPE_CHECKING:
    from penstock.loader import Loader
    from penstock.observe.figures import FigureTarget
    from penstock.observe.ledger import Ledger
    from penstock.observe.losses import LossLedger
    from penstock.observe.prometheus import MetricsServer

log = logging.getLogger(__name__)


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


class Feed(StepDataset):
    """A training run as a function from the step to the batch.

    ``feed.batch(step)`` does not depend on the process, the time or the order of calls. The feed is also a map-style
    dataset whose index is the step: ``DataLoader(feed, batch_size=None, sampler=feed.steps(), …)`` yields the batch of
    each step, or in batches by length the list of the rank's batches. Open one with ``penstock.open``.

    Attributes:
        config: Checked configuration of the run.
        catalog: All parts of the run.
        plan: Plan of the run.
        identity: Everything that determines the order of the run.
        meter: Counter of the batches that this process received.

    Examples:
        >>> import penstock
        >>> feed = penstock.open("run.yaml")
        >>> len(feed.batch(12345)["ids"])
        4
        >>> feed.resume(feed.state(100))
        100
    """

    def __init__(
        self,
        config: Config,
        opened: Opened,
        *,
        rank: int | None = None,
        world: int | None = None,
        recording: bool = True,
        pool: Pool | None = None,
    ) -> None:
        self.config = config
        self._opened = opened
        self._rank = rank
        self._world = world
        self._recording = recording  # False: another process gets the same batches, and writes the ledger
        measures = None if config.batch is None else make_measures(config, opened.parts, opened.recipes)
        self.catalog = Catalog(opened.parts, config.seed, measures)
        self._changes = mixture_changes(config, self.catalog)
        self._exclusions = find_exclusions(config.exclude, self.catalog)
        self._make_plan(pool or pool_of(config, self.catalog))
        self._name = secrets.token_hex(4)  # distinguishes the workers of a restarted trainer from earlier ones
        self._timeline: AnyTimeline | None = None  # set by a state; otherwise from the batch size and the world
        self._metrics: MetricsServer | None = None
        self.reset_after_fork()
        reset_in_children(self)

    def _make_plan(self, pool: Pool) -> None:
        config = self.config
        self._pool = pool
        self.plan = make_plan(config, self.catalog, self._changes, pool, self._exclusions)
        self.identity = make_identity(config, self.catalog, self._changes, pool, self._exclusions)
        self._fetching = Fetching(self.catalog, self._opened.stores, config.prefetch)
        self._windows = WindowLayout.of(config, self.plan, self.catalog, self._changes, pool)
        self._maker = BatchMaker(
            self.catalog,
            self._opened.recipes,
            replace=config.on_error == "substitute",
            padded=config.passes is not None or config.batch is not None,
            costs=config.balance,
        )

    def _require_room(self, cache: NodeCache) -> None:
        timeline = self.timeline(self.world)
        window = timeline.segments[-1].window // self.identity.lanes if isinstance(timeline, WindowTimeline) else 0
        require_room(cache, self.catalog, self._changes, self._pool, self._exclusions.items, window)

    def reset_after_fork(self) -> None:
        self._sampled = Sampled(self.config.max_bad)
        self._losses: LossLedger | None = None
        self.meter = Meter()

    @property
    def rank(self) -> int:
        """Rank of this process, as given to ``penstock.open`` or set by the launcher."""
        return ranks.current()[0] if self._rank is None else self._rank

    @property
    def world(self) -> int:
        """Number of ranks, as given to ``penstock.open`` or set by the launcher."""
        return ranks.current()[1] if self._world is None else self._world

    def batch(self, step: int, rank: int | None = None, world: int | None = None, unit: int = 0) -> Batch:
        """Make the batch of one step and rank.

        Args:
            step: Step of the batch.
            rank: Rank of the batch; by default the rank of this process.
            world: Number of ranks; by default that of this process.
            unit: Number of the rank's unit, in batches by length; ``units`` of a batch is the number of them.

        Returns:
            The fields of the recipe, and

            - ``step``; ``ids``, ``sources`` and ``rows`` of the items, in order;
            - ``bad``: planned samples that could not be used (see ``on_error``);
            - ``valid``, in a finite run: False for padding;
            - ``global_label_tokens`` and other planned sums over all ranks, if the reader counts them;
            - in batches by length ``unit``, ``units``, ``global_samples`` and ``global_seconds`` or ``global_tokens``:
              planned sums over all ranks and units of the step.

            With several recipes: ``step``, and all of the above by name of the recipe, with ``slots``: the places of
            its samples in the rank's batch. Every recipe is included, even without samples.

        Raises:
            IndexError: If the run ends before this step.
            ContentError: If a sample is bad and ``on_error`` is ``raise``, or if its substitutes are bad as well.
        """
        return self.units(step, rank, world)[unit]

    def units(self, step: int, rank: int | None = None, world: int | None = None) -> list[Batch]:
        """Make all batches of one step and rank: one per unit, in batches by length; see ``batch``."""
        with self.walk(Steps(step, step + 1), rank, world) as walk:
            return [made.batch() for made in walk.units(step)]

    def walk(
        self, steps: Steps, rank: int | None = None, world: int | None = None, timeline: AnyTimeline | None = None
    ) -> Walk:
        """Open a walk over steps: each is planned once, and its bytes are fetched before it is requested.

        Args:
            steps: Steps that this process takes. With N workers, each takes every N-th step.
            rank: Rank of the batches; by default the rank of this process.
            world: Number of ranks; by default that of this process.
            timeline: Samples of each step; by default those of the run.
        """
        rank = self.rank if rank is None else rank
        world = self.world if world is None else world
        ahead = self.start_fetching(steps.stride)
        lookup = Lookup(self.plan, self.catalog, rank, world, timeline or self.timeline(world), steps)
        return Walk(lookup, self._maker, ahead, steps)

    def start_fetching(self, workers: int = 1) -> Ahead | None:
        """Open the stores and start fetching ahead, unless this process already did; see ``Fetching.start``."""
        return self._fetching.start(self._require_room, workers)

    def open_stores(self) -> NodeCache | None:
        """Open the stores of all sources; see ``Fetching.open_cache``."""
        return self._fetching.open_cache(self._require_room)

    def cache_counts(self) -> dict[str, int]:
        """Return the counters of the node cache over all processes of the node; empty if all stores are local."""
        return self._fetching.count_cache()

    def cache_held(self) -> tuple[int, int] | None:
        """Return about how many bytes the node cache holds, and its bound; None if all stores are local."""
        return self._fetching.cache_held()

    @property
    def recipes(self) -> Mapping[str, Recipe[Any]]:
        """Recipes by name."""
        return self._opened.recipes

    def by_recipe(self, batch: Batch) -> dict[str, Batch]:
        """Return the batch of each recipe by name, also for a run of one recipe, whose batches are flat."""
        names = list(self._opened.recipes)
        return {name: batch[name] for name in names} if len(names) > 1 else {names[0]: batch}

    def preview(self, recipe: str, batch: Batch, index: int) -> Iterable[tuple[str, bytes]]:
        """Return files that show one row of a recipe's batch: (extension, content) of each."""
        return self._opened.recipes[recipe].preview(batch, index)

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

    def report(
        self, step: int, losses: Any, *, rows: Sequence[int] | None = None, grad_norm: Any | None = None
    ) -> None:
        """Record the losses of a step in the ledger, for ``penstock spikes`` and ``penstock report``.

        Each rank reports its own. Tensors are copied on their device, and read when a line of the ledger is written:
        a training loop does not wait for them. If a step is reported again after a restart, the last report counts.

        Args:
            step: Step of the batch, ``batch["step"]``.
            losses: Losses of the rank's batch: one per sample, [B]; one per member of packs, all packs in one list, as
                ``penstock.per_sample_loss`` returns them; or a scalar, which says nothing about samples.
            rows: Rows of the batch that ``losses`` belong to, for a batch that is used in several micro-batches. By
                default all rows.
            grad_norm: Norm of the gradients of the step.

        Raises:
            ValueError: If the config has no ``usage``, or the shape of ``losses`` is another.
        """
        if not self._recording:
            return
        if self._losses is None:
            self._losses = self._open_losses()
        self._losses.add(step, losses, rows, grad_norm)

    def _open_losses(self) -> "LossLedger":
        usage = self.config.usage
        if usage is None:
            raise ValueError("losses are written to the ledger, and the run has none: add `usage: {}` to its config")
        from penstock.observe.losses import LossLedger

        return LossLedger(self, usage.log, every=usage.every)

    def log_to(self, target: "FigureTarget", *, every: int = 100) -> None:
        """Log figures of this rank while it trains: speed, waits, shares of sources, bad samples and the node cache.

        Args:
            target: Function that is called with a dict of figures and the step, such as ``wandb.log``; TensorBoard's
                ``SummaryWriter``; or a logger, which gets one line.
            every: Number of steps between two calls. Figures are about the steps since the call before.

        Examples:
            >>> import penstock
            >>> feed = penstock.open("run.yaml")
            >>> feed.log_to(lambda figures, step: print(step, "penstock/wait_seconds" in figures), every=2)
            >>> with feed.loader() as loader:
            ...     batches = [next(loader) for _ in range(4)]
            1 True
            3 True
        """
        if every < 1:
            raise ValueError(f"every must be 1 or more, not {every}")
        from penstock.observe.figures import FigureLog

        self.meter.listen(every, FigureLog(weakref.proxy(self), target, self.meter.totals()))

    def _serve_metrics(self) -> None:
        """Serve metrics, if the config says so. Of ranks that get the same batches, one does."""
        metrics = self.config.metrics
        if metrics is None or self._metrics is not None or not self._recording:
            return
        from penstock.observe.prometheus import MetricsServer

        self._metrics = MetricsServer(self, metrics.host, metrics.port + ranks.local(self.rank))

    def state(self, step: int) -> dict[str, Any]:
        """Return the state of the run after the trainer has used ``step`` batches."""
        self._sampled.flush()
        if self._losses is not None:
            self._losses.flush()
        return self._state(step)

    def _state(self, step: int) -> dict[str, Any]:
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
            self.close()
            self._make_plan(pool)
        self._timeline = timeline

    def _resume_sampler(self, state: Mapping[str, Any]) -> Steps:
        """Continue a ``for`` over a sampler from a state. Its ``DataLoader`` has started worker processes before.

        Raises:
            StateError: If the state changes what the workers have of this feed.
        """
        before = self._timeline
        pool = self._pool
        expected = self.timeline(self.world)
        start = self.resume(state)
        changed = "global batch size" if self.timeline(self.world) != expected else "pool"
        if self.timeline(self.world) != expected or self._pool != pool:
            self._continue(before, pool)
            raise StateError(
                f"this state has another {changed}, and workers that have started do not know it; call "
                "start = feed.resume(state) first, and pass sampler=feed.steps(start) to a new DataLoader"
            )
        return self.remaining(start)

    def loader(
        self,
        start: int = 0,
        *,
        threads: int | None = None,
        workers: int = 0,
        prefetch: int = 2,
        pin_memory: bool = False,
        fields: Collection[str] | None = None,
    ) -> "Loader":
        """Return a loader: an iterable of this rank's batches, from a step on.

        Args:
            start: First step.
            threads: Number of threads that make batches ahead; 4 by default. With 0, each batch is made on request.
            workers: Number of processes that make batches ahead, instead of threads.
            prefetch: Number of batches that each thread or worker makes ahead.
            pin_memory: Whether to copy tensors into page-locked memory. Without an accelerator, this only warns.
            fields: Names of the fields to return, such as ``["input_ids", "labels"]``; by default those of the config,
                or all. A field that a batch does not have, such as images in a batch of texts, is left out of it.
        """
        from penstock.loader import Loader

        self.start_fetching()  # reports a cache that is too small now, not at the first batch
        self._warn_of_uneven_epochs()
        self._serve_metrics()
        return Loader(
            self,
            start,
            threads=threads,
            workers=workers,
            prefetch=prefetch,
            pin_memory=pin_memory,
            fields=self.config.fields if fields is None else fields,
            ledger=self.open_ledger(),
        )

    def open_ledger(self, walk: str = "", worker: int = 0) -> "Ledger | None":
        """Open the ledger of this process, if the config has one.

        Args:
            walk: Id shared by the workers of a ``DataLoader``; empty for a process that makes all steps.
            worker: Number of this worker among them.
        """
        usage = self.config.usage
        if usage is None or not self._recording:
            return None
        from penstock.observe.ledger import Ledger

        if not walk:
            return Ledger(self, usage.log, every=usage.every, ids=usage.ids)
        # The steps of a worker are not consecutive, so each gets a line.
        return Ledger(self, usage.log, every=1, ids=usage.ids, walk=f"{self._name}-{walk}", worker=worker)

    def close(self) -> None:
        """Stop fetching ahead and release the node cache. The next batch starts it again."""
        self._sampled.close()
        if self._losses is not None:
            self._losses.close()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
        self._fetching.close()

    def remaining(self, start: int = 0) -> Steps:
        """Return the steps of the run from ``start`` on."""
        return Steps(start, self.plan.steps(self.timeline(self.world)))

    def steps(self, start: int = 0) -> Sampler:
        """Return the sampler for a ``DataLoader`` over this feed. Its indices are the steps from ``start`` on."""
        self._warn_of_uneven_epochs()
        self._serve_metrics()
        return Sampler(self.remaining(start), self._sampled, self._state, self._resume_sampler)

    def __getitem__(self, step: int) -> Batch | list[Batch]:
        units = self._sampled.units(self, step) or self.units(step)
        fields = self.config.fields
        found = units if fields is None else [only_fields(unit, fields) for unit in units]
        return found[0] if self.config.batch is None else found

    def __getstate__(self) -> dict[str, Any]:
        return {
            "config": self.config.model_copy(update={"pipelines": {}}),  # opened already; may not pickle
            "opened": self._opened,
            "rank": self.rank,
            "world": self.world,
            "recording": self._recording,
            "name": self._name,
            "timeline": self._timeline,
            "windows": self._windows.known if self._windows else {},
            "pool": self._pool,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Another process opens files and clients itself: descriptors and threads do not travel.
        given = {name: state[name] for name in ("rank", "world", "recording", "pool")}
        Feed.__init__(self, state["config"], state["opened"], **given)
        self._name = state["name"]
        self._timeline = state["timeline"]
        if self._windows is not None:
            self._windows.known = state["windows"]
