"""``penstock replay``: the contents of batches, as files."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.console import Terminal, counted
from penstock.cli.offline import open_offline
from penstock.cli.options import State, World, parse_steps
from penstock.observe.replay import ReplayedSample
from penstock.observe.replay import replay as write_batch

_SHOWN_CHARACTERS = 4_000  # of a text on the terminal


def replay(
    config: Annotated[Path, typer.Argument(help="The run's YAML file.")],
    steps: Annotated[str, typer.Option(help="One step, or A:B for steps A to B-1.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write, with one folder per step and rank.")],
    rank: Annotated[
        int | None, typer.Option(min=0, help="Only the batches of this rank; by default of all ranks.")
    ] = None,
    world: World = None,
    state: State = None,
) -> None:
    """Make batches again and write their contents as files to look at or to listen to.

    On a terminal, texts are also shown; those of chat data with the trained part in colour.
    """
    wanted = parse_steps(steps)
    feed = open_offline(config, rank, world, state)
    for step in wanted:
        for each in range(feed.world) if rank is None else [rank]:
            folder = out / f"step-{step}" / f"rank-{each}"
            samples = write_batch(feed, step, each, feed.world, folder)
            typer.echo(f"{folder}: {_counted(samples)}")
            _show(folder, samples)
    feed.close()


def _counted(samples: list[ReplayedSample]) -> str:
    """Return how many samples there are, and in how many packs."""
    packs = [sample["members"] for sample in samples if "members" in sample]
    if not packs:
        return counted(len(samples), "sample")
    others = len(samples) - len(packs)
    beside = f", and {counted(others, 'sample')} beside them" if others else ""
    return f"{counted(len(packs), 'pack')} of {counted(sum(map(len, packs)), 'sample')}{beside}"


def _show(folder: Path, samples: list[ReplayedSample]) -> None:
    """Print files for terminals, which recipes write with the ending ``ansi``."""
    terminal = Terminal()
    if not terminal.is_terminal:
        return
    for sample in samples:
        for name in sample["files"]:
            if name.endswith(".ansi"):
                text = Text.from_ansi((folder / name).read_text(errors="replace"))
                text.truncate(_SHOWN_CHARACTERS, overflow="ellipsis")
                terminal.print(Text(f"slot {sample['slot']}, {sample['source']}, {sample['item']}", style="dim"))
                terminal.print(text)
