"""Writes the pages of steps as files that link to each other."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.feed import Feed
from penstock.manifest.publish import errors_naming
from penstock.observe.page.ledgered import PageLedger
from penstock.observe.page.page import GENERATOR, PageOptions, make_page

_HEAD_CHARACTERS = 4_000  # of a page, which name its generator


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
        _check_is_page(each)
    options = PageOptions(name, ranks, world, {step: each.name for step, each in paths.items()}, ledger)
    for step, each in paths.items():
        page = make_page(feed, step, options)
        with errors_naming(each):
            each.parent.mkdir(parents=True, exist_ok=True)
            partial = each.with_name(f".{each.name}.partial")
            partial.write_text(page, encoding="utf-8")
            partial.replace(each)
        yield each


def _check_is_page(path: Path) -> None:
    if not path.exists():
        return
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            if f'content="{GENERATOR}"' in file.read(_HEAD_CHARACTERS):
                return
    raise FileExistsError(f"{path} exists and is not a page of {GENERATOR}: choose another name")
