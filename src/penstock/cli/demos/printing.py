"""What all demos print alike: headings, verdicts, states, and commands to try."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from penstock.cli.console import Terminal, escaped


def heading(console: Terminal, title: str, text: str = "") -> None:
    """Print a bold heading, and a text behind it."""
    console.print(Text.assemble((title, "bold"), f" {escaped(text)}"))


def verdict(console: Terminal, same: bool, what: str) -> None:
    """Print whether something is identical. If it is not, the command ends with exit code 1."""
    mark = ("✓ identical", "green") if same else ("✗ DIFFERENT", "red")
    console.print(Text.assemble("  ", mark, f"  {what}"))
    if not same:
        raise typer.Exit(1)


def show_state(console: Terminal, title: str, state: dict[str, Any]) -> None:
    """Print a state that was saved."""
    heading(console, title, f"The saved data state is {len(json.dumps(state))} bytes:")
    console.print_json(data=state, indent=None)


def show_commands(console: Terminal, title: str, *arguments: str) -> None:
    """Print commands to try, one per line, so that they can be copied whatever the width of the terminal."""
    run_as_module = Path(sys.argv[0]).name == "__main__.py"
    own = "python -m penstock" if run_as_module else sys.argv[0]
    command = "penstock" if shutil.which("penstock") else own
    heading(console, title)
    for each in arguments:
        console.print(f"  {command} {each}", soft_wrap=True)
