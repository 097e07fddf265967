"""``penstock state``: whether a saved state fits a config, and else what differs. Reads no data."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import escaped
from penstock.cli.offline import open_offline, read_saved
from penstock.cli.options import World
from penstock.feed.state import StateError


def state(
    saved: Annotated[Path, typer.Argument(metavar="STATE", help="A state that was saved with json.dump.")],
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    world: World = None,
) -> None:
    """Say whether a run of a config can go on from a saved state, and else what differs. Exits with 1 if it can't.

    Reads no data, unless the run has to be indexed first.
    """
    content = read_saved(saved)
    feed = open_offline(config, 0, world)
    try:
        step = feed.resume(content)
    except StateError as error:
        typer.echo(f"{escaped(str(saved))} does not fit {escaped(str(config))}:")
        for line in error.differences or (str(error),):
            typer.echo(f"- {escaped(line)}")
        if error.differences:
            typer.echo("Restore what it was, or load the state with strict=False to go on in another order.")
        raise typer.Exit(1) from None
    sample, _ = feed.timeline(feed.world).batch(step)
    *before, (changed, _, size) = feed.timeline(feed.world).segments
    new = f", {before[-1][2]} before" if before and changed == step else ""
    typer.echo(f"{escaped(str(saved))} fits {escaped(str(config))}")
    typer.echo(f"The run goes on at step {step:,}, sample {sample:,}, with global batches of {size}{new}.")
