"""``python -m penstock``: the command line."""

from penstock.cli import app

app()
