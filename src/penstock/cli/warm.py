"""``penstock warm``: fill the cache for the first steps of a run."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import Terminal
from penstock.cli.offline import open_offline
from penstock.cli.options import World, parse_step_count
from penstock.cli.progress import Progress
from penstock.feed.warming import warm as warm_steps


def warm(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="Number of steps from the start, or A:B for steps A to B-1.")] = "200",
    rank: Annotated[int, typer.Option(help="The rank whose batches are fetched.")] = 0,
    world: World = None,
) -> None:
    """Download what the first steps read, so that training starts with a warm cache."""
    wanted = parse_step_count(steps)
    feed = open_offline(config, rank, world)
    with Progress("warming", in_bytes=True) as progress:
        done = warm_steps(feed, wanted, progress.update)
    last = wanted.start + done.steps - 1
    text = f"steps {wanted.start} to {last} are in the cache; {done.bytes_fetched / 1e6:,.1f} MB downloaded"
    if done.steps < len(wanted):
        text += f"\nthe cache is full: {len(wanted) - done.steps} steps were left out"
    Terminal().print(text, soft_wrap=True)
