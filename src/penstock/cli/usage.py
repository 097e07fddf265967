"""``penstock usage``: shows what a run has used, and checks it against the plan."""

from collections import Counter
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import penstock
from penstock.cli.console import Terminal, counted, escaped, print_error
from penstock.cli.progress import Progress
from penstock.feed import Feed
from penstock.observe.coverage import steps_text
from penstock.observe.lineage import Lineage
from penstock.observe.lines import line_timeline, read_lines
from penstock.observe.proof import prove
from penstock.observe.usage import Usage, summarise

_MAX_SHOWN = 20  # differences, gaps and spans of steps


def usage(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Ledgers of a run, one per node.")],
    check: Annotated[
        Path | None, typer.Option(metavar="CONFIG", help="Check the ledger against the plan of a run.")
    ] = None,
    groups: Annotated[int, typer.Option("--groups", "--shards", min=0, help="Number of most-used groups to list.")] = 5,
) -> None:
    """Show what a run has used: samples per source and group, bad samples, the cache, and waits for data."""
    names = ", ".join(map(str, logs))
    lines = list(read_lines(*logs))
    feed = penstock.open(check, rank=0, world=1, usage=None) if check else None
    if not lines:
        _end_empty(names, check is not None)
    console = Terminal()
    found = summarise(lines, feed)
    if not found.lines:
        none = f"none of its {len(lines):,} lines is valid" if len(lines) > 1 else "its only line is not valid"
        raise ValueError(f"{names} is not a usage ledger: {none}")
    console.print(
        f"{counted(found.samples, 'sample')} in {counted(found.lines, 'line')} of "
        f"{counted(len(found.processes), 'process', 'processes')} ({counted(len(found.ranks), 'rank')}), "
        f"{steps_text(found.first_step or 0, found.next_step)}",
        soft_wrap=True,
    )
    if found.stalls:
        console.print(_stalls(found.stalls), soft_wrap=True)
    _show_repeats(found.lineage, console)
    for gap in [] if check else found.lineage.gaps[:_MAX_SHOWN]:
        console.print(f"missing: {gap}", highlight=False, soft_wrap=True)
    console.print(_source_table(found, {} if feed is None else _quotas(feed, found.lineage)))
    console.print(f"{counted(len(found.groups), 'group')} used; the most used:")
    for name, count in found.groups.most_common(groups):
        console.print(f"  {count:8,}  {escaped(name)}", soft_wrap=True)
    if cache := sum(found.cache.values(), Counter[str]()):
        waited = cache.pop("waited_ns", 0) / 1e9
        counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in cache.items())
        console.print(f"cache: {counts}, waited {waited:.1f} s over all threads", soft_wrap=True)
    torn = f", {counted(found.torn, 'torn line')}" if found.torn else ""
    console.print(f"{counted(len(found.bad), 'bad sample')}{torn}")
    for bad in found.bad[:groups]:
        text = f"  step {bad['step']}: {bad['group']}:{bad['id']}: {bad['reason']}"
        console.print(text, soft_wrap=True)
    if feed is not None:
        with Progress("checking") as progress:
            proof = prove(feed, progress.track(lines, len(lines)), found.lineage)
        _show_verdict([*proof.wrong, *found.copies], proof.proven, console)
        if proof.wrong or found.copies:
            places = counted(len(proof.wrong) + len(found.copies), "place")
            print_error(ValueError(f"{names} is not proven: it differs from the plan of {check} in {places}"))
            raise typer.Exit(1)
        verdict = Text.assemble(("✓", "green"), f" all {found.samples:,} samples agree with the plan of {check}")
        console.print(verdict, soft_wrap=True)


def _source_table(found: Usage, quotas: dict[str, float]) -> Table:
    table = Table("source")
    for column in ("samples", "share", *(["off quota by"] if quotas else [])):
        table.add_column(column, justify="right")
    for name, count in sorted(found.sources.items(), key=lambda pair: -pair[1]):
        off = [f"{count - quotas[name]:+.2f}" if name in quotas else ""] if quotas else []
        table.add_row(name, f"{count:,}", f"{count / found.samples:.2%}", *off)
    return table


def _show_verdict(wrong: list[str], proven: list[str], console: Console) -> None:
    for text in wrong[:_MAX_SHOWN]:
        console.print(Text.assemble(("✗", "red"), f" {escaped(text)}"), soft_wrap=True)
    if wrong[_MAX_SHOWN:]:
        console.print(f"✗ and {len(wrong) - _MAX_SHOWN:,} more", soft_wrap=True)
    for text in proven[:_MAX_SHOWN]:
        console.print(f"proven: {text}", highlight=False, soft_wrap=True)
    if proven[_MAX_SHOWN:]:
        console.print(f"proven: {len(proven) - _MAX_SHOWN:,} more spans of steps", soft_wrap=True)
    if not proven:
        console.print("proven: no step", soft_wrap=True)


def _end_empty(names: str, checked: bool) -> NoReturn:
    """End the command for an empty ledger, which is an error only if it is to be checked."""
    empty = f"{names} is empty: no step was recorded yet"
    if checked:
        print_error(ValueError(f"{empty}, so there is nothing to prove"))
        raise typer.Exit(1)
    Terminal().print(empty, soft_wrap=True)
    raise typer.Exit()


def _stalls(stalls: list[tuple[float, int]]) -> str:
    """Describe how long steps waited for data, over all ranks."""
    seconds = sorted(seconds for seconds, _ in stalls)
    longest, step = max(stalls)
    median, worst = (seconds[int(share * (len(seconds) - 1))] for share in (0.5, 0.99))
    return (
        f"waited {sum(seconds):.1f} s for data: median {1e3 * median:.1f} ms per step, "
        f"99th percentile {1e3 * worst:.1f} ms, maximum {1e3 * longest:.1f} ms at step {step:,}"
    )


def _show_repeats(lineage: Lineage, console: Console) -> None:
    if lineage.repeated:
        text = f"{counted(lineage.repeated, 'step')} of a rank made again, as after a restart; only the last one counts"
        if lineage.doubled:
            text += f", but {lineage.doubled:,} count twice: use --check CONFIG to cut lines that overlap in part"
        console.print(text, soft_wrap=True)
    if lineage.ahead:
        steps = counted(lineage.ahead, "step")
        console.print(
            f"not counted: {steps} of a rank that workers made ahead and the trainer never received", soft_wrap=True
        )


def _quotas(feed: Feed, lineage: Lineage) -> dict[str, float]:
    """Return the mixture's quota of each source, for the part of each global batch that a line covers."""
    quotas = np.zeros(len(feed.catalog.sources))
    for line in lineage.lines:
        timeline = line_timeline(line)
        start, stop = timeline.span(*line["steps"])
        granted = feed.plan.order.quotas(start, stop)
        if granted is not None:
            quotas += granted * line["samples"] / (stop - start)
    return dict(zip(feed.catalog.sources, quotas.tolist(), strict=True)) if quotas.any() else {}
