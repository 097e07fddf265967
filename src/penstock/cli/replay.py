"""``penstock replay``: writes the contents of batches as files, or as pages to look at."""

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.console import Terminal, escaped
from penstock.cli.offline import open_offline
from penstock.cli.options import ConfigFile, OnlyRank, State, StepRange, World, parse_steps
from penstock.feed import Feed
from penstock.observe.page.cards import counted_samples
from penstock.observe.page.ledgered import PageLedger
from penstock.observe.page.writing import write_pages
from penstock.observe.replay import ReplayedSample
from penstock.observe.replay import replay as write_batch

_SHOWN_CHARACTERS = 4_000  # of a text on the terminal


def replay(
    config: ConfigFile,
    steps: StepRange,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Output folder, with one folder per step and rank.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Page to write, such as page.html. The steps before and after get pages beside it, such as "
            "page-6.html; of several steps each gets one.",
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the first page in a browser; without --html, a temporary file.")
    ] = False,
    rank: OnlyRank = None,
    world: World = None,
    state: State = None,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="LOG",
            help="Usage ledger, to show on pages what was bad in the run, and losses. Repeat it for several nodes.",
        ),
    ] = None,
) -> None:
    """Make batches again, and write their contents as files or as pages to look at and listen to.

    On a terminal, texts are also printed, with the trained parts of chat data in colour.
    """
    wanted = parse_steps(steps)
    if open_page and html is None:
        html = Path(mkdtemp(prefix="penstock-")) / "page.html"
    if out is None and html is None:
        raise ValueError("nothing to write: add -o FOLDER for files, --html FILE for a page, or --open to look at one")
    if html is not None and html.suffix != ".html":
        raise ValueError(f"--html {html}: name a file that ends in .html, such as page.html")
    if ledger and html is None:
        raise ValueError("--ledger is shown on pages only: add --html FILE")
    feed = open_offline(config, rank, world, state)
    ranks = range(feed.world) if rank is None else [rank]
    if out is not None:
        _write_files(feed, wanted, ranks, out)
    if html is not None:
        near = range(wanted.start - 1, wanted.stop + 1)
        log = PageLedger(feed, ledger, near) if ledger else None
        pages = write_pages(
            feed,
            wanted,
            html,
            name=str(config),
            ranks=ranks,
            world=feed.world,
            ledger=log,
            with_neighbours=":" not in steps,
        )
        for number, page in enumerate(pages):
            typer.echo(str(page))
            if open_page and number == 0:
                webbrowser.open(page.resolve().as_uri())
    feed.close()


def _write_files(feed: Feed, steps: Sequence[int], ranks: Sequence[int], out: Path) -> None:
    for step in steps:
        for rank in ranks:
            folder = out / f"step-{step}" / f"rank-{rank}"
            samples = write_batch(feed, step, rank, feed.world, folder)
            typer.echo(f"{folder}: {counted_samples([len(sample.get('members', [])) for sample in samples])}")
            _show(folder, samples)


def _show(folder: Path, samples: list[ReplayedSample]) -> None:
    """Print files for terminals, which recipes write with the extension ``ansi``."""
    terminal = Terminal()
    if not terminal.is_terminal:
        return
    for sample in samples:
        for name in sample["files"]:
            if name.endswith(".ansi"):
                text = Text.from_ansi((folder / name).read_text(errors="replace"))
                text.truncate(_SHOWN_CHARACTERS, overflow="ellipsis")
                title = escaped(f"slot {sample['slot']}, {sample['source']}, {sample['item']}")
                terminal.print(Text(title, style="dim"))
                terminal.print(text)
