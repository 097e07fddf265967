"""Writes the pages of steps as files that link to each other."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from penstock.feed import Feed
from penstock.observe.page.document import check_is_page, write_page
from penstock.observe.page.ledgered import PageLedger
from penstock.observe.page.page import GENERATOR, PageOptions, make_page


def page_path(path: Path, step: int, several: bool = True) -> Path:
    """Return the file of a step's page: ``page-7.html`` for several pages ``page.html``, else the path itself."""
    return path.with_name(f"{path.stem}-{step}{path.suffix}") if several else path


def write_pages(
    feed: Feed,
    steps: Sequence[int],
    path: Path,
    *,
    name: str,
    ranks: Sequence[int],
    world: int,
    ledger: PageLedger | None,
    with_neighbours: bool = False,
) -> Iterator[Path]:
    """Write one page per step, and yield its path.

    Args:
        feed: Feed of the run.
        steps: Steps to show.
        path: File of the page; of several, each has its step added to this name.
        name: Name of the run.
        ranks: Ranks to show.
        world: Number of ranks.
        ledger: Ledger of the run, if given.
        with_neighbours: Whether to then write the pages of the steps before and after a single step.

    Raises:
        FileExistsError: If one of the files exists and is not such a page.
    """
    near = _neighbours(feed, steps[0], world, ledger) if with_neighbours else ()
    shown = [*steps, *near]
    paths = {step: page_path(path, step, several=list(steps) != [step]) for step in shown}
    for each in paths.values():
        check_is_page(each, GENERATOR)
    links = {step: quote(os.fsencode(each.name)) for step, each in paths.items()}
    options = PageOptions(name, ranks, world, links, ledger)
    for step, each in paths.items():
        write_page(each, make_page(feed, step, options))
        yield each


def _neighbours(feed: Feed, step: int, world: int, ledger: PageLedger | None) -> Iterator[int]:
    """Yield the steps before and after a step that the run has, if they can be shown with the same options."""
    end = feed.plan.steps(feed.timeline(world))
    for each in (step - 1, step + 1):
        if each >= 0 and (end is None or each < end) and (ledger is None or ledger.fits(each, world)):
            yield each
