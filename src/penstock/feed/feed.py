"""The feed: step -> batch. Joins plan, parts and recipes in one function without memory between calls."""

import secrets
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.config import Config
from penstock.feed.ahead import Ahead
from penstock.feed.batches import Batch, only_fields
from penstock.feed.cachesize import require_room
from penstock.feed.fetching import Fetching
from penstock.feed.lookup import Lookup
from penstock.feed.making import BatchMaker
from penstock.feed.meter import Meter
from penstock.feed.opening import Opened
from penstock.feed.plannedrun import PlannedRun
from penstock.feed.pooling import Pool
from penstock.feed.sampled import Sampled
from penstock.feed.state import StateError
from penstock.feed.steps import Sampler, Steps
from penstock.feed.walk import Walk
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


class Feed(PlannedRun):
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
        super().__init__(config, opened, rank, world, pool)
        self._opened = opened
        self._recording = recording  # False: another process gets the same batches, and writes the ledger
        self._name = secrets.token_hex(4)  # distinguishes the workers of a restarted trainer from earlier ones
        self._fetching = Fetching(self.catalog, opened.stores, config.prefetch)
        self._maker = BatchMaker(
            self.catalog,
            opened.recipes,
            replace=config.on_error == "substitute",
            padded=config.passes is not None or config.batch is not None,
            costs=config.balance,
        )
        self._metrics: MetricsServer | None = None
        self.reset_after_fork()
        reset_in_children(self)

    def _require_room(self, cache: NodeCache) -> None:
        timeline = self.timeline(self.world)
        window = timeline.segments[-1].window // self.identity.lanes if isinstance(timeline, WindowTimeline) else 0
        require_room(cache, self.catalog, self._changes, self._pool, self._exclusions.items, window)

    def reset_after_fork(self) -> None:
        self._sampled = Sampled(self.config.max_bad)
        self._losses: LossLedger | None = None
        self.meter = Meter()

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
        """Serve metrics, if the config asks for them. Ranks that get the same batches have one server."""
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
        return super().state(step)

    def _continue(self, timeline: AnyTimeline | None, pool: Pool) -> None:
        if pool != self._pool:
            self.close()  # what is fetched ahead belongs to another plan
        super()._continue(timeline, pool)

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

    def steps(self, start: int = 0) -> Sampler:
        """Return the sampler for a ``DataLoader`` over this feed. Its indices are the steps from ``start`` on."""
        self._warn_of_uneven_epochs()
        self._serve_metrics()
        return Sampler(self.remaining(start), self._sampled, super().state, self._resume_sampler)

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
