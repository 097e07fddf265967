"""The number of resident groups of each source: from the config, the manifests and the weights. Knows no order."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.config import Config
from penstock.feed.catalog import Catalog
from penstock.feed.mixing import Changes
from penstock.plan.weights import shared_residents

_POOLED_ITEMS = 65_536  # target of `pool: auto` per source: mixes well, and is planned in milliseconds
_MAX_RESIDENTS = 8_192  # of `pool: auto` over all sources: 100,000 take up to 0.2 s per look at what is resident
_GROUPS_IN_FILE_ORDER = 2  # `pool: auto` in file order: the group that is read, and the next one

Pool = int | Mapping[str, int]
"""Resident groups per source and lane; or ``total`` over all sources, and at most ``each`` per source."""


def pool_of(config: Config, catalog: Catalog) -> Pool:
    """Return the pool of a run. With ``auto``, it depends on the sources that are there from the start."""
    if isinstance(config.pool, int):
        return config.pool
    each = _per_source(config, catalog)
    if isinstance(config.pool, dict):
        return {"total": config.pool["total"], "each": config.pool.get("each", each)}
    if config.passes is not None or not config.shuffle:
        return each
    residents = sum(min(each, len(catalog.group_sizes(source))) for source in _first(catalog))
    return each if residents <= _MAX_RESIDENTS else {"total": _MAX_RESIDENTS, "each": each}


def leaves_open(config: Config, pool: Pool) -> bool:
    """Return whether a config leaves a pool to the sources: a resumed run then keeps that of its state."""
    if isinstance(config.pool, dict):
        return isinstance(pool, Mapping) and {**pool, **config.pool} == pool
    return config.pool == "auto"


def _first(catalog: Catalog) -> list[int]:
    return [source for source, start in enumerate(catalog.starts) if not start]


def _per_source(config: Config, catalog: Catalog) -> int:
    if not config.shuffle:
        return _GROUPS_IN_FILE_ORDER
    first = _first(catalog)
    sizes = [catalog.group_sizes(source) for source in first if catalog.pool(source) is None]
    asked = [pool for source in first if (pool := catalog.pool(source)) is not None]
    if sizes:
        median = max(1, int(np.median(np.concatenate(sizes))))
        asked.append(min(max(-(-_POOLED_ITEMS // median), 16), 128))
    return max(asked)


def residents_of(pool: Pool, changes: Changes, sources: int) -> Sequence[int]:
    """Return the number of resident groups of each source in each lane.

    Args:
        pool: Pool of the run.
        changes: Mixtures of the run; empty for a finite run, which has one pool over all sources.
        sources: Number of sources.
    """
    if isinstance(pool, int):
        return [pool] * sources
    if not changes:
        return [pool["total"]] * sources
    return shared_residents(changes, pool["total"], pool["each"])
