"""The command line: one file a command. Turns errors that a user can act on into a sentence and exit code 2."""

import os
import sys
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from penstock.cli.bench import bench
from penstock.cli.cache import cache
from penstock.cli.demo import demo
from penstock.cli.eval import evaluation
from penstock.cli.filelist import filelist
from penstock.cli.index import index
from penstock.cli.plan import plan
from penstock.cli.pull import pull
from penstock.cli.replay import replay
from penstock.cli.usage import usage
from penstock.cli.warm import warm
from penstock.cli.where import where
from penstock.loader.loader import TooManyBad
from penstock.loader.processes import WorkerDied
from penstock.store.cache.admission import CacheTooSmall

# Configs, manifests, states, stores, steps that are not there, runs that stop: all say what to do.
_TOLD = (ValueError, OSError, EOFError, IndexError, CacheTooSmall, TooManyBad, WorkerDied)


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `penstock plan … | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except _TOLD as error:
            Console(stderr=True).print(Text.assemble(("error:", "red"), f" {error}"), soft_wrap=True)
            sys.exit(2)


app = typer.Typer(
    cls=_Commands,
    help="Feed training runs from object storage: a run is a function from the step to the batch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for _command in (demo, index, filelist, plan, where, replay, bench, warm, usage, pull):
    app.command()(_command)
app.add_typer(cache, name="cache")
app.add_typer(evaluation, name="eval")
