"""``penstock replay``: writes the contents of batches as files."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.console import Terminal, counted
from penstock.cli.offline import open_offline
from penstock.cli.options import ConfigFile, OnlyRank, State, StepRange, World, parse_steps
from penstock.observe.replay import ReplayedSample
from penstock.observe.replay import replay as write_batch

_SHOWN_CHARACTERS = 4_000  # of a text on the terminal


def replay(
    config: ConfigFile,
    steps: StepRange,
    out: Annotated[Path, typer.Option("-o", "--out", help="Output folder, with one folder per step and rank.")],
    rank: OnlyRank = None,
    world: World = None,
    state: State = None,
) -> None:
    """Make batches again and write their contents as files to look at or listen to.

    On a terminal, texts are also printed, with the trained parts of chat data in colour.
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
    """Return the number of samples and packs, in words."""
    packs = [sample["members"] for sample in samples if "members" in sample]
    if not packs:
        return counted(len(samples), "sample")
    others = len(samples) - len(packs)
    beside = f", and {counted(others, 'unpacked sample')}" if others else ""
    return f"{counted(len(packs), 'pack')} of {counted(sum(map(len, packs)), 'sample')}{beside}"


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
                terminal.print(Text(f"slot {sample['slot']}, {sample['source']}, {sample['item']}", style="dim"))
                terminal.print(text)
