"""From a checked configuration to what it names: parts, recipes, stores, and whether the cache is large enough."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from penstock.config import Config, ConfigError, SourceEntry, StoreKeys
from penstock.feed.catalog import Catalog
from penstock.feed.planning import Changes, needs_sizes
from penstock.pipelines.pipeline import AnyPipeline, Context, Part
from penstock.recipes.recipe import Recipe
from penstock.runtime.daemons import DaemonPool
from penstock.store.cache.admission import CacheTooSmall
from penstock.store.cache.cache import NodeCache, own_scratch, require_cache_folder
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Unit
from penstock.store.remote.urls import local_path
from penstock.store.stores import Stores

_MOST_ASKED = 1_000  # objects of a source whose sizes are asked for one after another
_RESOLVED_AT_ONCE = 8  # sources
_CACHE_BYTES = 20 * 10**9  # of remote stores' data, where the config says nothing


class Opened(NamedTuple):
    """What a run consists of. It pickles: another process opens files and clients for itself, and lists nothing."""

    parts: list[Part]
    recipes: dict[str, Recipe[Any]]
    stores: Stores


def cache_dir(config: Config) -> Path:
    """The node cache of a run."""
    if config.cache is not None:
        return config.cache.dir
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def open_context(config: Config) -> Context:
    """Open what pipelines need to open the sources of a run."""
    if any(isinstance(entry.keys, StoreKeys) and local_path(entry.keys.store) is None for entry in config.sources):
        require_cache_folder(cache_dir(config))  # before anything is written into it
    cache = config.cache
    group = cache.group if cache else None
    stores = Stores(cache_dir(config), cache.size if cache else _CACHE_BYTES, group)
    # What is learnt between runs is kept in the cache's folder, beside the objects.
    pool = None if config.pool == "auto" else config.pool
    scratch = own_scratch(cache_dir(config), group)
    units = tuple(mixture.weights for mixture in config.mixture if isinstance(mixture.weights, str))
    return Context(stores, scratch, config.seed, needs_sizes(config), pool, units)


def resolve(config: Config) -> list[Any]:
    """Find out where the data of all sources of a run are.

    Returns:
        What each pipeline found, by entry of ``sources``; None where it has nothing to find out.

    Raises:
        ConfigError: All that is wrong with any of them, in one message.
    """

    def found(entry: SourceEntry) -> Any:
        pipeline: AnyPipeline = config.pipelines[entry.recipe]
        try:
            return pipeline.resolve(entry.keys)
        except (ConfigError, OSError) as error:
            return error

    with DaemonPool(_RESOLVED_AT_ONCE, "penstock-resolve") as pool:
        resolved = list(pool.map(found, config.sources))
    wrong = [(entry, each) for entry, each in zip(config.sources, resolved, strict=True) if isinstance(each, Exception)]
    if wrong:
        raise ConfigError("\n".join(f"sources: {entry.name or entry.recipe}: {error}" for entry, error in wrong))
    return resolved


def open_run(config: Config) -> Opened:
    """Open all sources of a run. Reads no data, unless a source has to be indexed for it."""
    context = open_context(config)
    context.stores.opens_run = True
    names = dict.fromkeys(entry.recipe for entry in config.sources)
    recipes = {name: config.pipelines[name].recipe(config.options[name]) for name in names}
    parts = []
    for entry, resolved in zip(config.sources, resolve(config), strict=True):
        own = context._replace(name=entry.name, resolved=resolved)
        manifest, reader = config.pipelines[entry.recipe].open(entry.keys, recipes[entry.recipe].needs, own)
        if context.needs_sizes and manifest.growing is not None:
            raise ValueError(
                f"the pipeline {entry.recipe!r} returned a manifest whose index grows, but this run needs all sizes at "
                "its start: a pipeline must look at context.needs_sizes"
            )
        parts.append(Part(entry.name, manifest, reader, entry.recipe))
    for name, recipe in recipes.items():
        pipeline: AnyPipeline = config.pipelines[name]
        if pipeline.joins:
            pipeline.join(recipe, [part for part in parts if part.recipe == name])
    return Opened(parts, recipes, context.stores)


def require_room(cache: NodeCache, catalog: Catalog, changes: Changes, residents: int) -> None:
    """Fail now, not in the middle of a run, if the cache can't hold what is resident at once and what enters next.

    Exact where the sizes of objects are known, as from an index; otherwise the first group of a source stands for its
    others. If that does not fit, stores are asked for the sizes of all, so that the error names a size that is enough.
    """
    drawn = [i for i in range(len(catalog.sources)) if not changes or any(counts[i] for _, counts in changes)]

    def needed(most_asked: int) -> int:
        with DaemonPool(16, "penstock-sizes") as pool:  # stores may have to be asked
            sizes = list(pool.map(lambda source: _group_bytes(catalog, source, most_asked), drawn))
        if not changes:  # a finite run: one pool over all sources
            sizes = [[size for each in sizes for size in each]]
        resident = sum(sum(sorted(each, reverse=True)[:residents]) for each in sizes)
        return resident + max((size for each in sizes for size in each), default=0)

    try:
        try:
            cache.require(needed(1))
        except CacheTooSmall:
            cache.require(needed(_MOST_ASKED))
    except CacheTooSmall as error:
        raise ConfigError(f"cache.size: {error}, or the run a smaller pool than {residents}") from None


def _group_bytes(catalog: Catalog, source: int, most_asked: int) -> list[int]:
    """What each group of a source takes in the cache; a unit of several groups counts for the first of them.

    Args:
        catalog: sources of the run.
        source: number of the source.
        most_asked: maximum number of groups whose sizes are requested. The first stands for the others.
    """
    told = catalog.group_bytes(source)
    if told is not None:
        return told
    found = []
    seen: set[Unit] = set()
    typical = 0
    asked = 0
    for group in range(len(catalog.group_sizes(source))):
        units = [extent.unit for extent in catalog.resident(source, group)]
        new = {unit: unit.store for unit in units if unit not in seen}
        seen |= new.keys()
        cached = {unit: store for unit, store in new.items() if isinstance(store, CacheBackedStore)}
        sizes = [store.known_size(unit.path, unit.within) for unit, store in cached.items()]
        if asked < most_asked and (None in sizes or not asked):
            learnt = [store.resolve_size(unit.path, unit.within) for unit, store in cached.items()]
            typical = typical or sum(learnt)
            sizes = [*learnt]
            asked += 1
        if sizes:
            found.append(typical if None in sizes else sum(size or 0 for size in sizes))
    return found
