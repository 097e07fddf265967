"""Figures of a run over its last steps, for TensorBoard, Weights & Biases or any function. Reads no ledger."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.feed.meter import Totals

log = logging.getLogger(__name__)

Figures = Mapping[str, float]
"""Values by name, such as ``penstock/samples_per_second``."""


class SummaryWriting(Protocol):
    """The part of TensorBoard's ``SummaryWriter`` that is used."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any) -> Any: ...


FigureTarget = Callable[[dict[str, float], int], Any] | SummaryWriting | logging.Logger
"""A function of figures and the step, a ``SummaryWriter``, or a logger."""


class NodeCacheFigures(Protocol):
    """The part of a feed that knows the node cache."""

    def cache_counts(self) -> dict[str, int]: ...

    def cache_held(self) -> tuple[int, int] | None: ...


class FigureLog:
    """Gives figures to a target, each time about the steps since the time before.

    Args:
        feed: Feed of the run. Must not be a strong reference: the feed owns this object.
        target: Receiver of the figures.
        totals: What was received before the first figures.
    """

    def __init__(self, feed: NodeCacheFigures, target: FigureTarget, totals: Totals) -> None:
        self._feed = feed
        self._send = _sender(target)
        self._before = totals
        self._since = time.perf_counter()
        self._cache = cache_counts(feed)
        self._warned = False

    def __call__(self, totals: Totals) -> None:
        """Send the figures of the steps since the last call. An error of the target is logged once."""
        now = time.perf_counter()
        cache = cache_counts(self._feed)
        figures = _figures(self._before, totals, now - self._since)
        figures |= _cache_figures(self._cache, cache, self._feed.cache_held())
        self._before = totals
        self._since = now
        self._cache = cache
        try:
            self._send(figures, totals.next_step - 1)
        except Exception as error:
            if not self._warned:
                log.warning("metrics of step %d were not logged: %r", totals.next_step - 1, error)
            self._warned = True


def cache_counts(feed: NodeCacheFigures) -> dict[str, int]:
    """Return the counters of the node cache; none if its disk cannot be read."""
    try:
        return feed.cache_counts()
    except OSError:
        return {}


def _sender(target: FigureTarget) -> Callable[[dict[str, float], int], Any]:
    if isinstance(target, logging.Logger | logging.LoggerAdapter):
        return lambda figures, step: target.info("step %d: %s", step, _sentence(figures))
    if hasattr(target, "add_scalar"):
        writer: SummaryWriting = target

        def add_all(figures: dict[str, float], step: int) -> None:
            for name, value in figures.items():
                writer.add_scalar(name, value, step)

        return add_all
    if not callable(target):
        raise TypeError(
            f"metrics go to a function of (figures, step), a SummaryWriter or a logger, not {type(target).__name__}"
        )
    return target


def _figures(before: Totals, now: Totals, seconds: float) -> dict[str, float]:
    samples = {name: count - before.samples.get(name, 0) for name, count in now.samples.items()}
    count = sum(samples.values())
    steps = max(1, now.steps - before.steps)
    waited = now.waited - before.waited
    return {
        "penstock/samples_per_second": count / max(seconds, 1e-9),
        "penstock/wait_seconds": waited / steps,
        "penstock/wait_share": min(1.0, waited / max(seconds, 1e-9)),
        "penstock/bad_samples": sum(now.bad.values()),
        **{f"penstock/share/{name}": own / max(1, count) for name, own in samples.items()},
    }


def _cache_figures(before: dict[str, int], now: dict[str, int], held: tuple[int, int] | None) -> dict[str, float]:
    if not now:
        return {}
    spent = {name: count - before.get(name, 0) for name, count in now.items()}
    found = {"penstock/downloaded_bytes": float(spent["bytes_fetched"])}
    if reads := spent["hits"] + spent["misses"]:
        found["penstock/cache_hit_share"] = spent["hits"] / reads
    if held is not None:
        found["penstock/cache_bytes"] = float(held[0])
    return found


def _sentence(figures: Figures) -> str:
    said = (
        f"{figures['penstock/samples_per_second']:,.1f} samples/s, "
        f"waited {figures['penstock/wait_share']:.1%} of the time ({1e3 * figures['penstock/wait_seconds']:.1f} ms "
        f"per step), {figures['penstock/bad_samples']:,.0f} bad samples so far"
    )
    if "penstock/cache_hit_share" in figures:
        said += f", cache hits {figures['penstock/cache_hit_share']:.1%}"
    return said
