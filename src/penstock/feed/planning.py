"""From a checked configuration and a manifest to the plan: pool, weights, schedule. Opens nothing."""

from difflib import get_close_matches

import numpy as np

from penstock.config import Config, ConfigError, MixtureConfig
from penstock.plan.endless import Endless, Source
from penstock.plan.finite import Finite
from penstock.plan.plan import Plan
from penstock.plan.weights import slot_counts, temper
from penstock.readers.tar.manifest import Manifest

_POOLED_ITEMS = 65_536  # what `pool: auto` aims at a source: enough to mix well, small enough to plan in milliseconds

Changes = tuple[tuple[int, tuple[int, ...]], ...]


def pool_size(config: Config, manifest: Manifest) -> int:
    """Groups resident a source and lane; `auto` depends on the manifest alone."""
    if config.pool != "auto":
        return config.pool
    sizes = np.concatenate([manifest.group_sizes(source) for source in range(len(manifest.sources))])
    median = max(1, int(np.median(sizes)))
    return min(max(-(-_POOLED_ITEMS // median), 16), 128)


def mixture_changes(config: Config, manifest: Manifest) -> Changes:
    """(first sample, slots of each source in a period) of every mixture of the schedule; a finite run has none."""
    if config.passes is not None:
        return ()
    return tuple(
        (mixture.at, tuple(slot_counts(_weights(mixture, manifest), config.lanes).values()))
        for mixture in config.mixture
    )


def make_plan(config: Config, manifest: Manifest, changes: Changes, residents: int) -> Plan:
    sources = [Source(name, manifest.group_sizes(i).astype(np.int64)) for i, name in enumerate(manifest.sources)]
    if config.passes is not None:
        finite = Finite(sources, passes=config.passes, residents=residents, seed=config.seed)
        return Plan(finite, drop_last=config.drop_last, uneven=config.uneven)
    endless = Endless(sources, changes, lanes=config.lanes, residents=residents, seed=config.seed)
    return Plan(endless, uneven=config.uneven)


def _weights(mixture: MixtureConfig, manifest: Manifest) -> dict[str, float]:
    names = manifest.sources
    if mixture.weights == "hours":
        unknown = [name for name, total in zip(names, manifest.microseconds, strict=True) if not total]
        if unknown:
            raise ConfigError(
                f"mixture: weights by hours, but the manifest knows no durations of {', '.join(unknown)}; "
                "use items, equal or {name: weight}, or a filelist with seconds"
            )
        amounts: dict[str, float] = dict(zip(names, manifest.microseconds, strict=True))
    elif mixture.weights == "items":
        amounts = dict(zip(names, manifest.items, strict=True))
    elif mixture.weights == "equal":
        amounts = dict.fromkeys(names, 1)
    else:
        amounts = {name: mixture.weights.get(name, 0) for name in names}
        for name in mixture.weights:
            if name not in amounts:
                close = get_close_matches(name, names, n=1) or [", ".join(names[:12])]
                raise ConfigError(f"mixture.weights: no source is named {name!r}; did you mean {close[0]}?")
    try:
        return temper(amounts, mixture.temperature)
    except OverflowError:
        raise ConfigError(f"mixture.temperature: {mixture.temperature} is too high for these weights") from None
