"""``penstock plan``: the planned contents of batches. Reads no data."""

from dataclasses import asdict

from penstock.cli.console import print_rows
from penstock.cli.offline import open_offline
from penstock.cli.options import AsJson, ConfigFile, OnlyRank, State, StepRange, World, parse_steps


def plan(
    config: ConfigFile,
    steps: StepRange = "0:1",
    rank: OnlyRank = None,
    world: World = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Show the planned contents of batches, one line per sample.

    Reads no data, unless the run has to be indexed first.
    """
    wanted = parse_steps(steps)
    feed = open_offline(config, rank, world, state)
    ranks = range(feed.world) if rank is None else [rank]
    lines = (line for step in wanted for each in ranks for line in feed.lines(step, each, feed.world))
    print_rows(map(asdict, lines), as_json)
