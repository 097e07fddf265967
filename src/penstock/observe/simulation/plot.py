"""A picture of a forecast: downloads, cache and evictions of every node over time. Knows no plan."""

from collections.abc import Callable
from pathlib import Path

from penstock.observe.simulation.forecast import Forecast
from penstock.observe.simulation.node import NodeMoment

_MAX_NODES = 8  # curves


def write_plot(found: Forecast, path: Path) -> None:
    """Write a picture of a forecast as PNG. Needs matplotlib."""
    from matplotlib.figure import Figure

    curves: list[tuple[str, Callable[[NodeMoment], float]]] = [
        ("downloaded, GB", lambda moment: moment.bytes_fetched / 1e9),
        ("requests", lambda moment: moment.requests),
        ("in the cache, GB", lambda moment: moment.held / 1e9),
        ("evictions", lambda moment: moment.evictions),
    ]
    hours = [seconds / 3600 for seconds in found.stalls.at]
    figure = Figure(figsize=(10, 9), layout="constrained")
    for number, (label, value) in enumerate(curves):
        axes = figure.add_subplot(len(curves), 1, number + 1)
        for node, simulated in enumerate(found.nodes[:_MAX_NODES]):
            axes.plot(hours, [value(moment) for moment in simulated.moments], label=f"node {node}", linewidth=1.2)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if number == 0 and len(found.nodes) > 1:
            axes.legend(fontsize="small", ncols=4)
        if number == len(curves) - 1:
            axes.set_xlabel("hours")
    figure.savefig(path, format="png", dpi=110)
