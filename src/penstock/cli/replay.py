"""``penstock replay``: what was in a batch, as files."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.offline import State, World, open_offline
from penstock.cli.steps import parse_steps
from penstock.observe.replay import replay as write_batch


def replay(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder, which is made: in it one a step and rank.")],
    rank: Annotated[int | None, typer.Option(min=0, help="Only this rank's batches; by default all ranks'.")] = None,
    world: World = None,
    state: State = None,
) -> None:
    """Make batches again and write what is in them: crops as WAV files, or the records' files as they are stored."""
    wanted, feed = parse_steps(steps), open_offline(config, rank, world, state)
    for step in wanted:
        for each in range(feed.world) if rank is None else [rank]:
            folder = out / f"step-{step}" / f"rank-{each}"
            typer.echo(f"{folder}: {write_batch(feed, step, each, feed.world, folder)} samples")
    feed.close()
