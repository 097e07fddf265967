"""Curves over steps as SVG pictures, by matplotlib. Knows numbers and names; knows nothing of runs."""

import io
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.observe.page.markup import Markup, element

Curve = Sequence[float] | npt.NDArray[Any]

COLOURS = (
    *("#0b6e63", "#c05621", "#4053b8", "#a3317f", "#6b7f12", "#1781b5", "#8a5a3c", "#5f6673"),
    *("#2f9e77", "#e08a3c", "#7a6bd0", "#d06a9b", "#a0a93a", "#5fb3d9", "#b58a6a", "#9aa1ad"),
)
MAX_CURVES = 40
_INK = "#3a3d44"
_GRID = "#8a8d9440"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, in a font of the reader's browser
    "svg.hashsalt": "penstock",  # the same picture every time
    "font.family": "sans-serif",
    "font.size": 7.5,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "lines.linewidth": 1.2,
    "lines.solid_joinstyle": "round",
}


class Band(NamedTuple):
    """A range of values to shade, such as a bound."""

    low: float
    high: float


def chart(
    title: str,
    steps: Curve,
    curves: Mapping[str, Curve],
    *,
    label: str,
    dashed: Mapping[str, Curve] | None = None,
    band: Band | None = None,
    zero: bool = True,
) -> Markup:
    """Return a picture of curves over steps, and its legend.

    Args:
        title: Title, for those who cannot see the picture.
        steps: Steps of the values.
        curves: Values by name, at most ``MAX_CURVES``; NaN where there is none.
        label: Label of the axis of values.
        dashed: Curves to compare those of the same names with.
        band: Range of values to shade.
        zero: Whether the axis of values begins at 0.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    shown = dict(list(curves.items())[:MAX_CURVES])
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scripts that matplotlib's own font does not have; a browser's has
        figure = Figure(figsize=(10, 2.6))
        axes = figure.add_subplot()
        if band is not None:
            axes.axhspan(*band, color=COLOURS[0], alpha=0.12, linewidth=0)
            for edge in band:
                axes.axhline(edge, color=COLOURS[0], linewidth=0.8, linestyle=(0, (2, 2)))
        for number, (name, values) in enumerate(shown.items()):
            colour = COLOURS[number % len(COLOURS)]
            line = np.asarray(values, dtype=np.float64)
            axes.plot(steps, line, color=colour, marker="o", markersize=4, markevery=_alone(line))
            if dashed is not None and name in dashed:
                axes.plot(steps, dashed[name], color=colour, linewidth=1, linestyle=(0, (1, 2)), alpha=0.8)
        axes.grid(axis="y", color=_GRID, linewidth=0.6)
        axes.tick_params(length=0)
        axes.set_ylabel(label)
        axes.set_xlabel("step", loc="right", labelpad=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        if zero and band is None:
            axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    picture = f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"
    legend = element("p", [_swatch(number, name) for number, name in enumerate(shown)], class_="legend")
    plot = element("div", element("img", src=picture, alt=title, class_="plot"), class_="scroll", tabindex="0")
    return element("div", plot, legend if len(shown) > 1 else None)


def _alone(values: npt.NDArray[np.float64]) -> list[int]:
    """Return the places of values without a neighbour, which a line does not show."""
    known = np.pad(np.isfinite(values), 1)
    return np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()


def _swatch(number: int, name: str) -> Markup:
    colour = COLOURS[number % len(COLOURS)]
    mark = element("svg", element("rect", width="12", height="4", y="4", fill=colour), viewBox="0 0 12 12")
    return element("span", mark, element("bdi", name))
