"""Opens what a checked configuration names: parts, recipes and stores."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.config import Config, ConfigError, RemoteConfig, SourceEntry, StoreKeys
from penstock.feed.planning import needs_sizes
from penstock.pipelines.pipeline import Context, Part, optional_methods
from penstock.readers.published import Published
from penstock.readers.reader import require_reader
from penstock.readers.shelf import bound as bound_shelf
from penstock.recipes.recipe import Recipe
from penstock.runtime import ranks
from penstock.runtime.daemons import DaemonPool
from penstock.store.cache.cache import own_control_folder, require_cache_folder
from penstock.store.cache.maintenance import INDEXES
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path
from penstock.store.stores import Stores

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


def cache_bytes(config: Config) -> int:
    """Return the bound of the node cache of a run."""
    return _DEFAULT_CACHE_BYTES if config.cache is None else config.cache.size


def open_context(config: Config, clock: Callable[[], int] = time.time_ns) -> Context:
    """Return what pipelines need to open the sources of a run.

    Args:
        config: Checked configuration of the run.
        clock: Clock of the node cache, in nanoseconds.
    """
    if any(isinstance(entry.keys, StoreKeys) and local_path(entry.keys.store) is None for entry in config.sources):
        require_cache_folder(cache_dir(config))  # before anything is written into it
    group = config.cache.group if config.cache else None
    stores = Stores(cache_dir(config), cache_bytes(config), group, clock=clock)
    # What runs learn about data is kept in the cache's folder, beside the objects.
    pool = config.pool if isinstance(config.pool, int) else None
    scratch = own_control_folder(cache_dir(config), group)
    bound_shelf(scratch / INDEXES, cache_bytes(config))
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
