"""The command line: one file a command. Turns errors that a user can act on into a sentence and exit code 2."""

import os
import sys
from typing import Any

import typer
from rich.console import Console

from penstock.cli.bench import bench
from penstock.cli.demo import demo
from penstock.cli.filelist import filelist
from penstock.cli.index import index
from penstock.cli.plan import plan
from penstock.cli.where import where


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `penstock plan … | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except (ValueError, OSError) as error:  # configs, manifests, states, stores: all say what to do
            Console(stderr=True).print(f"[red]error:[/] {_escaped(str(error))}", soft_wrap=True, highlight=False)
            sys.exit(2)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


app = typer.Typer(
    cls=_Commands,
    help="Feed training runs from object storage: a run is a function from the step to the batch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for _command in (demo, index, filelist, plan, where, bench):
    app.command()(_command)
