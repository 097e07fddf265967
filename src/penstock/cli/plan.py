"""``penstock plan``: what batches will contain. Reads no data."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import print_rows
from penstock.cli.offline import open_offline
from penstock.cli.options import State, World, parse_steps


def plan(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")] = "0:1",
    rank: Annotated[
        int | None, typer.Option(min=0, help="Only the batches of this rank; by default of all ranks.")
    ] = None,
    world: World = None,
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, and no header.")] = False,
) -> None:
    """Show what batches will contain, one line per sample: step, rank, slot, source, epoch, group, item.

    Reads no data, unless the run has to be indexed first.
    """
    wanted = parse_steps(steps)
    feed = open_offline(config, rank, world, state)
    ranks = range(feed.world) if rank is None else [rank]
    lines = (line for step in wanted for each in ranks for line in feed.lines(step, each, feed.world))
    print_rows(map(asdict, lines), as_json)
