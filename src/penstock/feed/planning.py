"""From a checked configuration and a catalog to the plan: pool, weights, schedule. Opens nothing."""

import numpy as np

from penstock.config import Config, ConfigError, MixtureConfig, nearest
from penstock.feed.catalog import Catalog
from penstock.plan.endless import Endless
from penstock.plan.finite import Finite
from penstock.plan.order import Source
from penstock.plan.plan import Plan
from penstock.plan.weights import slot_counts, temper

_POOLED_ITEMS = 65_536  # what `pool: auto` aims at per source: enough to mix well, small enough to plan in milliseconds

Changes = tuple[tuple[int, tuple[int, ...]], ...]


def pool_size(config: Config, catalog: Catalog) -> int:
    """Groups resident per source and lane; `auto` depends on the manifests alone."""
    if config.pool != "auto":
        return config.pool
    sizes = np.concatenate([catalog.group_sizes(source) for source in range(len(catalog.sources))])
    median = max(1, int(np.median(sizes)))
    return min(max(-(-_POOLED_ITEMS // median), 16), 128)


def mixture_changes(config: Config, catalog: Catalog) -> Changes:
    """(first sample, slots of each source in a period) of every mixture of the schedule; a finite run has none."""
    if config.passes is not None:
        return ()
    return tuple(
        (mixture.at, tuple(slot_counts(_weights(mixture, catalog), config.lanes).values()))
        for mixture in config.mixture
    )


def make_plan(config: Config, catalog: Catalog, changes: Changes, residents: int) -> Plan:
    sources = [Source(name, catalog.group_sizes(number)) for number, name in enumerate(catalog.sources)]
    if config.passes is not None:
        finite = Finite(sources, passes=config.passes, residents=residents, seed=config.seed)
        return Plan(finite, drop_last=config.drop_last, uneven=config.uneven)
    endless = Endless(sources, changes, lanes=config.lanes, residents=residents, seed=config.seed)
    return Plan(endless, uneven=config.uneven)


def _weights(mixture: MixtureConfig, catalog: Catalog) -> dict[str, float]:
    names = catalog.sources
    if isinstance(mixture.weights, dict):
        amounts = {name: mixture.weights.get(name, 0) for name in names}
        for name in mixture.weights:
            if name not in amounts:
                near = nearest(name, names) or f"; there are {', '.join(names[:12])}"
                raise ConfigError(f"mixture.weights: no source is named {name!r}{near}")
    elif mixture.weights == "equal":
        amounts = dict.fromkeys(names, 1.0)
    else:
        amounts = dict(zip(names, _amounts(mixture.weights, catalog), strict=True))
    try:
        return temper(amounts, mixture.temperature)
    except OverflowError:
        raise ConfigError(f"mixture.temperature: {mixture.temperature} is too high for these weights") from None


def _amounts(unit: str | None, catalog: Catalog) -> list[int]:
    """How much there is of each source. By default hours where they are known of all, else items."""
    if unit is None:
        unit = "hours" if all(catalog.amounts.get("hours", [0])) else "items"
    if unit not in catalog.amounts:
        valid = (*catalog.amounts, "equal")
        near = nearest(unit, valid)
        raise ConfigError(f"mixture.weights: {unit!r} is not one of {', '.join(valid)} or {{name: weight}}{near}")
    amounts = catalog.amounts[unit]
    unknown = [name for name, amount in zip(catalog.sources, amounts, strict=True) if not amount]
    if unknown:
        raise ConfigError(
            f"mixture: weights by {unit}, but they are not known of {', '.join(unknown)}; use items, equal or "
            f"{{name: weight}}, or data that tell their {unit}"
        )
    return amounts
