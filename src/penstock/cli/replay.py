"""``penstock replay``: the contents of batches, as files."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.offline import State, World, open_offline
from penstock.cli.steps import parse_steps
from penstock.observe.replay import replay as write_batch


def replay(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write, with one folder per step and rank.")],
    rank: Annotated[
        int | None, typer.Option(min=0, help="Only the batches of this rank; by default of all ranks.")
    ] = None,
    world: World = None,
    state: State = None,
) -> None:
    """Make batches again and write their contents as files to look at or to listen to."""
    wanted = parse_steps(steps)
    feed = open_offline(config, rank, world, state)
    for step in wanted:
        for each in range(feed.world) if rank is None else [rank]:
            folder = out / f"step-{step}" / f"rank-{each}"
            typer.echo(f"{folder}: {write_batch(feed, step, each, feed.world, folder)} samples")
    feed.close()
