"""What all demos print alike: headings, verdicts, and the name of this command."""

import shutil
import sys

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


def own_command() -> str:
    """Return how a user calls this program."""
    return "penstock" if shutil.which("penstock") else sys.argv[0]
