"""Opens a run for commands that show its plan: with any number of ranks, from any state, and without a ledger."""

import json
from pathlib import Path
from typing import Any

import typer

import penstock
from penstock.feed import Feed
from penstock.feed.state import StateError


def open_offline(config: Path, rank: int | None, world: int | None, state: Path | None = None) -> Feed:
    """Open a run without its ledger. Prints a note if batches depend on the world and none is given.

    Args:
        config: YAML file of the run.
        rank: Rank; 0 by default.
        world: Number of ranks; 1 by default.
        state: JSON file with a state to resume from.

    Raises:
        ValueError: If the state is not JSON, not a state, or of another run.
    """
    feed = penstock.open(config, rank=rank or 0, world=world or 1, usage=None)
    if state is not None:
        try:
            feed.resume(read_saved(state))
        except StateError as error:
            raise ValueError(f"{state}: {error}") from None
    if world is None and feed.config.batch_size is not None:
        typer.echo(
            f"batch_size: {feed.config.batch_size} is per rank; assuming 1 rank; use --world N for N ranks", err=True
        )
    return feed


def read_saved(state: Path) -> Any:
    """Read a file with a saved state.

    Raises:
        ValueError: If the file is not JSON.
    """
    try:
        return json.loads(state.read_text())
    except ValueError as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(
            f"{state}: not valid JSON{line}; expected a state that was saved with json.dump. From a checkpoint, "
            "such as a .pt file, save the part that loader.state_dict() returned"
        ) from None
