"""``penstock mix``: the share of each source in a run. Reads no data."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from penstock.cli.console import Terminal, counted, print_rows
from penstock.cli.offline import open_offline
from penstock.cli.options import AsJson, ConfigFile, StepCount, World, parse_step_count
from penstock.cli.progress import Progress
from penstock.feed import Feed
from penstock.manifest.manifest import UNITS, spoken_hours
from penstock.observe.lengths import LengthMix, mix_lengths


@dataclass(frozen=True, slots=True)
class SourceMix:
    """What a run draws from one source in a range of steps.

    Attributes:
        source: Name of the source.
        items: Number of items; None if unknown.
        hours: Duration in hours; None if unknown.
        share: Share of the samples of these steps.
        per_batch: Expected samples per global batch.
        samples: Expected samples in these steps.
        epochs: Passes over the source from the start of the run to the end of these steps; None without items.
        at: First sample of the run that may draw from it; None if none does.
    """

    source: str
    items: int | None
    hours: float | None
    share: float
    per_batch: float
    samples: float
    epochs: float | None
    at: int | None


def mix(
    config: ConfigFile,
    steps: StepCount = "1000",
    world: World = None,
    as_json: AsJson = False,
) -> None:
    """Show the share, samples and epochs of each source in some steps of a run.

    Reads no data, unless the run has to be indexed first. For packed chat data, items and samples are packs. For
    batches by length, also shows the share of padding, the steps per epoch and the largest batch.
    """
    wanted = parse_step_count(steps)
    feed = open_offline(config, 0, world)
    end = feed.plan.steps(feed.timeline(feed.world))
    if end is not None and wanted.start >= end:
        raise ValueError(f"--steps {steps}: the run has {end} steps")
    if end is not None:
        wanted = range(wanted.start, min(wanted.stop, end))
    found = list(_mixes(feed, wanted))
    with Progress("planning windows") as progress:
        lengths = mix_lengths(feed, wanted, progress.update)
    if as_json:
        print_rows([*map(asdict, found), *([asdict(lengths)] if lengths else [])], as_json=True)
    else:
        _show(feed, wanted, found, lengths)


def _mixes(feed: Feed, steps: range) -> Iterator[SourceMix]:
    catalog = feed.catalog
    items = catalog.amounts["items"]
    per_pass = _samples_per_pass(feed)
    hours = catalog.amounts.get("hours", [0] * len(items))
    quotas = _quotas(feed, steps)
    so_far = _quotas(feed, range(steps.stop))
    total = sum(quotas)
    for number, name in enumerate(catalog.sources):
        samples = quotas[number]
        yield SourceMix(
            source=name,
            items=items[number] or None,
            hours=hours[number] / UNITS["hours"] or None,
            share=samples / total,
            per_batch=samples / len(steps),
            samples=samples,
            epochs=so_far[number] / per_pass[number] if per_pass[number] else None,
            at=_first_sample(feed, number),
        )


def _first_sample(feed: Feed, source: int) -> int | None:
    """Return the first sample of the first mixture that has a weight for a source."""
    changes = feed.identity.mixture or ((0, (1,) * len(feed.catalog.sources)),)
    return next((at for at, counts in changes if counts[source]), None)


def _quotas(feed: Feed, steps: range) -> list[float]:
    """Return the expected samples of each source in some steps: by weight, or by items in a finite run."""
    timeline = feed.timeline(feed.world)
    start, stop = timeline.span(steps.start, steps.stop)
    granted = feed.plan.order.quotas(start, stop)
    if granted is not None:
        return [float(quota) for quota in granted]
    items = _samples_per_pass(feed)
    length = feed.plan.order.length or 0
    return [(min(stop, length) - start) * count / sum(items) for count in items]


def _samples_per_pass(feed: Feed) -> list[int]:
    """Return the samples per pass of each source; 0 if unknown. In rounds, a limit does not end a pass."""
    items = feed.catalog.amounts["items"]
    if feed.config.rounds is not None:
        return [count * feed.config.rounds.repeat for count in items]
    limits = zip(items, feed.catalog.limits, strict=True)
    return [count if limit is None else min(count, limit) for count, limit in limits]


def _show(feed: Feed, steps: range, found: list[SourceMix], lengths: LengthMix | None) -> None:
    table = Table("source")
    has_hours = any(one.hours is not None for one in found)
    per_step = "per batch" if lengths is None else "per step"
    for column in ("items", *(["duration"] if has_hours else []), "share", per_step, "samples", "epochs"):
        table.add_column(column, justify="right")
    for one in found:
        items = "" if one.items is None else f"{one.items:,}"
        hours = ["" if one.hours is None else spoken_hours(one.hours)] if has_hours else []
        epochs = "" if one.epochs is None else f"{one.epochs:,.3f}"
        drawn = (f"{one.share:.2%}", f"{one.per_batch:,.2f}", f"{one.samples:,.1f}")
        table.add_row(one.source, items, *hours, *drawn, epochs)
    console = Terminal()
    console.print(table)
    timeline = feed.timeline(feed.world)
    if lengths is not None:
        _show_lengths(lengths, steps, console)
    else:
        size = feed.plan.rows(steps.start, 0, 1, timeline)
        console.print(
            f"steps {steps.start:,} to {steps.stop - 1:,}, in batches of {size:,} "
            "over all ranks; epochs count from the start of the run",
            soft_wrap=True,
        )
    for name, limit in zip(feed.catalog.sources, feed.catalog.limits, strict=True):
        if limit is not None and feed.config.rounds is None:
            console.print(f"an epoch of {name} has at most {limit:,} of its items (limit)")
    if timeline.epoch is not None and lengths is None:
        console.print(f"rounds: an epoch has {timeline.epoch:,} samples, and batches end with it")
    for (_, before), (at, counts) in pairwise(feed.identity.mixture):
        console.print(
            f"another mixture applies from step {timeline.first_step(at):,} (sample {at:,}) on"
            f"{_named(feed, '; new', counts, before)}{_named(feed, '; no longer', before, counts)}",
            soft_wrap=True,
        )


def _show_lengths(found: LengthMix, steps: range, console: Console) -> None:
    """Print the batches of a range of steps."""
    exceeded = "never exceeded" if found.largest <= 1 else "exceeded only by longer samples, each alone in a unit"
    lines = [
        f"steps {steps.start:,} to {steps.stop - 1:,}, each of {counted(found.units, 'unit')} over all ranks; epochs "
        "count from the start of the run",
        f"windows of {found.window_samples:,} samples in {found.window_steps:,} steps, "
        f"{counted(found.windows, 'window')} planned: {found.useful:.1%} of a padded batch is data, and batches fill "
        f"{found.filled:.1%} of the budget",
        f"{counted(round(found.steps_per_epoch or 0), 'step')} for as many samples as there are items",
        f"largest batch {_size(found)} and {counted(found.largest_samples, 'sample')}; the budget is {exceeded}",
        f"a window uses up to {counted(found.groups, 'group')}; a step leans {found.lean:.2f} from the mixture, which "
        "holds at the end of every window",
    ]
    if found.extra:
        named = ", ".join(f"{step:,}" for step in found.extra)
        lines.append(
            f"windows with additional units, at the steps from {named} on: their samples are longer than usual"
        )
    if found.left_out:
        lines.append(
            f"left out: {counted(found.left_out, 'sample')} longer than the budget, such as {found.longest}; "
            "`too_long: alone` gives each a unit for itself"
        )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _size(found: LengthMix) -> str:
    share = f"{found.largest:.1%} of the budget"
    if found.largest_tokens is not None:
        return f"{found.largest_tokens:,} tokens ({share})"
    return share if found.largest_seconds is None else f"{found.largest_seconds:,.1f} s ({share})"


def _named(feed: Feed, text: str, counts: tuple[int, ...], others: tuple[int, ...]) -> str:
    """Return a text and the sources that have slots in one mixture but not in another; empty if there are none."""
    pairs = zip(feed.catalog.sources, counts, others, strict=True)
    names = ", ".join(name for name, count, other in pairs if count and not other)
    return f"{text}: {names}" if names else ""
