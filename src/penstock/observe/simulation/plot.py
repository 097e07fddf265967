"""A picture of a forecast: downloads, requests, cache and evictions of the nodes over time. Knows no plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from penstock.observe.simulation.curves import Floats
from penstock.observe.simulation.forecast import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_BINS = 150
_HOUR = 3_600.0


def write_plot(found: Forecast, path: Path) -> None:
    """Write a picture of a forecast as PNG: the mean over nodes, and a band from the least to the most. Needs
    matplotlib."""
    from matplotlib.figure import Figure

    setting = found.setting
    figure = Figure(figsize=(9, 8), layout="constrained")
    nodes = f"mean of {setting.nodes} nodes; the band is from the least to the most" if setting.nodes > 1 else "1 node"
    title = f"{setting.steps:,} steps, cache of {setting.cache_bytes / 1e9:,.0f} GB: {nodes}"
    figure.suptitle(title, fontsize="medium")
    axes = figure.subplots(4, 1, sharex=True)
    at = np.array([0.0, *found.stalls.at]) / _HOUR
    chosen = np.unique(np.linspace(0, len(at) - 1, _MAX_BINS + 1).astype(int))
    hours = at[chosen]
    lasts = np.maximum(np.diff(hours), 1e-12)
    for place, (name, label, scale) in enumerate(
        [
            ("bytes_fetched", "downloads,\nGB per hour", 1e9),
            ("requests", "requests\nper second", _HOUR),
            ("evictions", "evictions\nper hour", 1.0),
        ]
    ):
        rates = np.diff(_series(found, name)[:, chosen]) / lasts / scale
        _draw(axes[place], hours, np.concatenate([rates[:, :1], rates], axis=1), "pre")
        axes[place].set_ylabel(label)
    _draw(axes[3], hours, _series(found, "held")[:, chosen] / 1e9)
    axes[3].set_ylabel("in the cache,\nGB")
    for nbytes, label, style in (
        (setting.cache_bytes, "size of the cache", "--"),
        (found.least_cache, "pinned at most", ":"),
    ):
        axes[3].axhline(nbytes / 1e9, color="black", linestyle=style, linewidth=1, label=label)
    axes[3].legend(fontsize="small", loc="lower right")
    axes[3].set_xlabel("hours")
    for each in axes:
        each.set_ylim(bottom=0)
        each.set_xlim(0, hours[-1])
        each.grid(alpha=0.3)
    figure.savefig(path, format="png", dpi=110)


def _series(found: Forecast, name: str) -> Floats:
    """Return a count at every moment, from 0 at the start; shape (nodes, moments + 1)."""
    return np.array([[0.0, *(float(getattr(moment, name)) for moment in node.moments)] for node in found.nodes])


def _draw(axes: "Axes", hours: Floats, values: Floats, step: Literal["pre"] | None = None) -> None:
    axes.fill_between(hours, values.min(axis=0), values.max(axis=0), alpha=0.25, step=step, linewidth=0)
    axes.plot(hours, values.mean(axis=0), linewidth=1.3, drawstyle="steps-pre" if step else "default")
