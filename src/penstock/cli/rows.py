"""Rows that a command prints: tab-separated with a header, or JSON. Knows nothing of their meaning."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from penstock.cli.console import escaped


def print_rows(rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows with the same keys, one line each.

    Args:
        rows: printed as they come; their keys are the header.
        as_json: print one JSON object per line instead, without a header.
    """
    for number, row in enumerate(rows):
        if as_json:
            typer.echo(json.dumps(row))
            continue
        if number == 0:
            typer.echo("\t".join(row))
        typer.echo("\t".join(escaped(str(value)) for value in row.values()))
