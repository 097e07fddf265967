"""``penstock filelist``: tar shards -> a filelist of what passes rules of quality, its manifest, and a report."""

import math
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from penstock.cli.remote import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.shards import named_shards
from penstock.curate.speech.build import Outputs, build_filelist
from penstock.curate.speech.holdout import HoldOut, read_names
from penstock.curate.speech.report import HELD_OUT, KEPT, Report
from penstock.curate.speech.rules import Rules
from penstock.curate.speech.where import parse_condition
from penstock.readers.tar.explain import MAX_SECONDS
from penstock.store.remote.options import StoreOptions


def filelist(
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="Tar shards, or folders or prefixes of them.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The filelist, such as data/filelists/train.tsv.")],
    store: Annotated[str | None, typer.Option(help="What shard paths shall be relative to.")] = None,
    manifest: Annotated[Path | None, typer.Option(help="The indexed manifest, if not beside the filelist.")] = None,
    seconds: Annotated[
        str, typer.Option(metavar="MIN:MAX", help="Durations, such as 1:20; either may be left out.")
    ] = ":",
    max_clipping: Annotated[float, typer.Option(help="Largest share of samples at full scale.")] = 1.0,
    max_silence: Annotated[float, typer.Option(help="Largest share of silent frames.")] = 1.0,
    min_snr: Annotated[float | None, typer.Option(help="Least estimated signal-to-noise ratio, in dB.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="Keep this language; may be repeated.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="A comparison on the sample's .json: 'dnsmos >= 3.2'; may be repeated.")
    ] = None,
    hold_out_speakers: Annotated[Path | None, typer.Option(help="A file of speakers, one a line.")] = None,
    hold_out_ids: Annotated[Path | None, typer.Option(help="A file of ids, or shard:id, one a line.")] = None,
    hold_out: Annotated[str, typer.Option(metavar="N%", help="Of all speakers, drawn by name.")] = "0%",
    held_out_to: Annotated[Path | None, typer.Option(help="A filelist of what is held out.")] = None,
    skip_broken: Annotated[bool, typer.Option(help="Go on without archives that are damaged.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")] = None,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Build a filelist from shards by quality rules, with its indexed manifest, in one pass over the data."""
    least, most = _bounds(seconds)
    rules = Rules(
        (least, most),
        max_clipping,
        max_silence,
        -math.inf if min_snr is None else min_snr,
        frozenset(language) if language else None,
        tuple(parse_condition(text) for text in where or ()),
    )
    none: frozenset[str] = frozenset()
    held = HoldOut(
        read_names(hold_out_speakers) if hold_out_speakers else none,
        read_names(hold_out_ids) if hold_out_ids else none,
        _percent(hold_out),
    )
    if held_out_to and not held:
        raise ValueError("--held-out-to: nothing is held out; say --hold-out, --hold-out-speakers or --hold-out-ids")
    shards = named_shards(urls, store, StoreOptions(endpoint, region, anonymous, requests_per_second))
    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[size]}"))
    with Progress(*columns, TimeRemainingColumn(), transient=True) as bar:
        task = bar.add_task("", total=len(shards.paths), size="")

        def progress(done: int, total: int, size: int) -> None:
            bar.update(task, completed=done, total=total, size=f"{size / 1e9:.2f} GB")

        outputs = Outputs(out, held_out_to, manifest)
        report = build_filelist(
            shards.store,
            shards.paths,
            outputs,
            rules=rules,
            hold_out=held,
            skip_broken=skip_broken,
            workers=workers,
            progress=progress,
        )
    console = Console()
    show(report, console)
    console.print(
        f"{out}: {report.total([KEPT]):,} clips, {report.hours([KEPT]):,.2f} hours; in full: {outputs.report}\n"
        f"use it as  manifest: {outputs.manifest_of(out)}  with  store: {shards.root}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def show(report: Report, console: Console) -> None:
    """Two tables, what is left of each language and what each rule cost, and what else should be known."""
    languages = Table("language", title="hours (clips)", title_justify="left")
    outcomes = {KEPT: [KEPT], HELD_OUT: [HELD_OUT], "dropped": report.rules}
    for outcome in outcomes:
        languages.add_column(outcome, justify="right")
    for name in (*report.languages, None):
        cells = [f"{report.hours(o, name):,.2f} ({report.total(o, name):,})" for o in outcomes.values()]
        languages.add_row("all" if name is None else escape(name), *cells)
    console.print(languages)
    if report.rules:
        dropped = Table("dropped for", title="what the rules cost", title_justify="left")
        dropped.add_column("hours (clips)", justify="right")
        dropped.add_column("for example", overflow="fold")
        for rule in report.rules:
            amount = f"{report.hours([rule]):,.2f} ({report.total([rule]):,})"
            dropped.add_row(escape(rule), amount, escape(report.examples[rule][0]))
        console.print(dropped)
    if report.broken_shards:
        console.print(f"[red]left out, broken:[/] {escape(', '.join(report.broken_shards))}", soft_wrap=True)
    if report.not_found:
        some = ", ".join(report.not_found[:10]) + (" …" if len(report.not_found) > 10 else "")
        count = f"{len(report.not_found):,} names to hold out have no clip that passed:"
        console.print(f"[yellow]{count}[/] {escape(some)}", soft_wrap=True)


def _bounds(text: str) -> tuple[float, float]:
    """``1:20`` is from 1 to 20 seconds, ``1:`` at least 1, ``:20`` at most 20."""
    match = re.fullmatch(r"(\d*\.?\d*):(\d*\.?\d*)", text)
    try:
        if match:
            return float(match[1] or 0), float(match[2] or MAX_SECONDS)
    except ValueError:
        pass
    raise ValueError(f"--seconds {text}: write 1:20 for 1 to 20 seconds, 1: for at least 1, :20 for at most 20")


def _percent(text: str) -> float:
    match = re.fullmatch(r"(\d+\.?\d*)%", text)
    if not match:
        raise ValueError(f"--hold-out {text}: write a percentage of the speakers, such as 1%")
    return float(match[1]) / 100
