"""``penstock demo``: streaming, stopping and resuming in a minute, on generated data. One file of ``demos/`` each."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import Terminal
from penstock.cli.demos import chat, mix, robot

DATA = Path("demo-data")


class DemoKind(StrEnum):
    """What a demo shows. Each kind generates its own data."""

    MIX = "mix"
    ROBOT = "robot"
    CHAT = "chat"


_SHOWN = {
    DemoKind.MIX: (mix.show, DATA),
    DemoKind.ROBOT: (robot.show, DATA / "robot"),
    DemoKind.CHAT: (chat.show, DATA / "chat"),
}


def demo(
    kind: Annotated[
        DemoKind,
        typer.Argument(
            help="mix: sounds in 12 languages. robot: episodes with two cameras. chat: conversations with media."
        ),
    ] = DemoKind.MIX,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="Folder for the demo's data (at most 30 MB); by default demo-data or a folder in it."
        ),
    ] = None,
) -> None:
    """Generate data, stream it, stop and resume: the batches stay identical."""
    show, usual = _SHOWN[kind]
    show(folder or usual, Terminal())
