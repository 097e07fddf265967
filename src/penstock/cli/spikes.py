"""``penstock spikes``: ranks what a run was fed by its losses."""

from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.cli.console import Terminal, counted, escaped
from penstock.cli.progress import Progress
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

    Each loss is compared with the median of the losses of its time. Losses that are not finite come first.
    """
    feed = penstock.open(config, rank=0, world=1, usage=None) if config else None
    with Progress("reading", in_bytes=True) as progress:
        log = RunLog(logs, feed, progress.update)
        found = find_spikes(log, feed, top)
    console = Terminal()
    console.print(f"{counted(found.losses, 'loss', 'losses')}; above: the mean over the median of their time\n")
    if log.torn:
        console.print(f"{counted(log.torn, 'line')} could not be read")
    _show("step", found.steps, config, console)
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
            _show(what, ranked, config, console)


def _show(what: str, ranked: list[Spike], config: Path | None, console: Terminal) -> None:
    """Print a table whose lines are not wrapped, so that commands can be copied."""
    rows = [(what, "loss", "above", "uses", "look at it")]
    for each in ranked:
        rank = "" if what == "step" else f" --rank {each.rank}"
        replay = f"penstock replay {config or 'CONFIG'} --steps {each.step}{rank} --world {each.world}"
        numbers = (f"{each.loss:.4g}", f"{each.above:+.4g}", f"{each.uses:,}")
        rows.append((escaped(each.name), *numbers, f"{replay} --html step-{each.step}.html"))
    width = max(len(name) for name, *_ in rows)
    for name, loss, above, uses, replay in rows:
        console.print(f"{name:{width}}  {loss:>8}  {above:>8}  {uses:>8}  {replay}", soft_wrap=True)
    console.print()
