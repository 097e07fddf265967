"""``penstock filelist``: writes a filelist of the clips that pass quality rules, its manifest, and a report."""

import math
import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.console import Terminal, counted, escaped
from penstock.cli.engines import (
    Address,
    EngineName,
    OfShard,
    WithEngine,
    Workers,
    local_engine,
    parse_share,
    print_share_done,
    ray_engine,
)
from penstock.cli.options import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.progress import Progress
from penstock.cli.shards import named_shards
from penstock.config import nearest
from penstock.curate.speech.build import Outputs, build_filelist, measure_share
from penstock.curate.speech.holdout import HoldOut, read_names
from penstock.curate.speech.judge import HELD_OUT, KEPT, Report
from penstock.curate.speech.rules import Rules
from penstock.curate.speech.where import parse_condition
from penstock.manifest.manifest import spoken_hours
from penstock.readers.tar.explain import MAX_SECONDS
from penstock.recipes.extras import require_packages
from penstock.recipes.speech import DECODERS
from penstock.store.remote.options import StoreOptions


def filelist(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL…", help="Tar shards, or folders or prefixes that contain them.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Output filelist, such as data/filelists/train.tsv.")],
    store: Annotated[str | None, typer.Option(help="Folder or URL that shard paths are relative to.")] = None,
    manifest: Annotated[Path | None, typer.Option(help="Output manifest; by default next to the filelist.")] = None,
    seconds: Annotated[
        str,
        typer.Option(metavar="MIN:MAX", help="Range of durations to keep, such as 1:20, 1: or :20."),
    ] = ":",
    max_clipping: Annotated[float, typer.Option(help="Maximum share of samples at full scale.")] = 1.0,
    max_silence: Annotated[float, typer.Option(help="Maximum share of silent frames.")] = 1.0,
    min_snr: Annotated[float | None, typer.Option(help="Minimum estimated signal-to-noise ratio, in dB.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="Language to keep. May be repeated.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Condition on the .json of a clip, such as 'dnsmos >= 3.2'. May be repeated."),
    ] = None,
    hold_out_speakers: Annotated[
        Path | None, typer.Option(help="File with the speakers to hold out, one per line.")
    ] = None,
    hold_out_ids: Annotated[
        Path | None, typer.Option(help="File with the ids (or shard:id) to hold out, one per line.")
    ] = None,
    hold_out: Annotated[
        str, typer.Option(metavar="N%", help="Share of the speakers to hold out, selected by a hash of the name.")
    ] = "0%",
    held_out_to: Annotated[Path | None, typer.Option(help="Output filelist of the held-out clips.")] = None,
    skip_broken: Annotated[bool, typer.Option(help="Skip damaged archives instead of stopping.")] = False,
    workers: Workers = None,
    engine: WithEngine = EngineName.local,
    address: Address = None,
    shard: OfShard = None,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Write a filelist, and its manifest, of the clips that pass quality rules. Reads the data once."""
    require_packages("filelist", "speech", *DECODERS)
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
        raise ValueError("--held-out-to: nothing is held out; add --hold-out, --hold-out-speakers or --hold-out-ids")
    share = parse_share(shard)
    on_cluster = ray_engine(engine, address, workers)
    shards = named_shards(urls, store, StoreOptions(endpoint, region, anonymous, requests_per_second))
    size = (shards.size or sys.maxsize) // share.jobs  # unknown for single remote objects
    mapped = on_cluster or local_engine(workers, size=size, tasks=len(share.of(shards.paths)))
    outputs = Outputs(out, held_out_to, manifest)
    with Progress("measuring") as shown:
        progress = shown.update_read
        sources = (shards.store, shards.paths, outputs, mapped)
        if shard is not None:
            measure_share(*sources, share, skip_broken=skip_broken, progress=progress)
        else:
            report = build_filelist(*sources, rules=rules, hold_out=held, skip_broken=skip_broken, progress=progress)
    if shard is not None:
        print_share_done(share, f"has measured its share of {counted(len(shards.paths), 'shard')}", outputs.measured)
        return
    console = Terminal()
    show(report, console)
    for name in [name for name in language or () if name not in report.languages]:
        near = nearest(name, report.languages) or f"; there are {', '.join(report.languages[:12])}"
        console.print(_marked(f"--language {name}:", "yellow", f"no clip has this language{near}"), soft_wrap=True)
    console.print(
        f"{out}: {report.total([KEPT]):,} clips, {spoken_hours(report.hours([KEPT]))}; full report: {outputs.report}\n"
        f"use it with  manifest: {outputs.manifest_of(out)}  and  store: {shards.root}",
        soft_wrap=True,
    )


def show(report: Report, console: Console) -> None:
    """Print the clips kept per language, those dropped per rule, broken shards, and names that were not found."""
    languages = Table("language", title="hours (clips)", title_justify="left")
    outcomes = {KEPT: [KEPT], HELD_OUT: [HELD_OUT], "dropped": report.rules}
    for outcome in outcomes:
        languages.add_column(outcome, justify="right")
    for name in (*report.languages, None):
        cells = [f"{report.hours(o, name):,.2f} ({report.total(o, name):,})" for o in outcomes.values()]
        languages.add_row("all" if name is None else name, *cells)
    console.print(languages)
    if report.rules:
        dropped = Table("rule", title="dropped by the rules", title_justify="left")
        dropped.add_column("hours (clips)", justify="right")
        dropped.add_column("example", overflow="fold")
        for rule in report.rules:
            amount = f"{report.hours([rule]):,.2f} ({report.total([rule]):,})"
            dropped.add_row(rule, amount, report.examples[rule][0])
        console.print(dropped)
    if report.broken_shards:
        console.print(_marked("skipped, broken:", "red", ", ".join(report.broken_shards)), soft_wrap=True)
    if report.not_found:
        some = ", ".join(report.not_found[:10]) + (" …" if len(report.not_found) > 10 else "")
        count = f"{len(report.not_found):,} names to hold out have no clip that passed the rules:"
        console.print(_marked(count, "yellow", some), soft_wrap=True)


def _marked(what: str, colour: str, names: str) -> Text:
    return Text.assemble((what, colour), f" {escaped(names)}")


def _bounds(text: str) -> tuple[float, float]:
    """Parse ``1:20`` (1 to 20 seconds), ``1:`` (at least 1) or ``:20`` (at most 20)."""
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
