"""The command line: one file per command. Turns errors that a user can act on into one line and exit code 2."""

import os
import sys
from typing import Annotated, Any

import typer

import penstock
from penstock.cli.bench import bench
from penstock.cli.cache import cache
from penstock.cli.console import STOPPED_EXIT_CODE, print_error, print_stopped, show_warnings
from penstock.cli.demo import demo
from penstock.cli.diff import diff
from penstock.cli.eval import evaluation
from penstock.cli.filelist import filelist
from penstock.cli.forget import forget
from penstock.cli.index import index
from penstock.cli.mix import mix
from penstock.cli.plan import plan
from penstock.cli.pull import pull
from penstock.cli.receipt import receipt
from penstock.cli.replay import replay
from penstock.cli.report import report
from penstock.cli.simulate import simulate
from penstock.cli.spikes import spikes
from penstock.cli.state import state
from penstock.cli.top import top
from penstock.cli.usage import usage
from penstock.cli.verify import verify
from penstock.cli.warm import warm
from penstock.cli.where import where
from penstock.feed.batches import TooManyBad
from penstock.loader.processes import WorkerDied
from penstock.store.cache.admission import CacheTooSmall

# Errors whose message says what to do: configs, manifests, states, stores, steps out of range, runs that stop.
_REPORTED_ERRORS = (ValueError, OSError, EOFError, IndexError, CacheTooSmall, TooManyBad, WorkerDied)


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        show_warnings()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `penstock plan … | head`: the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except KeyboardInterrupt:
            print_stopped(ctx.invoked_subcommand)
            sys.exit(STOPPED_EXIT_CODE)
        except _REPORTED_ERRORS as error:
            print_error(error)
            sys.exit(2)


app = typer.Typer(
    cls=_Commands,
    help="Feed training runs from object storage: a run is a function from the step to the batch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


for _command in (
    demo,
    index,
    filelist,
    mix,
    plan,
    where,
    replay,
    state,
    diff,
    forget,
    bench,
    warm,
    simulate,
    usage,
    spikes,
    report,
    top,
    receipt,
    verify,
    pull,
):
    app.command()(_command)
app.add_typer(cache, name="cache")
app.add_typer(evaluation, name="eval")
