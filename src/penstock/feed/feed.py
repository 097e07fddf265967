"""The feed: step -> batch. Plan, manifest, source and recipe in one function that remembers nothing between calls."""

import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.config import Config
from penstock.feed.ahead import Ahead
from penstock.feed.lookup import Looked, Lookup
from penstock.feed.opening import make_recipe, open_manifest, open_store, require_room, scratch_dir
from penstock.feed.planning import make_plan, mixture_changes, pool_size
from penstock.feed.state import Identity, global_batch_size, read_state, write_state
from penstock.plan.endless import Endless, Planned
from penstock.plan.plan import Use
from penstock.plan.timeline import Timeline
from penstock.readers.tar.reader import TarSource
from penstock.recipes.sample import Recipe, Sample
from penstock.runtime import ranks
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Store
from penstock.store.cache.cached import CachedStore

if TYPE_CHECKING:
    from penstock.loader import Loader

_ATTEMPTS = 8  # substitutes tried for a bad sample


@dataclass(frozen=True, slots=True)
class Bad:
    """A planned item that could not be used, and why. The slot is the one in the rank's batch."""

    slot: int
    row: int
    shard: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """One planned sample, in words."""

    step: int
    rank: int
    slot: int
    source: str
    epoch: int
    group: str
    item: str


class Made(NamedTuple):
    """A batch as a recipe leaves it: still with arrays where the trainer gets tensors.

    A worker process hands this over, so it does without torch where the recipe does.
    """

    fields: dict[str, Any]
    facts: dict[str, Any]

    def batch(self) -> dict[str, Any]:
        return {**{name: _as_tensor(value) for name, value in self.fields.items()}, **self.facts}


class Feed:
    """A training run as a function from the step to the batch.

    ``feed.batch(step, rank, world)`` is the same whoever calls it, whenever, in whatever order. The feed is also a
    map-style dataset whose index is the step: ``DataLoader(feed, batch_size=None, sampler=feed.steps(), …)``.
    """

    def __init__(self, config: Config, *, rank: int | None = None, world: int | None = None) -> None:
        self.config, self._rank, self._world = config, rank, world
        self.manifest = open_manifest(config)
        residents, changes = pool_size(config, self.manifest), mixture_changes(config, self.manifest)
        self.plan = make_plan(config, self.manifest, changes, residents)
        run, lanes = ("endless", config.lanes) if config.passes is None else (f"{config.passes} passes", 1)
        self.identity = Identity(config.seed, self.manifest.fingerprint, run, lanes, residents, changes)
        self._ahead: Ahead | None = None
        self.reset_after_fork()
        reset_in_children(self)
        self._timeline: Timeline | None = None  # set by a state; else the batch size times the caller's world

    def reset_after_fork(self) -> None:
        self._starting = threading.RLock()

    @cached_property
    def store(self) -> Store:
        """What shards are read from. Opened at the first batch, like the recipe: a plan needs neither."""
        return open_store(self.config, self.manifest)

    @cached_property
    def _source(self) -> TarSource:
        return TarSource(self.store, self.manifest, shelf=scratch_dir(self.config) / "indexes")

    @cached_property
    def _recipe(self) -> Recipe:
        return make_recipe(self.config, self._source)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.plan, self.manifest, self._source, self._recipe.files, self.config.seed)

    @property
    def rank(self) -> int:
        """This process's rank: as given, else as its launcher says."""
        return ranks.current()[0] if self._rank is None else self._rank

    @property
    def world(self) -> int:
        return ranks.current()[1] if self._world is None else self._world

    def batch(self, step: int, rank: int = 0, world: int = 1) -> dict[str, Any]:
        """One rank's batch of a step: the recipe's fields, and

        - ``step``; ``ids``, ``sources`` and manifest ``rows`` of the items, in order;
        - ``bad``: what was planned and could not be used (see ``on_error``);
        - ``valid``, in a finite run: False marks padding.
        """
        return self.made(step, rank, world).batch()

    def made(self, step: int, rank: int | None = None, world: int | None = None) -> Made:
        """What ``batch`` is about to hand out; by default of this process's rank."""
        rank, world = self.rank if rank is None else rank, self.world if world is None else world
        ahead = self._fetching()
        if ahead is None:
            return self._make(step, rank, world)
        whose = (rank, world, self.timeline(world))
        with ahead.making(step, lambda later: self._planned_or_none(later, rank, world), whose):
            return self._make(step, rank, world)

    def _fetching(self) -> Ahead | None:
        """What fetches ahead of the steps. Made at the first of them: a plan is looked at without asking the store."""
        if self._ahead is None and isinstance(self.store, CachedStore):
            with self._starting:
                if self._ahead is None:
                    require_room(self.store, self.manifest, self.identity.mixture, self.identity.pool)
                    how = self.config.prefetch
                    self._ahead = Ahead(
                        self.manifest,
                        self.plan.order,
                        self._source,
                        self.store,
                        how.steps,
                        how.concurrency,
                        how.bandwidth,
                    )
                    # Its threads would outlive the feed; not at exit, where they may be in the middle of a request.
                    weakref.finalize(self, self._ahead.close).atexit = False
        return self._ahead

    def _make(self, step: int, rank: int, world: int) -> Made:
        timeline = self.timeline(world)
        looked = self._lookup.batch(step, rank, world, timeline)
        work = self._recipe.start(len(looked.samples))
        used, bad = self._fill(work, looked)
        facts: dict[str, Any] = {
            "step": step,
            "ids": [sample.id if sample else "" for sample in used],
            "sources": [sample.source if sample else "" for sample in used],
            "rows": np.array([sample.row if sample else -1 for sample in used]),
            "bad": bad,
        }
        if self.config.passes is not None:
            facts["valid"] = facts["rows"] >= 0
        return Made(self._recipe.finish(work), facts)

    def planned(self, step: int, rank: int = 0, world: int = 1) -> Planned:
        """What a batch is to hold, in integers; reads no data."""
        return self.plan.batch(step, rank, world, self.timeline(world))

    def _planned_or_none(self, step: int, rank: int, world: int) -> Planned | None:
        steps = self.plan.steps(self.timeline(world))
        if steps is not None and step >= steps:
            return None
        return self.plan.batch(step, rank, world, self.timeline(world))

    def _fill(self, work: Any, looked: Looked) -> tuple[list[Sample | None], list[Bad]]:
        """Make every row, of its sample or of a substitute. The samples used, None where a row stays empty; the bad."""
        order, bad = self.plan.order, list[Bad]()
        used = list(looked.samples)
        wanted = {row: sample for row, sample in enumerate(used) if sample is not None}
        for attempt in range(1, _ATTEMPTS + 2):
            errors = self._recipe.fill(work, list(wanted), list(wanted.values()))
            tried, wanted = wanted, {}
            for row in sorted(errors):
                if self.config.on_error == "raise" or attempt > _ATTEMPTS:
                    raise errors.pop(row)
                sample, used[row] = tried[row], None
                bad.append(Bad(row, sample.row, self._shard(sample.row), sample.id, str(errors[row])))
                if isinstance(order, Endless):  # a finite pass never substitutes
                    wanted[row] = used[row] = self._lookup.stand_in(order, int(looked.slots[row]), attempt)
            if not wanted:
                break
        return used, sorted(bad, key=lambda each: each.slot)

    def lines(self, step: int, rank: int = 0, world: int = 1) -> Iterator[Line]:
        """The plan of a batch, a line a sample; padding is left out. Reads no data."""
        planned = self.planned(step, rank, world)
        for slot in np.flatnonzero(planned.item >= 0).tolist():
            source, group, item = (int(a[slot]) for a in (planned.source, planned.group, planned.item))
            row = self.manifest.rows(source, group, item)
            epoch, name = int(planned.epoch[slot]), self.manifest.ids(row)[0]
            yield Line(step, rank, slot, self.manifest.sources[source], epoch, self._shard(int(row)), name)

    def where(self, item: str, epochs: range = range(1), world: int = 1) -> Iterator[tuple[str, Use]]:
        """Every planned use, in the given epochs of its source, of every item that an id or ``shard:id`` names."""
        for row in self.manifest.find(item).tolist():
            source, group, place = (int(number) for number in self.manifest.locate(row))
            uses = self.plan.uses(source, group, place, epochs, world=world, timeline=self.timeline(world))
            for use in uses:
                yield f"{self._shard(row)}:{self.manifest.ids(row)[0]}", use

    def _shard(self, row: int) -> str:
        return self.manifest.shard(int(self.manifest.shard_of(row))).path

    def timeline(self, world: int) -> Timeline:
        """Which samples each step takes."""
        return self._timeline or Timeline.constant(global_batch_size(self.config, world))

    def state(self, step: int) -> dict[str, Any]:
        """The state after ``step`` batches were used: the number to give is the trainer's own."""
        return write_state(self.config, self.identity, self.timeline(self.world), step)

    def resume(self, state: Mapping[str, Any], *, strict: bool = True) -> int:
        """Take over a state, of any number of ranks and workers; returns the step to go on from."""
        step, self._timeline = read_state(state, self.config, self.identity, world=self.world, strict=strict)
        return step

    def loader(self, start: int = 0, *, threads: int | None = None, workers: int = 0, prefetch: int = 2) -> "Loader":
        """Walk the feed from a step on, as this process's rank: in threads, or in ``workers`` processes.

        Each of them is ``prefetch`` batches ahead of the caller.
        """
        from penstock.loader import Loader
        from penstock.observe.ledger import Ledger

        self._fetching()  # a cache that is too small is told now
        usage = self.config.usage
        ledger = Ledger(self, usage.log, every=usage.every, ids=usage.ids) if usage else None
        return Loader(self, start, threads=threads, workers=workers, prefetch=prefetch, ledger=ledger)

    def cache_counts(self) -> dict[str, int]:
        """What the node cache has done so far, over all processes of the node; nothing for a local folder."""
        return asdict(self.store.cache.counters.node()) if isinstance(self.store, CachedStore) else {}

    def close(self) -> None:
        """End what fetches ahead and unpin what it holds in the node cache. The next batch begins it anew."""
        ahead, self._ahead = self._ahead, None
        if ahead:
            ahead.close()
        if "_source" in self.__dict__:  # else nothing was opened yet
            self._source.close()
            self.store.close()

    def steps(self, start: int = 0) -> "Steps":
        """The sampler of a ``DataLoader`` over this feed: its indices are steps, from ``start`` on."""
        return Steps(start, self.plan.steps(self.timeline(self.world)))

    def __getitem__(self, step: int) -> dict[str, Any]:
        return self.made(step).batch()

    def __len__(self) -> int:
        steps = self.plan.steps(self.timeline(self.world))
        if steps is None:
            raise TypeError("an endless feed has no length; set passes for a finite one")
        return steps

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "rank": self.rank, "world": self.world, "timeline": self._timeline}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Another process opens the same files itself: descriptors, clients and threads do not travel.
        Feed.__init__(self, state["config"], rank=state["rank"], world=state["world"])
        self._timeline = state["timeline"]


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value)


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps from ``start`` to ``stop`` (None: for ever), as a sampler."""

    start: int
    stop: int | None

    def __iter__(self) -> Iterator[int]:
        step = self.start
        while self.stop is None or step < self.stop:
            yield step
            step += 1

    def __len__(self) -> int:
        if self.stop is None:
            raise TypeError("an endless feed has no length; set passes for a finite one")
        return max(0, self.stop - self.start)
