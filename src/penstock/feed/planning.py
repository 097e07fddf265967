"""Makes the plan from a checked configuration and a catalog: rounds, identity. Opens nothing."""

from collections.abc import Callable

import numpy as np

from penstock.config import Config, ConfigError, MixtureConfig, RoundsConfig, nearest
from penstock.feed.catalog import Catalog
from penstock.feed.excluding import Exclusions
from penstock.feed.identity import Identity
from penstock.feed.measuredcatalog import MeasuredCatalog
from penstock.feed.mixing import Changes, weight_changes
from penstock.feed.pooling import Pool, residents_of
from penstock.plan.bylength import ByLength
from penstock.plan.draws import Ints
from penstock.plan.endless import Endless
from penstock.plan.finite import Finite
from penstock.plan.mixture import Mixture
from penstock.plan.order import Order, Planned, Source
from penstock.plan.plan import Plan
from penstock.plan.rounds import Rounds, granted


def needs_sizes(config: Config) -> bool:
    """Return whether the order depends on the sizes of groups.

    It does in runs that are shuffled, make whole passes, are weighted by amounts or exclude items.
    """
    if config.shuffle or config.passes is not None or config.whole_epochs or config.exclude:
        return True
    return config.rounds is None and any(_are_amounts(mixture, config) for mixture in config.mixture)


def _are_amounts(mixture: MixtureConfig, config: Config) -> bool:
    """Return whether weights are amounts of data. The share of a single source is known without them."""
    if mixture.weights is None:
        return len(config.sources) > 1
    return isinstance(mixture.weights, str) and mixture.weights != "equal"


def mixture_changes(config: Config, catalog: Catalog) -> Changes:
    """Return (first sample, slots per source in a period) of every mixture; empty for a finite run.

    For rounds, returns the samples of each source per epoch, or per round if there are no epochs.
    """
    if config.passes is not None:
        return ()
    rounds = make_rounds(config, catalog)
    if rounds is not None:
        return ((0, rounds.counts),)
    return weight_changes(config, catalog)


def make_rounds(config: Config, catalog: Catalog) -> Rounds | None:
    """Return the rounds of a run; None if it has weights.

    Raises:
        ConfigError: If the caps leave no sample, or an epoch never ends.
    """
    keys = config.rounds
    if keys is None:
        return None
    _check_modalities(keys, catalog)
    counts = granted(
        [_cap(limit, keys.max_per_source) for limit in catalog.limits],
        catalog.modalities,
        max_per_modality=keys.max_per_modality,
        max_per_epoch=keys.max_per_epoch,
    )
    endless = [name for name, count in zip(catalog.sources, counts, strict=True) if count is None]
    if 0 < len(endless) < len(counts):
        raise ConfigError(
            f"mixture.rounds: {', '.join(endless[:12])} have no cap, so an epoch would never end and the other sources "
            "would not come back; set max_per_epoch or max_per_source, or a limit for each of these sources"
        )
    try:
        return Rounds(counts, repeat=keys.repeat)
    except ValueError as error:
        raise ConfigError(f"mixture.rounds: {error}") from None


def _check_modalities(keys: RoundsConfig, catalog: Catalog) -> None:
    known = list(dict.fromkeys(filter(None, catalog.modalities)))
    for name in keys.max_per_modality:
        if name not in known:
            near = nearest(name, known) or (f"; there are {', '.join(known)}" if known else "; no source has one")
            raise ConfigError(f"mixture.rounds.max_per_modality: no source has the modality {name!r}{near}")


def _cap(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def make_plan(config: Config, catalog: Catalog, changes: Changes, pool: Pool, exclusions: Exclusions) -> Plan:
    rounds = make_rounds(config, catalog)
    excluded = exclusions.items if config.batch is None else {}  # batches by length replace items by ones that fit
    sources = [_source(config, catalog, number, rounds) for number in range(len(catalog.sources))]
    residents = residents_of(pool, changes, len(sources))
    if config.passes is not None:
        finite = Finite(sources, passes=config.passes, residents=residents[0], seed=config.seed, excluded=excluded)
        windows = _by_length(config, catalog, finite, exclusions)
        epoch = None if windows is None else finite.length // config.passes
        return Plan(finite, drop_last=config.drop_last, uneven=config.uneven, epoch=epoch, windows=windows)
    turns = rounds or Mixture(changes, config.lanes)
    arranged = config.shuffle and rounds is None
    try:
        endless = Endless(sources, turns, residents=residents, seed=config.seed, arranged=arranged, excluded=excluded)
    except ValueError as error:
        raise ConfigError(f"exclude: {error}") from None
    epoch = rounds.epoch if rounds else _whole_epoch(config, catalog)
    costs = _costs(catalog) if config.balance else None
    windows = _by_length(config, catalog, endless, exclusions)
    return Plan(endless, uneven=config.uneven, epoch=epoch, windows=windows, costs=costs)


def _costs(catalog: Catalog) -> Callable[[Planned], Ints]:
    """Return the function of costs by which items are dealt to ranks.

    Raises:
        ConfigError: If a reader does not know them.
    """
    none = np.zeros(0, dtype=np.int64)
    catalog.costs(Planned(none, none, none, none, none, none))
    return catalog.costs


def _by_length(config: Config, catalog: Catalog, order: Order, exclusions: Exclusions) -> ByLength | None:
    """Return what plans batches by length; None for batches of a fixed size.

    Raises:
        ConfigError: If all items of a source are excluded.
    """
    if config.batch is None:
        return None
    assert isinstance(catalog, MeasuredCatalog)
    for source, excluded in exclusions.items.items():
        if len(excluded.item) >= excluded.sizes.sum() and config.passes is None:
            raise ConfigError(
                f"exclude: all {len(excluded.item):,} items of source {catalog.sources[source]!r} are excluded; give "
                "the source the weight 0 from that sample on instead"
            )
    return ByLength(
        order,
        catalog.lengths,
        lanes=1 if config.passes is not None else config.lanes,
        seed=config.seed,
        alone=config.batch.too_long == "alone",
        excluded=exclusions.items,
    )


def _whole_epoch(config: Config, catalog: Catalog) -> int | None:
    """Return the samples per epoch if batches end with it, else None."""
    if not config.whole_epochs:
        return None
    if len(catalog.sources) > 1:
        raise ConfigError(
            f"whole_epochs: needs a single source; the epochs of {len(catalog.sources)} sources end at different times"
        )
    items = int(catalog.group_sizes(0).sum())
    limit = catalog.limits[0]
    return items if limit is None else min(items, limit)


def make_identity(config: Config, catalog: Catalog, changes: Changes, pool: Pool, exclusions: Exclusions) -> Identity:
    """Return everything that determines the order, for states and ledgers."""
    weighted = config.passes is None and config.rounds is None
    return Identity(
        seed=config.seed,
        sources=tuple(_identity_of_source(config, catalog, number) for number in range(len(catalog.sources))),
        run=_run(config),
        lanes=1 if config.passes is not None else config.lanes,
        pool=pool if config.shuffle else None,
        mixture=changes,
        first=_first_samples(catalog, changes) if weighted else (),
        exclude=exclusions.changes,
    )


def _first_samples(catalog: Catalog, changes: Changes) -> tuple[int | None, ...]:
    """Return the sample from which the run depends on each source; None if it never does.

    It is the first draw from the source, or from a later source of its part: rows of a part are numbered in order.
    """
    mixture = Mixture(changes, 1)
    found: list[int | None] = []
    later: int | None = None
    numbers = range(len(catalog.sources))
    for source in reversed(numbers):
        own = mixture.slot(source, 0, None)
        if source + 1 == len(numbers) or not catalog.same_part(source, source + 1):
            later = None
        later = min((at for at in (own, later) if at is not None), default=None)
        found.append(later)
    return tuple(reversed(found))


def _identity_of_source(config: Config, catalog: Catalog, number: int) -> tuple[str | int, ...]:
    limit = catalog.limits[number] if config.rounds is None else None  # rounds have it among their counts
    named: tuple[str | int, ...] = (catalog.sources[number], catalog.fingerprints[number])
    if isinstance(catalog, MeasuredCatalog):  # the order of batches by length depends on all lengths
        named = (*named, catalog.length_digest(number))
        if options := catalog.length_key(number):
            named = (*named, options)
    return named if limit is None else (*named, limit)


def _run(config: Config) -> str:
    """Describe the kind of order."""
    kind = "endless" if config.passes is None else f"{config.passes} passes"
    if config.rounds is not None:
        kind = "rounds" if config.rounds.repeat == 1 else f"rounds, repeat {config.rounds.repeat}"
    if config.batch is not None and config.batch.too_long == "alone":  # it decides how every window is cut
        kind = f"{kind}, too_long: alone"
    return kind if config.shuffle else f"{kind}, in file order"


def _source(config: Config, catalog: Catalog, number: int, rounds: Rounds | None) -> Source:
    """Return a source for the plan. In rounds, a limit is a cap of the rounds and does not shorten the passes."""
    growing = catalog.growing(number)
    return Source(
        catalog.sources[number],
        catalog.group_sizes(number) if growing is None else growing,
        limit=catalog.limits[number] if rounds is None else None,
        repeat=rounds.repeat if rounds else 1,
        shuffled=config.shuffle,
    )
