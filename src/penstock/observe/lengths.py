"""Sums up batches by length: padding, steps per epoch, and the largest batch. Reads no data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.feed import Feed
from penstock.feed.measuredcatalog import MeasuredCatalog
from penstock.plan.bylength import WindowCut
from penstock.plan.draws import Ints
from penstock.plan.openwindow import OpenWindow
from penstock.plan.windowtimeline import WindowTimeline

_MAX_WINDOWS = 8  # that are planned, spread evenly over the steps
_TENTHS = 10  # of a second: the unit of planned lengths


@dataclass(slots=True)
class LengthMix:
    """Batches by length in a range of steps.

    Attributes:
        windows: Number of windows that were planned.
        window_samples: Samples per window.
        window_steps: Steps per window.
        units: Units per step.
        useful: Share of a padded batch that is not padding.
        filled: Share of the budget that batches take when padded.
        steps_per_epoch: Steps of a pass; in an endless run, those in which as many samples come as there are items.
        largest: Largest batch when padded, as a share of the budget; 1.0 is never exceeded.
        largest_seconds: Largest padded length of a batch in seconds; None if lengths are not in seconds.
        largest_tokens: The same in tokens.
        largest_samples: Largest number of samples of a batch.
        lean: Mean distance of a step's shares of sources from those of its window: total variation, 0 to 1.
        extra: First step of each window that needs additional units.
        left_out: Number of samples that are longer than the budget.
        longest: Name of one of them.
        groups: Largest number of groups that a window uses.
    """

    windows: int
    window_samples: int
    window_steps: int
    units: int
    useful: float = 0.0
    filled: float = 0.0
    steps_per_epoch: float | None = None
    largest: float = 0.0
    largest_seconds: float | None = None
    largest_tokens: int | None = None
    largest_samples: int = 0
    lean: float = 0.0
    extra: list[int] = field(default_factory=list)
    left_out: int = 0
    longest: str | None = None
    groups: int = 0


def mix_lengths(feed: Feed, steps: range, progress: Callable[[int, int], None]) -> LengthMix | None:
    """Plan some windows, and sum up their batches; None if the run has batches of a fixed size.

    Args:
        feed: Feed of the run.
        steps: Steps.
        progress: Function that is called with the number of windows that were planned, and of all.
    """
    timeline = feed.timeline(feed.world)
    if not isinstance(timeline, WindowTimeline):
        return None
    several = list(_windows(timeline, steps))
    segment = timeline.segments[timeline.window(steps.start).segment]
    found = LengthMix(len(several), segment.window, segment.steps, segment.units)
    budget = int(np.lcm.reduce(segment.budget))
    cut = feed.plan.cut(timeline)
    assert isinstance(cut, WindowCut)
    catalog = feed.catalog
    assert isinstance(catalog, MeasuredCatalog)
    units = {measure.unit for measure in catalog.measures.values()}
    useful = padded = counted = batches = leaning = dealt_steps = 0.0
    largest = 0
    for number, step in enumerate(several, 1):
        opened = cut.opened(step)
        counts = np.diff(opened.dealt.unit_starts)
        own = opened.lengths[opened.dealt.slots - opened.window.start]
        # With one unit of lengths the square of a length is no padding; parts of several budgets have none.
        lengths = catalog.planned_lengths(opened.items(opened.dealt.slots))[0] if len(units) == 1 else own
        sizes = _padded(own, opened)
        when_padded = _padded(lengths, opened)
        useful += float(lengths.sum())
        padded += float(when_padded.sum())
        counted += float(sizes.sum())
        largest = max(largest, int(when_padded.max(initial=0)))
        batches += len(counts)
        found.largest = max(found.largest, float(sizes.max(initial=0)) / budget)
        found.largest_samples = max(found.largest_samples, int(counts.max(initial=0)))
        leaning += _lean(opened)
        dealt_steps += opened.window.steps
        found.groups = max(found.groups, len(np.unique((opened.planned.source << 40) + opened.planned.group)))
        if len(counts) > opened.window.steps * segment.units:
            found.extra.append(opened.window.first)
        if len(opened.dealt.left_out):
            found.left_out += len(opened.dealt.left_out)
            found.longest = feed.catalog.item_names(opened.items(opened.dealt.left_out[:1]))[0]
        progress(number, len(several))
    found.useful = useful / padded if padded else 0.0
    found.filled = counted / (batches * budget) if batches else 0.0
    found.lean = leaning / dealt_steps if dealt_steps else 0.0
    stop = feed.remaining().stop
    if stop is None:
        found.steps_per_epoch = sum(feed.catalog.amounts["items"]) * segment.steps / segment.window
    else:
        found.steps_per_epoch = stop / (feed.config.passes or 1)
    found.largest_seconds = largest / _TENTHS if units == {"seconds"} else None
    found.largest_tokens = largest if units == {"tokens"} else None
    return found


def _padded(lengths: Ints, opened: OpenWindow) -> Ints:
    """Return the padded length of each unit that has samples: their number times the longest."""
    starts = opened.dealt.unit_starts
    counts = np.diff(starts)
    filled = np.flatnonzero(counts)
    padded: Ints = np.maximum.reduceat(lengths, starts[filled]) * counts[filled] if len(filled) else lengths
    return padded


def _windows(timeline: WindowTimeline, steps: range) -> Iterator[int]:
    """Yield the first step of windows that hold these steps: of all, or of some that are spread evenly."""
    firsts = []
    step = steps.start
    while step < steps.stop:
        window = timeline.window(step)
        firsts.append(max(window.first, steps.start))
        step = timeline.used_until(window)
    chosen = np.unique(np.linspace(0, len(firsts) - 1, min(len(firsts), _MAX_WINDOWS)).astype(int))
    yield from (firsts[number] for number in chosen.tolist())


def _lean(opened: OpenWindow) -> float:
    """Return the sum over steps of the distance of their shares of sources from those of the window."""
    source = opened.planned.source[opened.dealt.slots - opened.window.start]
    starts = opened.dealt.unit_starts[opened.dealt.step_units]
    step = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    width = int(source.max(initial=0)) + 1
    table = np.bincount(step * width + source, minlength=(len(starts) - 1) * width).reshape(-1, width)
    shares = table / np.maximum(1, table.sum(axis=1, keepdims=True))
    whole = table.sum(axis=0) / max(1, table.sum())
    return float(np.abs(shares - whole).sum() / 2)
