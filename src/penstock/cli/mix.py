"""``penstock mix``: how much of each source a run draws. Reads no data."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.console import Terminal
from penstock.cli.offline import World, open_offline
from penstock.cli.rows import print_rows
from penstock.cli.steps import parse_step_count
from penstock.feed import Feed
from penstock.manifest.manifest import UNITS


@dataclass(frozen=True, slots=True)
class SourceMix:
    """What a run draws of one source in a range of steps.

    Attributes:
        hours: None where they are not known.
        share: of the samples of these steps.
        per_batch: the quota of a global batch.
        samples: the quota of these steps.
        epochs: passes over the source from the start of the run to the end of these steps.
    """

    source: str
    items: int
    hours: float | None
    share: float
    per_batch: float
    samples: float
    epochs: float


def mix(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="Number of steps from the start, or A:B for steps A to B-1.")] = "1000",
    world: World = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the share, the samples due and the expected epochs of each source in some steps of a run. Reads no data."""
    wanted = parse_step_count(steps)
    feed = open_offline(config, 0, world)
    end = feed.plan.steps(feed.timeline(feed.world))
    if end is not None and wanted.start >= end:
        raise ValueError(f"--steps {steps}: the run has {end} steps")
    if end is not None:
        wanted = range(wanted.start, min(wanted.stop, end))
    found = list(_mixes(feed, wanted))
    if as_json:
        print_rows(map(asdict, found), as_json=True)
    else:
        _show(feed, wanted, found)


def _mixes(feed: Feed, steps: range) -> Iterator[SourceMix]:
    catalog = feed.catalog
    items = catalog.amounts["items"]
    hours = catalog.amounts.get("hours", [0] * len(items))
    quotas = _quotas(feed, steps)
    so_far = _quotas(feed, range(steps.stop))
    for number, name in enumerate(catalog.sources):
        samples = quotas[number]
        yield SourceMix(
            source=name,
            items=items[number],
            hours=hours[number] / UNITS["hours"] or None,
            share=samples / sum(quotas),
            per_batch=samples / len(steps),
            samples=samples,
            epochs=so_far[number] / items[number],
        )


def _quotas(feed: Feed, steps: range) -> list[float]:
    """The samples of each source that steps are entitled to; in a finite run every source by its number of items."""
    timeline = feed.timeline(feed.world)
    start = timeline.batch(steps.start)[0]
    stop = timeline.batch(steps.stop)[0]
    granted = feed.plan.order.quotas(start, stop)
    if granted is not None:
        return [float(quota) for quota in granted]
    items = feed.catalog.amounts["items"]
    length = feed.plan.order.length or 0
    return [(min(stop, length) - start) * count / sum(items) for count in items]


def _show(feed: Feed, steps: range, found: list[SourceMix]) -> None:
    table = Table("source")
    for column in ("items", "hours", "share", "per batch", "samples", "epochs"):
        table.add_column(column, justify="right")
    for one in found:
        hours = "" if one.hours is None else f"{one.hours:,.2f}"
        cells = (f"{one.items:,}", hours, f"{one.share:.2%}", f"{one.per_batch:,.2f}", f"{one.samples:,.1f}")
        table.add_row(one.source, *cells, f"{one.epochs:,.3f}")
    console = Terminal()
    console.print(table)
    timeline = feed.timeline(feed.world)
    console.print(
        f"steps {steps.start:,} to {steps.stop - 1:,}, in batches of {timeline.batch(steps.start)[1]:,} over all "
        "ranks; epochs count from the start of the run",
        soft_wrap=True,
    )
    for mixture in feed.config.mixture[1:]:
        console.print(f"another mixture from step {timeline.step(mixture.at):,} (sample {mixture.at:,}) on")
