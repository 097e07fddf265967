"""Statistics of features over several datasets, from those of each. Pure.

Mean, standard deviation, minimum and maximum follow exactly from those of the parts. Quantiles do not: an average of
quantiles is not a quantile, so they are left out where there are several parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Statistics = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""``min``, ``max``, ``mean``, ``std``, ``count`` and quantiles of each feature, by key."""

_EXACT = ("min", "max", "mean", "std", "count")


def as_arrays(raw: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> Statistics:
    """Return the statistics of a ``meta/stats.json`` as arrays.

    Args:
        raw: Statistics by feature of the dataset.
        names: Field name of each feature.
    """
    return {
        names[key]: {name: np.atleast_1d(np.asarray(value, dtype=np.float64)) for name, value in own.items()}
        for key, own in raw.items()
        if key in names
    }


def merged(parts: Sequence[Statistics]) -> Statistics:
    """Return the merged statistics of the features that all parts have with equal shapes."""
    if len(parts) == 1:
        return parts[0]
    common = [key for key in parts[0] if all(key in part for part in parts)]
    return {key: _merged([part[key] for part in parts]) for key in common if _fit([part[key] for part in parts])}


def _fit(own: Sequence[Mapping[str, NDArray[np.float64]]]) -> bool:
    if not all(name in each for each in own for name in _EXACT):
        return False
    return len({each["mean"].shape for each in own}) == 1 and sum(_count(each) for each in own) > 0


def _count(own: Mapping[str, NDArray[np.float64]]) -> float:
    return float(own["count"].sum() / max(1, own["count"].size))


def _merged(own: Sequence[Mapping[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
    counts = [_count(each) for each in own]
    total = sum(counts)
    mean = sum(count * each["mean"] for count, each in zip(counts, own, strict=True)) / total
    spread = sum(
        count * (each["std"] ** 2 + (each["mean"] - mean) ** 2) for count, each in zip(counts, own, strict=True)
    )
    return {
        "min": np.minimum.reduce([each["min"] for each in own]),
        "max": np.maximum.reduce([each["max"] for each in own]),
        "mean": np.asarray(mean),
        "std": np.sqrt(spread / total),
        "count": np.array([total]),
    }
