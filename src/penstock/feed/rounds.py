"""From the caps of a configuration and of its sources to rounds. Opens nothing."""

from penstock.config import Config, ConfigError, RoundsConfig, nearest
from penstock.feed.catalog import Catalog
from penstock.plan.rounds import Rounds, granted


def make_rounds(config: Config, catalog: Catalog) -> Rounds | None:
    """The rounds of a run; None if it has weights.

    Raises:
        ConfigError: the caps leave no sample, or an epoch without an end.
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
            f"mixture.rounds: nothing limits {', '.join(endless[:12])}, so an epoch would never end and the other "
            "sources would not come back; give max_per_epoch or max_per_source, or a limit of each of these sources"
        )
    try:
        return Rounds(counts, repeat=keys.repeat)
    except ValueError as error:
        raise ConfigError(f"mixture.rounds: {error}") from None


def _check_modalities(keys: RoundsConfig, catalog: Catalog) -> None:
    known = list(dict.fromkeys(filter(None, catalog.modalities)))
    for name in keys.max_per_modality:
        if name not in known:
            near = nearest(name, known) or (f"; there are {', '.join(known)}" if known else "; they have none at all")
            raise ConfigError(f"mixture.rounds.max_per_modality: no source has the modality {name!r}{near}")


def _cap(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
