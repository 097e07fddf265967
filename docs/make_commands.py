"""Writes docs/commands.md, the page of all commands, from their help texts: ``make docs``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from penstock.cli import app

PAGE = Path(__file__).parent / "commands.md"
HEAD = """\
# Commands

After this page you know every `penstock` command with its arguments and options. `penstock COMMAND --help` prints the
same; `docs/make_commands.py` writes this page from it.

Results go to stdout; progress, warnings and errors go to stderr. Exit code 0: done. Exit code 1: a check ran and did
not hold. Exit code 2: an error, explained in one line.
"""


def page() -> str:
    """Return the page as Markdown."""
    root: Any = typer.main.get_command(app)
    return "\n".join(
        [HEAD, *(part for name, command in _commands(root, "penstock") for part in _section(name, command))]
    )


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _section(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield f"## {name}\n\n```\n{usage}\n```\n\n{command.help}\n"
    records = [each.get_help_record(context) for each in command.params]
    rows = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in filter(None, records)]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
