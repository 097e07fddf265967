"""``penstock eval build``: selects a fixed set of clips per language, from folders, tar shards or known datasets."""

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from penstock.cli.shards import Shards
from penstock.recipes.extras import require_packages
from penstock.recipes.speech import DECODERS
from penstock.runtime.engines.engine import Engine, JobShare
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import local_path

if TYPE_CHECKING:
    from penstock.curate.speech.evaluation.build import Built
    from penstock.curate.speech.evaluation.candidates import Candidate

_SHARDS_AT_ONCE = 8  # reading names mostly waits

evaluation = typer.Typer(help="Build evaluation data.", no_args_is_help=True)


@evaluation.command()
def build(
    out: Annotated[str, typer.Argument(help="Output folder, or prefix of a bucket such as s3://bucket/evaluation.")],
    source: Annotated[
        list[str],
        typer.Option(
            metavar="[LANGUAGE=]SOURCE",
            help="Folder with one folder per language; tar shards (a file, folder or URL); or a dataset: "
            "fleurs:CONFIG:SPLIT, librispeech:CONFIG:SPLIT (CONFIG and SPLIT are optional; add @FOLDER for a local "
            "copy), datasets:CONFIG:SPLIT@ORG/NAME. May be repeated.",
        ),
    ],
    samples: Annotated[int, typer.Option(min=1, help="Number of samples per language.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the selection.")] = 0,
    workers: Workers = None,
    engine: WithEngine = EngineName.local,
    address: Address = None,
    shard: OfShard = None,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Write one LANGUAGE_eval.tar of 16 kHz WAV and JSON per language, with index.json and a filelist."""
    require_packages("eval build", "speech", *DECODERS)
    from penstock.cli.eval_sources import candidates_of  # imports decoders, which other commands do not need
    from penstock.curate.speech.evaluation.build import build_evaluation
    from penstock.curate.speech.evaluation.destination import open_destination
    from penstock.curate.speech.evaluation.shards import shard_candidates

    options = StoreOptions(endpoint, region, anonymous, requests_per_second)
    share = parse_share(shard)
    on_cluster = ray_engine(engine, address, workers)
    kept = _folder_of_clips(out)

    def engine_for(size: int, tasks: int, at_once: int = 1) -> Engine:
        return on_cluster or local_engine(workers, size=size, tasks=tasks, at_once=at_once)

    if shard is not None:
        _list_share(source, options, kept, share, engine_for)
        return
    with open_destination(out, options) as destination:
        with Progress("reading names") as shown:

            def list_shards(shards: Shards, language: str | None) -> "Iterator[Candidate]":
                mapped = engine_for(shards.size or sys.maxsize, len(shards.paths), _SHARDS_AT_ONCE)
                folder = kept or destination.work / "clips"
                return shard_candidates(
                    shards.store, shards.paths, folder, mapped, language, progress=shown.update_read
                )

            found = list(chain.from_iterable(candidates_of(each, options, list_shards) for each in source))
        with Progress("building") as shown:

            def progress(language: str, done: int, total: int) -> None:
                shown.update(done, total, language)

            mapped = engine_for(sum(each.size for each in found), len(found))
            built = build_evaluation(found, destination, mapped, count=samples, seed=seed, progress=progress)
    show(built, out, Terminal())


def _folder_of_clips(out: str) -> Path | None:
    """Return the folder that keeps what was found in shards, beside the output; None if that is in a bucket."""
    folder = local_path(out)
    return None if folder is None else folder.absolute().with_name(f"{folder.absolute().name}.clips")


def _list_share(
    sources: list[str],
    options: StoreOptions,
    kept: Path | None,
    share: JobShare,
    engine_for: Callable[[int, int, int], Engine],
) -> None:
    """Read the share of a job in the tar shards of all sources."""
    from penstock.cli.eval_sources import shards_of
    from penstock.curate.speech.evaluation.shards import ListedShards

    if kept is None:
        raise ValueError("--shard: jobs share a folder; build into a folder, and upload it then")
    found = [shards for each in sources if (shards := shards_of(each, options)) is not None]
    if not found:
        raise ValueError("--shard: jobs share the reading of tar shards, and no --source has any; leave it out")
    with Progress("reading names") as shown:
        for shards in found:
            size = (shards.size or sys.maxsize) // share.jobs
            mapped = engine_for(size, len(share.of(shards.paths)), _SHARDS_AT_ONCE)
            listed = ListedShards(kept, shards.store)
            listed.make(shards.paths, mapped, share=share, progress=shown.update_read)
    count = counted(sum(len(shards.paths) for shards in found), "shard")
    print_share_done(share, f"has read its share of {count}", kept)


def show(built: "Built", out: str, console: Console) -> None:
    """Print a table of languages, then languages with too few samples, and clips that were left out."""
    table = Table("language", title=f"evaluation data in {out}", title_justify="left")
    for column in ("samples", "hours", "MB", "of candidates", ""):
        table.add_column(column, justify="right")
    for name, one in sorted(built.languages.items()):
        archive = one.archive
        cells = (len(archive.samples), f"{one.hours:.2f}", f"{archive.bytes / 1e6:.2f}", f"{one.candidates:,}")
        table.add_row(name, *map(str, cells), "built" if name in built.made else "unchanged")
    console.print(table)
    for name, one in sorted(built.languages.items()):
        if len(one.archive.samples) < one.requested:
            found = f"only {len(one.archive.samples):,} of the {one.requested:,} requested samples"
            console.print(_of(name, f"{found}; its sources have no more"), soft_wrap=True)
        for clip in one.archive.left_out:
            left_out = f"left out {clip.source}: {clip.name}: {clip.reason}"
            console.print(_of(name, left_out), soft_wrap=True)


def _of(language: str, text: str) -> Text:
    return Text.assemble((escaped(language), "yellow"), f": {escaped(text)}")
