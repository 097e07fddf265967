"""``penstock report``: the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.cli.progress import Progress
from penstock.observe.page.document import check_is_page, write_page
from penstock.observe.runlog import RunLog
from penstock.observe.summary.binned import bin_log
from penstock.observe.summary.page import GENERATOR, make_report
from penstock.recipes.extras import require_packages


def report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Ledgers of a run, one per node.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Page to write, such as report.html.")],
    config: Annotated[
        Path | None,
        typer.Option(metavar="CONFIG", help="YAML file of the run, for quotas, coverage and losses per source."),
    ] = None,
) -> None:
    """Write one page about a run: its mixture, speed, waits, cache, coverage, bad samples and losses.

    The page needs no network and has no scripts.
    """
    require_packages("penstock report", "see", "matplotlib")
    check_is_page(out, GENERATOR)
    feed = penstock.open(config, rank=0, world=1, usage=None) if config else None
    with Progress("reading", in_bytes=True) as progress:
        log = RunLog(logs, feed, progress.update)
        binned = bin_log(log, feed)
    write_page(out, make_report(str(config or logs[0]), log, binned, feed))
    typer.echo(f"{out}: {log.lines:,} lines")
