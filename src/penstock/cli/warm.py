"""``penstock warm``: fills the cache for some steps of a run."""

from typing import Annotated

import typer

from penstock.cli.console import Terminal
from penstock.cli.offline import open_offline
from penstock.cli.options import ConfigFile, StepCount, World, parse_step_count
from penstock.cli.progress import Progress
from penstock.feed.warming import warm as warm_steps


def warm(
    config: ConfigFile,
    steps: StepCount = "200",
    rank: Annotated[int, typer.Option(help="Rank whose batches are fetched.")] = 0,
    world: World = None,
) -> None:
    """Download the data of the first steps, so that training starts with a warm cache."""
    wanted = parse_step_count(steps)
    feed = open_offline(config, rank, world)
    with Progress("warming", in_bytes=True) as progress:
        done = warm_steps(feed, wanted, progress.update)
    last = wanted.start + done.steps - 1
    text = f"steps {wanted.start} to {last} are in the cache; {done.bytes_fetched / 1e6:,.1f} MB downloaded"
    if done.steps < len(wanted):
        text += f"\nthe cache is full; {len(wanted) - done.steps} steps were left out"
    Terminal().print(text, soft_wrap=True)
