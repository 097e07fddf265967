"""Opens what a checked configuration names: parts, recipes and stores; and checks that the cache is large enough."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.config import Config, ConfigError, RemoteConfig, SourceEntry, StoreKeys
from penstock.feed.catalog import Catalog
from penstock.feed.mixing import Changes
from penstock.feed.planning import needs_sizes
from penstock.feed.pooling import Pool, residents_of
from penstock.pipelines.pipeline import Context, Part, optional_methods
from penstock.plan.excluding import Excluded
from penstock.readers.published import Published
from penstock.readers.reader import require_reader
from penstock.readers.shelf import bound as bound_shelf
from penstock.recipes.recipe import Recipe
from penstock.runtime import ranks
from penstock.runtime.daemons import DaemonPool
from penstock.store.cache.admission import CacheTooSmall
from penstock.store.cache.cache import NodeCache, own_control_folder, require_cache_folder
from penstock.store.cache.maintenance import INDEXES
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Unit
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path
from penstock.store.stores import Stores

_MAX_REQUESTED_SIZES = 1_000  # groups of a source, one after another
_SOURCES_AT_ONCE = 8  # resolved at the same time
_DEFAULT_CACHE_BYTES = 20 * 10**9


class Opened(NamedTuple):
    """The open parts, recipes and stores of a run. Pickles: another process opens its own files and clients.

    Attributes:
        parts: One part per entry of ``sources``.
        recipes: Recipes by name.
        stores: Stores of all parts.
    """

    parts: list[Part]
    recipes: dict[str, Recipe[Any]]
    stores: Stores


def cache_dir(config: Config) -> Path:
    """Return the folder of the node cache of a run."""
    if config.cache is not None:
        return config.cache.dir
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def open_context(config: Config, clock: Callable[[], int] = time.time_ns) -> Context:
    """Return what pipelines need to open the sources of a run.

    Args:
        config: Checked configuration of the run.
        clock: Clock of the node cache, in nanoseconds.
    """
    if any(isinstance(entry.keys, StoreKeys) and local_path(entry.keys.store) is None for entry in config.sources):
        require_cache_folder(cache_dir(config))  # before anything is written into it
    cache = config.cache
    group = cache.group if cache else None
    stores = Stores(cache_dir(config), cache.size if cache else _DEFAULT_CACHE_BYTES, group, clock=clock)
    # What runs learn about data is kept in the cache's folder, beside the objects.
    pool = config.pool if isinstance(config.pool, int) else None
    scratch = own_control_folder(cache_dir(config), group)
    bound_shelf(scratch / INDEXES, cache.size if cache else _DEFAULT_CACHE_BYTES)
    units = tuple(mixture.weights for mixture in config.mixture if isinstance(mixture.weights, str))
    if config.batch is not None and config.batch.tokens is not None:
        units += ("tokens",)
    return Context(stores, scratch, config.seed, needs_sizes(config), pool, units)


def index_name(config: Config) -> str:
    """Return the name of the published index of a run: a digest of the keys that may decide what is in it."""
    sources = [(entry.recipe, entry.keys.model_dump(exclude={"remote"})) for entry in config.sources]
    options = {entry.recipe: config.options[entry.recipe] for entry in config.sources}
    return hashlib.sha256(repr((sources, options)).encode(errors="surrogateescape")).hexdigest()[:16]


def resolve(config: Config) -> list[Any]:
    """Find where the data of all sources of a run are.

    Returns:
        Result of the pipeline for each entry of ``sources``; None if it has nothing to find.

    Raises:
        ConfigError: If a source cannot be resolved. The message lists all problems.
    """

    def found(entry: SourceEntry) -> Any:
        pipeline = optional_methods(config.pipelines[entry.recipe])
        try:
            return pipeline.resolve(entry.keys)
        except (ConfigError, OSError) as error:
            return error

    with DaemonPool(_SOURCES_AT_ONCE, "penstock-resolve") as pool:
        resolved = list(pool.map(found, config.sources))
    wrong = [(entry, each) for entry, each in zip(config.sources, resolved, strict=True) if isinstance(each, Exception)]
    if wrong:
        raise ConfigError("\n".join(f"sources: {entry.name or entry.recipe}: {error}" for entry, error in wrong))
    return resolved


def _with_own_rates(config: Config, nodes: int) -> Config:
    """Return a config whose ``requests_per_second`` are the part of one node."""
    sources = []
    for entry in config.sources:
        remote = getattr(entry.keys, "remote", None)
        if isinstance(remote, RemoteConfig) and remote.requests_per_second is not None:
            own = remote.model_copy(update={"requests_per_second": remote.requests_per_second / nodes})
            entry = entry._replace(keys=entry.keys.model_copy(update={"remote": own}))
        sources.append(entry)
    return config.model_copy(update={"sources": tuple(sources)})


def open_run(config: Config, clock: Callable[[], int] = time.time_ns) -> Opened:
    """Open all sources of a run. Reads no data, unless a source has to be indexed first.

    Args:
        config: Checked configuration of the run.
        clock: Clock of the node cache, in nanoseconds.
    """
    config = _with_own_rates(config, ranks.nodes() or config.lanes)
    context = open_context(config, clock)
    context.stores.opens_run = True
    if config.indexes is not None:
        options = StoreOptions(**config.indexes.remote.model_dump())
        Published(config.indexes.store, index_name(config), options).take(context.scratch / INDEXES)
    names = dict.fromkeys(entry.recipe for entry in config.sources)
    recipes = {name: config.pipelines[name].recipe(config.options[name]) for name in names}
    parts = []
    contexts = [
        context._replace(name=entry.name, resolved=resolved)
        for entry, resolved in zip(config.sources, resolve(config), strict=True)
    ]
    for entry, own in zip(config.sources, _prepared(config, recipes, contexts), strict=True):
        manifest, reader = config.pipelines[entry.recipe].open(entry.keys, recipes[entry.recipe].needs, own)
        if context.needs_sizes and manifest.growing is not None:
            raise ValueError(
                f"the pipeline {entry.recipe!r} returned a GrowingManifest, but this run needs all sizes at the start: "
                "a pipeline must check context.needs_sizes"
            )
        try:
            require_reader(reader)
        except TypeError as error:
            raise ConfigError(f"sources: {entry.name or entry.recipe}: {error}") from None
        parts.append(Part(entry.name, manifest, reader, entry.recipe, entry.at))
    for name, recipe in recipes.items():
        pipeline = optional_methods(config.pipelines[name])
        if pipeline.joins:
            pipeline.join(recipe, [part for part in parts if part.recipe == name])
    return Opened(parts, recipes, context.stores)


def _prepared(config: Config, recipes: Mapping[str, Recipe[Any]], contexts: Sequence[Context]) -> list[Context]:
    """Return the contexts of all entries, with what each pipeline has prepared for all of its entries together."""
    found = list(contexts)
    for name, recipe in recipes.items():
        pipeline = optional_methods(config.pipelines[name])
        if not pipeline.prepares:
            continue
        numbers = [number for number, entry in enumerate(config.sources) if entry.recipe == name]
        keys = [config.sources[number].keys for number in numbers]
        prepared = pipeline.prepare(keys, recipe, [contexts[number] for number in numbers], None)
        for number, each in zip(numbers, prepared, strict=True):
            found[number] = contexts[number]._replace(prepared=each)
    return found


def require_room(
    cache: NodeCache,
    catalog: Catalog,
    changes: Changes,
    pool: Pool,
    excluded: Mapping[int, Excluded],
    window: int = 0,
) -> None:
    """Check at the start of a run that the cache can hold all resident groups and the next one to enter.

    Uses exact sizes if they are known, as from an index, and otherwise the size of the first group of each source. If
    that does not fit, all sizes are requested from the stores, so that the error names a sufficient size.

    Args:
        cache: Node cache of the run.
        catalog: Parts of the run.
        changes: Mixtures of the run; empty for a finite run.
        pool: Pool of the run.
        excluded: Excluded items by number of the source. Groups that are excluded whole may no longer exist.
        window: Samples per window and lane of batches by length, whose groups are used until its end; 0 for batches
            of a fixed size.

    Raises:
        ConfigError: If the cache is too small.
    """
    residents = residents_of(pool, changes, len(catalog.sources))
    drawn = [i for i in range(len(catalog.sources)) if not changes or any(counts[i] for _, counts in changes)]

    kept = [residents[source] + _groups_of_windows(catalog, changes, source, window) for source in drawn]

    def needed(max_requested: int) -> int:
        with DaemonPool(16, "penstock-sizes") as threads:  # sizes may have to be requested from stores
            sizes = list(
                threads.map(lambda source: _group_bytes(catalog, source, max_requested, excluded.get(source)), drawn)
            )
        if not changes:  # a finite run: one pool over all sources
            sizes = [[size for each in sizes for size in each]]
        counts = kept[: len(sizes)]
        resident = sum(sum(sorted(each, reverse=True)[:count]) for each, count in zip(sizes, counts, strict=True))
        return resident + max((size for each in sizes for size in each), default=0)

    try:
        try:
            cache.require(needed(1))
        except CacheTooSmall:
            cache.require(needed(_MAX_REQUESTED_SIZES))
    except CacheTooSmall as error:
        raise ConfigError(f"cache.size: {error}, or the run a smaller pool than {pool}") from None


def _groups_of_windows(catalog: Catalog, changes: Changes, source: int, samples: int) -> int:
    """Return the number of groups of a source that enter during two windows: groups of a window stay until its end.

    Args:
        catalog: Parts of the run.
        changes: Mixtures of the run; empty for a finite run, whose sources have one pool.
        source: Number of the source.
        samples: Samples per window and lane.
    """
    if not samples:  # also where no group is known yet
        return 0
    if not changes:
        sizes = np.concatenate([catalog.group_sizes(each) for each in range(len(catalog.sources))])
        return math.ceil(2 * samples / float(sizes.mean()))
    share = max(counts[source] / sum(counts) for _, counts in changes)
    return math.ceil(2 * samples * share / float(catalog.group_sizes(source).mean()))


def _group_bytes(catalog: Catalog, source: int, max_requested: int, excluded: Excluded | None) -> list[int]:
    """Return the bytes of each group of a source in the cache. A unit of several groups counts for the first of them.

    Args:
        catalog: Parts of the run.
        source: Number of the source.
        max_requested: Maximum number of groups whose sizes are requested. The first size is assumed for the others.
        excluded: Excluded items of the source; None if there are none.
    """
    known = catalog.group_bytes(source)
    if known is not None:
        return known
    found = []
    seen: set[Unit] = set()
    typical = 0
    requested = 0
    for group in range(len(catalog.group_sizes(source))):
        if excluded is not None and excluded.is_ever_whole(group):
            continue
        units = [extent.unit for extent in catalog.resident(source, group)]
        new = {unit: unit.store for unit in units if unit not in seen}
        seen |= new.keys()
        cached = {unit: store for unit, store in new.items() if isinstance(store, CacheBackedStore)}
        sizes = [store.known_size(unit.path, unit.within) for unit, store in cached.items()]
        if requested < max_requested and (None in sizes or not requested):
            learnt = [store.resolve_size(unit.path, unit.within) for unit, store in cached.items()]
            typical = typical or sum(learnt)
            sizes = [*learnt]
            requested += 1
        if sizes:
            found.append(typical if None in sizes else sum(size or 0 for size in sizes))
    return found
