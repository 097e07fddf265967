"""``penstock spikes``: ranks what a run was fed by its losses."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.cli.console import Terminal, counted, escaped
from penstock.cli.progress import Progress
from penstock.observe.page.cards import anchor
from penstock.observe.runlog import RunLog
from penstock.observe.spikes import Spike, find_spikes


def spikes(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Ledgers of a run, one per node.")],
    config: Annotated[
        Path | None, typer.Option(metavar="CONFIG", help="YAML file of the run, to rank samples, sources and shards.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of each to list.")] = 10,
) -> None:
    """Rank steps, samples, sources and shards by their losses, which feed.report has recorded.

    Losses fall over a run, so each is compared with the median of its line of the ledger, which has `usage.every`
    steps. Losses that are not finite come first.
    """
    feed = penstock.open(config, rank=0, world=1, usage=None) if config else None
    with Progress("reading", in_bytes=True) as progress:
        log = RunLog(logs, feed, progress.update)
        found = find_spikes(log, feed, top)
    console = Terminal()
    losses = counted(found.losses, "loss", "losses")
    console.print(
        f"{losses}; above: mean distance from the median loss of the same line of the ledger\n", soft_wrap=True
    )
    if log.torn:
        console.print(f"{counted(log.torn, 'line')} could not be read")
    show = partial(_show, console=console, config=config, logs=logs)
    show("step", found.steps)
    if feed is None:
        console.print("add --config CONFIG to rank samples, sources and shards")
        return
    if found.unplaced:
        console.print(
            f"{counted(found.unplaced, 'loss', 'losses')} left out: neither one per sample nor one per member of packs"
        )
    if not found.samples:
        console.print("all losses are means of steps: report one loss per sample to rank samples, sources and shards")
    for what, ranked in (("sample", found.samples), ("source", found.sources), ("shard", found.groups)):
        if ranked:
            show(what, ranked)


def _show(what: str, ranked: list[Spike], *, config: Path | None, logs: Sequence[Path], console: Terminal) -> None:
    """Print a table whose lines are not wrapped, so that links and commands can be copied."""
    rows = [(what, "loss", "above", "uses", "highest loss", "command for this page")]
    ledgers = [text for log in logs for text in ("--ledger", str(log))]
    for each in ranked:
        page = f"step-{each.step}.html"
        link = page if what == "step" else f"{page}#{anchor(each.rank, each.slot)}"
        numbers = (f"{each.loss:.4g}", f"{each.above:+.4g}", f"{each.uses:,}")
        rank = [] if what == "step" else ["--rank", str(each.rank)]
        step = ["--steps", str(each.step), *rank, "--world", str(each.world)]
        command = shlex.join(["penstock", "replay", str(config or "CONFIG"), *step, *ledgers, "--html", page])
        rows.append((escaped(each.name), *numbers, link, escaped(command)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, loss, above, uses, link, command in rows:
        figures = f"{loss:>{widths[1]}}  {above:>{widths[2]}}  {uses:>{widths[3]}}"
        console.print(f"{name:{widths[0]}}  {figures}  {link:{widths[4]}}  {command}", soft_wrap=True)
    console.print()
