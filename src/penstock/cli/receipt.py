"""``penstock receipt``: commits to the samples of a run, so that anybody with the config can check them."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import counted, escaped
from penstock.cli.offline import open_offline
from penstock.cli.options import ConfigFile, State, StepCount, World, parse_step_count
from penstock.cli.progress import Progress
from penstock.observe.receipt import describe_contents, write_receipt
from penstock.observe.receipt_ledger import check_ledgers
from penstock.observe.receipt_steps import make_receipt


def receipt(
    config: ConfigFile,
    steps: StepCount,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="File to write, such as run.receipt.")],
    ledger: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG", help="Usage ledger that must agree with the plan. Repeat it for several nodes."),
    ] = None,
    world: World = None,
    state: State = None,
) -> None:
    """Write a receipt: a hash tree over the steps of a run, the ids of their samples and hashes of their content.

    It proves what was planned and, with a ledger, that the ledger agrees. It cannot prove that training happened.

    Check it with `penstock verify`. Reads no data, unless the run has to be indexed first.
    """
    wanted = parse_step_count(steps)
    if out.exists():
        raise ValueError(f"{out}: exists; remove it, or name another file")
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}")
    feed = open_offline(config, 0, world if world or not ledger else 1, state)
    checked = timeline = None
    if ledger:
        with Progress("checking the ledger") as progress:
            checked, timeline = check_ledgers(feed, ledger, wanted, lambda lines: progress.track(lines, len(lines)))
    with Progress("hashing") as progress:
        made = make_receipt(
            feed,
            wanted,
            config.resolve(),
            out.parent.resolve(),
            timeline=timeline,
            ledger=checked,
            stepped=lambda done: progress.update(done, len(wanted)),
        )
    feed.close()
    write_receipt(made, out)
    typer.echo(f"{out}: {counted(made.samples, 'sample')} in {counted(len(wanted), 'step')}, root {made.root}")
    typer.echo(escaped(describe_contents(made), layout=True))
    typer.echo(made.says)
    if any(source.content == "ids" for source in made.sources):
        typer.echo("To prove content, too, index the data with `penstock index --sha256` first.")
