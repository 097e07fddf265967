"""``penstock plan``: what batches will hold. Reads no data."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.cli.steps import parse_steps


def plan(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")] = "0:1",
    rank: Annotated[int | None, typer.Option(min=0, help="Only this rank's batches; by default all ranks'.")] = None,
    world: Annotated[int, typer.Option(min=1, help="Number of ranks.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """Show what batches will hold, a line a sample: step, rank, slot, source, epoch, group, item. Reads no data."""
    feed = penstock.open(config, rank=rank or 0, world=world)
    ranks = range(world) if rank is None else [rank]
    for step in parse_steps(steps):
        for each in ranks:
            for line in feed.lines(step, each, world):
                values = asdict(line)
                typer.echo(json.dumps(values) if as_json else "\t".join(map(str, values.values())))
