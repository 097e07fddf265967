"""``penstock where``: when an item comes. Reads no data."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.offline import State, World, open_offline


def where(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    items: Annotated[list[str], typer.Argument(metavar="ITEM…", help="Ids, or shard:id where an id repeats.")],
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs of the item's source to look at.")] = 1,
    world: World = None,
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """Show every planned use of items: item, epoch, step, rank, slot. Reads no data."""
    feed = open_offline(config, 0, world, state)
    missing = [item for item in items if not len(feed.manifest.find(item))]
    for item in items:
        for name, use in feed.where(item, range(epochs), feed.world):
            values = {"item": name, **asdict(use)}
            typer.echo(json.dumps(values) if as_json else "\t".join(map(str, values.values())))
    if missing:
        raise ValueError(f"not in the manifest: {', '.join(missing)}")
