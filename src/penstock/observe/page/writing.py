"""Writes the pages of steps as files that link to each other."""

from collections.abc import Iterator, Sequence
from pathlib import Path

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

    Raises:
        FileExistsError: If one of the files exists and is not such a page.
    """
    paths = {step: page_path(path, step, len(steps) > 1) for step in steps}
    for each in paths.values():
        check_is_page(each, GENERATOR)
    options = PageOptions(name, ranks, world, {step: each.name for step, each in paths.items()}, ledger)
    for step, each in paths.items():
        write_page(each, make_page(feed, step, options))
        yield each
