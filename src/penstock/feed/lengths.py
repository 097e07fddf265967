"""Batches by length: which lengths count, and how the windows of a run are laid out. Opens nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.config import BatchConfig, Config, ConfigError
from penstock.feed.catalog import Catalog
from penstock.feed.measuredcatalog import Measure, MeasuredCatalog
from penstock.feed.mixing import Changes
from penstock.feed.pooling import Pool, residents_of
from penstock.pipelines.pipeline import Part
from penstock.plan.bylength import ByLength, WindowCut
from penstock.plan.plan import Plan
from penstock.plan.windowtimeline import WindowSegment, WindowTimeline
from penstock.readers.reader import optional_methods
from penstock.recipes.recipe import PaddedRecipe, Recipe

_PLANNED_LENGTHS = {"seconds": 10, "tokens": 1}  # counts per unit of a planned length
_TYPICAL_SAMPLES = 4_096  # at the start of a run, from which its mean length is taken
_MIN_STEPS = 64  # per window: fewer would leave much padding
_MIN_SAMPLES = 8_192  # per window: planned in milliseconds
_KEPT_SHARE = 0.95  # of the steps per window of the mixture before: one that needs no fewer keeps them


def make_measures(config: Config, parts: Sequence[Part], recipes: Mapping[str, Recipe[Any]]) -> dict[int, Measure]:
    """Return how the lengths of each part are counted.

    Raises:
        ConfigError: If a recipe does not pad its batches, its budget is missing, or a source has no lengths.
    """
    assert config.batch is not None
    names = list(dict.fromkeys(part.recipe for part in parts))
    found = {}
    for number, part in enumerate(parts):
        recipe = recipes[part.recipe]
        if not isinstance(recipe, PaddedRecipe):
            raise ConfigError(
                f"batch: the recipe {part.recipe}, as it is set, does not plan the lengths of its samples; use "
                "batch_size, or let it pad whole items: `crop: full` of speech, `padding: longest` of chat"
            )
        unit = recipe.length_unit
        if config.batch.budget(unit) is None:
            raise ConfigError(f"batch: the lengths of {part.recipe} are {unit}; give the budget of a unit in {unit}")
        if optional_methods(part.reader).lengths(np.zeros(0, np.int64), unit) is None:
            raise ConfigError(f"batch: the sources of {part.name or part.recipe} know no lengths in {unit}")
        _require_durations(part, unit)
        found[number] = _measure(config.batch, recipe, names.index(part.recipe))
    return found


def _measure(batch: BatchConfig, recipe: PaddedRecipe, kind: int) -> Measure:
    key = recipe.length_key
    if batch.quadratic_after is None:
        return Measure(recipe.length_unit, kind, recipe.planned_lengths, key)
    after = max(1, round(batch.quadratic_after * _PLANNED_LENGTHS[recipe.length_unit]))
    return Measure(recipe.length_unit, kind, recipe.planned_lengths, f"{key}, quadratic after {after}", after)


def _require_durations(part: Part, unit: str) -> None:
    amounts = part.manifest.amounts.get("hours")
    if unit == "seconds" and amounts is not None and not all(amounts):
        name = part.source_names[amounts.index(0)]
        raise ConfigError(
            f"batch: no durations are known of {name}; make an index with `penstock index`, which "
            "reads them from the headers of most audio files, or list them yourself (docs/lengths.md)"
        )


def budgets(batch: BatchConfig, measures: Mapping[int, Measure]) -> tuple[int, ...]:
    """Return the budget of each recipe, as planned lengths are counted."""
    units = {measure.kind: measure.unit for measure in measures.values()}
    return tuple(
        max(1, int((batch.budget(units[kind]) or 0) * _PLANNED_LENGTHS[units[kind]])) for kind in sorted(units)
    )


class WindowLayout:
    """Lays out the windows of a run.

    Args:
        config: Configuration of the run.
        plan: Plan of the run, with lengths.
        budget: Budget of each recipe, as planned lengths are counted.
        changes: Mixtures of the run.
        resident_items: Number of items in the pools of all sources.

    Attributes:
        known: Timelines of runs that start, by number of units.
    """

    def __init__(
        self, config: Config, plan: Plan, budget: tuple[int, ...], changes: Changes, resident_items: int
    ) -> None:
        assert config.batch is not None and plan.windows is not None
        self._batch = config.batch
        self._plan = plan
        self._windows: ByLength = plan.windows
        self._lanes = plan.windows.lanes
        self._budget = budget
        self._starts = [at for at, _ in changes[1:]]
        self._resident_items = resident_items
        self.known: dict[int, WindowTimeline] = {}  # by units

    @classmethod
    def of(cls, config: Config, plan: Plan, catalog: Catalog, changes: Changes, pool: Pool) -> "WindowLayout | None":
        """Return the windows of a run; None for batches of a fixed size.

        Args:
            config: Configuration of the run.
            plan: Plan of the run.
            catalog: Parts of the run.
            changes: Mixtures of the run.
            pool: Pool of the run.
        """
        if config.batch is None:
            return None
        assert isinstance(catalog, MeasuredCatalog)
        sizes = [catalog.group_sizes(source) for source in range(len(catalog.sources))]
        residents = residents_of(pool, changes, len(sizes))
        items = sum(int(np.sort(own)[-count:].sum()) for own, count in zip(sizes, residents, strict=True))
        return cls(config, plan, budgets(config.batch, catalog.measures), changes, items)

    def timeline(self, world: int) -> WindowTimeline:
        """Return the windows of a run that starts with some ranks."""
        units = self._batch.units or world
        if units not in self.known:
            first = self._segment(0, 0, units, 0)
            self.known[units] = self._with_mixtures(WindowTimeline((first,), self._plan.epoch))
        return self.known[units]

    def resumed(self, past: WindowTimeline, step: int) -> WindowTimeline:
        """Return the windows of a run that continues at a step.

        Other units, budgets or windows apply from this step on: they cut the unused slots of its window anew. If epochs
        have another length, which only ``strict=False`` lets pass, the windows are those of a run that starts.
        """
        past = past.until(step)
        last = past.segments[-1]
        units = self._batch.units or last.units
        self._require_lanes(units)
        if past.epoch != self._plan.epoch:
            return self.timeline(units)
        same = (units, self._budget) == (last.units, last.budget)
        asked = None if self._batch.window == "auto" else _rounded(self._batch.window, units)
        if same and asked in (None, last.window):
            return self._with_mixtures(past)
        kept = tuple(each for each in past.segments if each.step < step)
        if not kept:
            return self._with_mixtures(WindowTimeline((self._segment(0, 0, units, 0),), past.epoch))
        before = WindowTimeline(kept, past.epoch)
        window = before.window(step)
        used = window.start
        start = window.start
        if window.first < step:
            opened = WindowCut(self._windows, before).opened(step)
            used = (kept[window.segment].slot if window.rest else window.start) + opened.used_before(step)
            start = window.stop
        changed = self._segment(step, used, units, start)
        return self._with_mixtures(WindowTimeline((*kept, changed), past.epoch))

    def _segment(self, step: int, slot: int, units: int, start: int) -> WindowSegment:
        """Return a segment with its window and steps.

        Args:
            step: First step.
            slot: Number of slots that earlier steps used.
            units: Units per step.
            start: First slot of its whole windows.

        Raises:
            ConfigError: If lanes do not divide the units, or a typical sample is longer than the budget.
        """
        self._require_lanes(units)
        usual = self._samples_per_window(units)  # also refuses a budget that is too small
        window = usual if self._batch.window == "auto" else self._batch.window
        segment = WindowSegment(step, slot, units, self._budget, _rounded(window, units), 1)
        return segment._replace(steps=self._steps(segment, start))

    def _require_lanes(self, units: int) -> None:
        if units % self._lanes:
            raise ConfigError(
                f"lanes: {self._lanes} lanes do not divide the {units} units of a step; set batch.units to a multiple"
            )

    def _steps(self, segment: WindowSegment, start: int) -> int:
        """Return the steps per window of a segment whose windows begin at a slot, up to the next mixture or epoch."""
        epoch = self._plan.epoch
        ends = [max(at, start + segment.window) for at in self._starts if at > start][:1]
        ends += [] if epoch is None else [start - start % epoch + epoch]
        return self._windows.steps_per_window(segment, start, min(ends, default=None))

    def _samples_per_window(self, units: int) -> int:
        """Return the samples per window for ``auto``: 64 steps, or more if the groups in use are hardly more for it."""
        share = self._typical_share()
        fewest = int(_MIN_STEPS * units / share)
        most = [end for end in (self._plan.order.length, self._plan.epoch) if end is not None]
        return min([max(fewest, min(_MIN_SAMPLES, self._resident_items * self._lanes // 8)), *most])

    def _typical_share(self) -> float:
        """Return the mean share of its budget that a sample takes.

        Raises:
            ConfigError: If a typical sample is longer than the budget.
        """
        ends = [end for end in (self._plan.order.length, self._plan.epoch) if end is not None]
        shares = self._windows.shares_of_budget(min([_TYPICAL_SAMPLES, *ends]), self._budget)
        median = float(np.median(shares))
        if median > 1 and self._batch.too_long == "skip":
            raise ConfigError(
                f"batch: half of the samples are longer than the budget of a unit, the median {median:.1f} times as "
                "long; give a larger budget"
            )
        return float(np.minimum(shares, 1).mean())

    def _with_mixtures(self, timeline: WindowTimeline) -> WindowTimeline:
        """Return the timeline with the steps per window of later mixtures."""
        for at in self._starts:
            last = timeline.segments[-1]
            base = timeline.last_grid()
            start = base + -(-(at - base) // last.window) * last.window
            if start <= base:
                continue
            steps = self._steps(last, start)
            if _KEPT_SHARE * last.steps <= steps <= last.steps:
                continue
            step = timeline.last_window(start).first
            changed = WindowSegment(step, start, last.units, last.budget, last.window, steps)
            timeline = WindowTimeline((*timeline.segments, changed), timeline.epoch)
        return timeline


def _rounded(window: int, units: int) -> int:
    return -(-window // units) * units
