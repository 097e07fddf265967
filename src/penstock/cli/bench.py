"""``penstock bench``: measures how fast this machine makes the batches of a run."""

import time
from typing import Annotated

import typer
from rich.table import Table

import penstock
from penstock.cli.console import Terminal
from penstock.cli.options import ConfigFile
from penstock.cli.progress import Progress


def bench(
    config: ConfigFile,
    steps: Annotated[int, typer.Option(min=1, help="Number of batches to measure.")] = 200,
    threads: Annotated[int | None, typer.Option(help="Threads that make batches ahead; 4 by default.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that make batches ahead, instead of threads.")] = 0,
) -> None:
    """Measure the time to the first batch, and samples per second."""
    began = time.perf_counter()
    feed = penstock.open(config, usage=None, metrics=None)  # without a ledger: a measurement is not part of the run
    opened = time.perf_counter()
    batches = 0
    samples = 0
    bad = 0
    with feed.loader(threads=threads, workers=workers) as loader, Progress("making batches") as progress:
        first = next(loader, None)
        if first is None:
            raise ValueError(f"{config}: the run has no batch: with drop_last, its data do not fill the first batch")
        ready = time.perf_counter()
        for _, batch in zip(progress.track(range(steps), steps), loader, strict=False):
            batches += 1
            for own in feed.by_recipe(batch).values():
                samples += sum(1 if isinstance(each, str) else len(each) for each in own["ids"])  # packs have several
                bad += len(own["bad"])
        seconds = time.perf_counter() - ready
    table = Table(show_header=False)
    table.add_row("open", f"{1000 * (opened - began):.0f} ms")
    table.add_row("first batch", f"{1000 * (ready - opened):.0f} ms")
    table.add_row("samples/s", f"{samples / seconds:,.0f}")
    table.add_row("batches/s", f"{batches / seconds:,.1f}")
    table.add_row("bad samples", str(bad + sum(len(own["bad"]) for own in feed.by_recipe(first).values())))
    Terminal().print(table)
