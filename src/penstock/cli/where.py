"""``penstock where``: when an item comes, or came. Reads no data."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.offline import State, World, open_offline
from penstock.feed import Feed
from penstock.observe.actual import Actual
from penstock.observe.ledger import item_names


def where(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    items: Annotated[list[str], typer.Argument(metavar="ITEM…", help="Ids, or shard:id where an id repeats.")],
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs of the item's source to look at.")] = 1,
    world: World = None,
    state: State = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="LOG", help="Also say of each use: used, bad, substitute or only planned.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """Show every planned use of items: item, epoch, step, rank, slot; by a ledger what became of it. Reads no data."""
    feed = open_offline(config, 0, world, state)
    actual = None if ledger is None else Actual(feed, ledger)
    missing = [item for item in items if not len(feed.manifest.find(item))]
    for item in items:
        for values in _planned(feed, item, epochs) if actual is None else _actual(feed, actual, item, epochs):
            typer.echo(json.dumps(values) if as_json else "\t".join(map(str, values.values())))
    if missing:
        raise ValueError(f"not in the manifest: {', '.join(missing)}")


def _planned(feed: Feed, item: str, epochs: int) -> Iterator[dict[str, Any]]:
    for name, use in feed.where(item, range(epochs), feed.world):
        yield {"item": name, **asdict(use)}


def _actual(feed: Feed, actual: Actual, item: str, epochs: int) -> Iterator[dict[str, Any]]:
    for row in feed.manifest.find(item).tolist():
        (name,) = item_names(feed.manifest, [row])
        for use, what in sorted(actual.uses(row, epochs, feed.world), key=lambda pair: pair[0].step):
            yield {"item": name, **asdict(use), "what": what}
