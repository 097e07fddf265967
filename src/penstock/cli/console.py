"""Printing for all commands. Data is never interpreted as markup or emoji; control characters are escaped."""

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

# C0 and C1 controls, marks of the writing direction, line separators, and bytes that are not UTF-8.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LAYOUT = re.compile(_CONTROL.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))  # all but tabs and newlines

STOPPED_EXIT_CODE = 130  # as of a shell, for a command that SIGINT has ended
_KEPT_WHEN_STOPPED = {
    "warm": "what was downloaded stays in the cache; run the same command again to continue",
    "pull": "what was downloaded stays in the folder; run the same command again to continue",
    "index": "what is indexed so far is kept; run the same command again to continue",
    "filelist": "no filelist was written; measured shards are kept: run the same command again to continue",
    "eval": "complete files are kept; run the same command again to continue",
    "demo": "the demo's data stays in its folder",
    "receipt": "no receipt was written",
    "replay": "the batches that are listed above were written",
}


def escaped(text: str, layout: bool = False) -> str:
    r"""Return a text with control characters as escapes, such as ``\x1b``; with ``layout``, tabs and lines are kept."""
    pattern = _LAYOUT if layout else _CONTROL
    return pattern.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 line``, ``2 lines``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


class Terminal(Console):
    """A console that prints text literally, unless ``print`` is called with ``markup=True``."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escaped(text, layout=True), **options)


def print_error(error: BaseException) -> None:
    """Print the error that ends a command. Error numbers of the operating system are left out."""
    said = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror and said.startswith("[Errno"):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        said = f"{' and '.join(names)}: {error.strerror.lower()}"
    message = Text.assemble(("error:", "red"), f" {escaped(said, layout=True)}")
    Terminal(stderr=True).print(message, soft_wrap=True)


def print_stopped(command: str | None) -> None:
    """Print what a stopped command has kept."""
    kept = _KEPT_WHEN_STOPPED.get(command or "")
    said = Text.assemble(("stopped", "yellow"), f": {kept}" if kept else "")
    Terminal(stderr=True).print(said, soft_wrap=True)


def print_rows(rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows with the same keys, one line each.

    Args:
        rows: Rows, printed as they arrive. Their keys are the header.
        as_json: Whether to print one JSON object per line instead, without a header.
    """
    for number, row in enumerate(rows):
        if as_json:
            typer.echo(json.dumps(row))
            continue
        if number == 0:
            typer.echo("\t".join(row))
        typer.echo("\t".join(escaped(str(value)) for value in row.values()))


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(escaped(f"{record.levelname.lower()}: {record.getMessage()}", layout=True), file=sys.stderr)  # noqa: T201


def show_warnings() -> None:
    """Print warnings of the library to stderr, unless the application has configured logging."""
    log = logging.getLogger("penstock")
    if not log.hasHandlers():
        log.addHandler(_ToStderr(logging.WARNING))
