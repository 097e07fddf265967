"""``penstock where``: the steps at which an item is used. Reads no data."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.console import print_rows
from penstock.cli.offline import open_offline
from penstock.cli.options import AsJson, ConfigFile, State, World
from penstock.feed import Feed
from penstock.observe.actual import Actual


def where(
    config: ConfigFile,
    items: Annotated[
        list[str],
        typer.Argument(metavar="ITEM…", help="Ids of items, or group:id. For an unknown id, an example is shown."),
    ],
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs of the item's source to search.")] = 1,
    world: World = None,
    state: State = None,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="LOG",
            help="Usage ledger, to show each outcome: used, bad, substitute or planned. Repeat it for several nodes.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every planned use of items, one line per use.

    Reads no data, unless the run has to be indexed first.
    """
    feed = open_offline(config, 0, world, state)
    actual = Actual(feed, *ledger) if ledger else None
    missing = [item for item in items if not feed.catalog.find(item)]
    uses = (_planned(feed, item, epochs) if actual is None else _actual(feed, actual, item, epochs) for item in items)
    print_rows(chain.from_iterable(uses), as_json)
    if missing:
        raise ValueError(f"no source has an item with this name: {', '.join(missing)}{_example(feed)}")


def _example(feed: Feed) -> str:
    """Return an example of an item's name, for a message: names differ between kinds of data."""
    items = [item for share in feed.catalog.shares(feed.planned(0)) for item in share.items]
    if not items:
        return ""
    [group] = feed.catalog.group_names([items[0].row])
    return f"; items have names such as {group}:{items[0].name(0)}"


def _planned(feed: Feed, item: str, epochs: int) -> Iterator[dict[str, Any]]:
    for name, use in feed.where(item, range(epochs), feed.world):
        yield {"item": name, **asdict(use)}


def _actual(feed: Feed, actual: Actual, item: str, epochs: int) -> Iterator[dict[str, Any]]:
    for name, use, outcome in sorted(actual.uses_of(item, epochs, feed.world), key=lambda found: found[1].step):
        yield {"item": name, **asdict(use), "outcome": outcome}
