"""``penstock state``: checks whether a saved state fits a config. Reads no data."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import escaped
from penstock.cli.offline import open_offline, read_saved
from penstock.cli.options import ConfigFile, World
from penstock.feed.state import StateError


def state(
    saved: Annotated[Path, typer.Argument(metavar="STATE", help="State that was saved with json.dump.")],
    config: ConfigFile,
    world: World = None,
) -> None:
    """Check whether a run can resume from a saved state, and show what differs. Exits with 1 if it cannot.

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
        if error.advice:
            typer.echo(f"{error.advice[0].upper()}{error.advice[1:]}.")
        raise typer.Exit(1) from None
    timeline = feed.timeline(feed.world)
    if feed.config.batch is not None:
        units = timeline.until(step).segments[-1][2]
        typer.echo(f"{escaped(str(saved))} fits {escaped(str(config))}")
        typer.echo(f"The run continues at step {step:,}, with {units} units per step.")
        return
    sample = timeline.end_slot(step - 1)
    *before, (changed, _, size) = [segment[:3] for segment in timeline.segments]
    new = f", {before[-1][2]} before" if before and changed == step else ""
    typer.echo(f"{escaped(str(saved))} fits {escaped(str(config))}")
    typer.echo(f"The run continues at step {step:,}, sample {sample:,}, with global batches of {size}{new}.")
