"""A run as the commands open it that look at its plan: for any world, after any state, and without a ledger."""

import json
from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.feed import Feed

World = Annotated[int | None, typer.Option(min=1, help="Number of ranks; 1 by default: a rank that takes all.")]
State = Annotated[Path | None, typer.Option(help="A saved state (JSON): batch sizes are those that the run had.")]


def open_offline(config: Path, rank: int | None, world: int | None, state: Path | None = None) -> Feed:
    """The run; on stderr, which world was assumed where batches depend on it and none was given."""
    feed = penstock.open(config, rank=rank or 0, world=world or 1, usage=None)
    if state is not None:
        try:
            feed.resume(json.loads(state.read_text()))
        except ValueError as error:  # no JSON, no state, or one of another run
            raise ValueError(f"{state}: {error}") from None
    if world is None and feed.config.batch_size is not None:
        typer.echo(
            f"batch_size: {feed.config.batch_size} is a rank's; this is a world of 1, --world N another", err=True
        )
    return feed
