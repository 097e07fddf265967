"""Weights of a run: its mixtures, and the sources that come later, as changes of whole numbers. Opens nothing."""

from penstock.config import Config, ConfigError, MixtureConfig, nearest
from penstock.feed.catalog import Catalog
from penstock.plan.weights import slot_counts, stages, temper

Changes = tuple[tuple[int, tuple[int, ...]], ...]
"""(first sample, slots per source in a period) of each mixture of a run."""


def weight_changes(config: Config, catalog: Catalog) -> Changes:
    """Return the changes of a run with weights.

    A mixture begins a change, and so does a source that comes while the mixture is used, if it has a weight.
    """
    changes: list[tuple[int, dict[str, int]]] = []
    for mixture, end in zip(config.mixture, [*(each.at for each in config.mixture[1:]), None], strict=True):
        counts = slot_counts(_weights(mixture, catalog, mixture.at), config.lanes)
        entering = sorted({at for at in catalog.starts if at > mixture.at and (end is None or at < end)})
        if mixture.until is None:
            changes.append((mixture.at, counts))
        else:
            changes += _approached(mixture, mixture.until, changes[-1][1], counts, config.lanes)
            _check_stages(mixture, entering, catalog)
        for at in entering:
            counts = slot_counts(_weights(mixture, catalog, at), config.lanes)
            if counts != changes[-1][1]:
                changes.append((at, counts))
    return tuple((at, tuple(counts.values())) for at, counts in changes)


def _approached(
    mixture: MixtureConfig, until: int, before: dict[str, int], after: dict[str, int], lanes: int
) -> list[tuple[int, dict[str, int]]]:
    """Return the changes by which the weights of a mixture are approached."""
    counts = [slot_counts(weights, lanes) for weights in stages(before, after, mixture.stages)]
    last = mixture.stages - 1
    samples = [mixture.at + number * (until - mixture.at) // last for number in range(mixture.stages)]
    return list(zip(samples, [*counts, after], strict=True))


def _check_stages(mixture: MixtureConfig, entering: list[int], catalog: Catalog) -> None:
    """Raise ``ConfigError`` if a source comes while the weights of a mixture are approached."""
    if entering and entering[0] <= (mixture.until or 0):
        name = catalog.sources[catalog.starts.index(entering[0])]
        raise ConfigError(
            f"sources: {name} comes at sample {entering[0]}, between `at: {mixture.at}` and `until: {mixture.until}` "
            f"of a mixture; let it come at {mixture.at}, or after {mixture.until}"
        )


def _weights(mixture: MixtureConfig, catalog: Catalog, at: int) -> dict[str, float]:
    """Return the weights of a mixture at a sample: 0 of sources that come later."""
    names = catalog.sources
    if isinstance(mixture.weights, dict):
        amounts = {name: mixture.weights.get(name, 0) for name in names}
        for name in mixture.weights:
            if name not in amounts:
                near = nearest(name, names) or f"; there are {', '.join(names[:12])}"
                raise ConfigError(f"mixture.weights: no source is named {name!r}{near}")
    elif mixture.weights == "equal" or catalog.growing(0) is not None:  # by amounts, only one source alone may grow
        amounts = dict.fromkeys(names, 1.0)
    else:
        unit = mixture.weights or _default_unit(catalog, mixture.at)
        amounts = dict(zip(names, _amounts(unit, catalog, at), strict=True))
    present = {name: amounts[name] if start <= at else 0 for name, start in zip(names, catalog.starts, strict=True)}
    if any(amounts.values()) and not any(present.values()):
        raise ConfigError(f"mixture: at sample {at} there is no source yet that has a weight")
    try:
        return temper(present, mixture.temperature)
    except OverflowError:
        raise ConfigError(f"mixture.temperature: {mixture.temperature} is too high for these weights") from None


def _default_unit(catalog: Catalog, at: int) -> str:
    """Return hours if they are known for all sources of a sample, else items."""
    hours = catalog.amounts_at(at).get("hours")
    known = hours and all(own for own, start in zip(hours, catalog.starts, strict=True) if start <= at)
    return "hours" if known else "items"


def _amounts(unit: str, catalog: Catalog, at: int) -> list[int]:
    """Return the amount per epoch of each source of a sample; 0 of others."""
    known = catalog.amounts_at(at)
    if unit not in known:
        valid = (*known, "equal")
        near = nearest(unit, valid)
        raise ConfigError(f"mixture.weights: {unit!r} is not one of {', '.join(valid)} or {{name: weight}}{near}")
    amounts = known[unit]
    sources = zip(catalog.sources, catalog.starts, amounts, strict=True)
    unknown = [name for name, start, amount in sources if not amount and start <= at]
    if unknown:
        raise ConfigError(
            f"mixture: weights by {unit}, but the {unit} of {', '.join(unknown)} are unknown; use items, equal or "
            f"{{name: weight}}, or data with known {unit}"
        )
    return [
        amount if limit is None or not amount else max(1, amount * min(items, limit) // items)
        for amount, items, limit in zip(amounts, known["items"], catalog.limits, strict=True)
    ]
