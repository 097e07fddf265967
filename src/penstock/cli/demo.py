"""``penstock demo``: streams, stops and resumes in a minute, on generated data. Each demo is a file of ``demos/``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import Terminal
from penstock.cli.demos import chat, mix, robot

DATA = Path("demo-data")


class DemoKind(StrEnum):
    """A demo. Each generates its own data."""

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
            "--dir", help="Folder for the generated data (at most 40 MB); by default demo-data or a folder in it."
        ),
    ] = None,
) -> None:
    """Generate data, stream it, stop and resume with identical batches."""
    show, default = _SHOWN[kind]
    show(folder or default, Terminal())
