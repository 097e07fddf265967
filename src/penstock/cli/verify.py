"""``penstock verify``: checks a receipt against the plan of a run."""

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import penstock
from penstock.cli.console import Terminal, counted, escaped, print_error
from penstock.cli.progress import Progress
from penstock.observe.coverage import steps_text
from penstock.observe.receipt import Receipt, describe_contents, read_receipt, subtree_steps
from penstock.observe.receipt_steps import check_receipt

_SHOWN_DIFFERENCES = 20


def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="File that `penstock receipt` has written.")],
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="YAML file of the run; by default that of the receipt.")
    ] = None,
    random_steps: Annotated[
        int | None,
        typer.Option("--random", metavar="K", min=1, help="Check only the subtrees that hold K random steps."),
    ] = None,
) -> None:
    """Check a receipt: compute the hashes of its steps again from the config and the index of the data.

    Exits with 1 if they do not agree. Reads no data, unless the run has to be indexed first.
    """
    read = read_receipt(receipt)
    path = config or receipt.parent / read.config
    if not path.exists():
        raise ValueError(f"{path}: there is no such config; name it: penstock verify {receipt} CONFIG")
    chosen = _chosen(read.step_range(), random_steps)
    parts = subtree_steps(read.step_range())
    total = sum(len(parts[number]) for number in chosen)
    feed = penstock.open(path, rank=0, world=1, usage=None)
    with Progress("checking") as progress:
        wrong = check_receipt(feed, read, chosen, lambda done: progress.update(done, total))
    feed.close()
    _show(receipt, path, read, wrong, total)
    if wrong:
        print_error(ValueError(f"{receipt} does not agree with {path}"))
        raise typer.Exit(1)


def _chosen(steps: range, count: int | None) -> list[int]:
    """Return the subtrees to check: all, or those that hold some random steps, which nobody can foresee."""
    parts = subtree_steps(steps)
    if count is None or count >= len(steps):
        return list(range(len(parts)))
    picked = random.SystemRandom().sample(steps, count)
    return [number for number, part in enumerate(parts) if any(step in part for step in picked)]


def _show(path: Path, config: Path, read: Receipt, wrong: list[str], total: int) -> None:
    console = Terminal()
    steps = read.step_range()
    console.print(
        f"{path}: {counted(read.samples, 'sample')} in {steps_text(steps.start, steps.stop)}, root {read.root}",
        soft_wrap=True,
    )
    for text in wrong[:_SHOWN_DIFFERENCES]:
        console.print(Text.assemble(("✗", "red"), f" {escaped(text)}"), soft_wrap=True)
    if wrong[_SHOWN_DIFFERENCES:]:
        console.print(f"✗ and {len(wrong) - _SHOWN_DIFFERENCES:,} more", soft_wrap=True)
    if wrong:
        return
    part = f"all {total:,} steps agree" if total == len(steps) else f"{total:,} of {len(steps):,} steps agree"
    said = "the step agrees" if len(steps) == 1 else part
    console.print(Text.assemble(("✓", "green"), f" {said} with the plan of {config}"), soft_wrap=True)
    console.print(describe_contents(read), soft_wrap=True)
    console.print(read.says, soft_wrap=True)
