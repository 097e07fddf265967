"""``penstock index``: tar shards -> an indexed manifest."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.cli.remote import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.shards import named_shards
from penstock.readers.tar.index import index_shards
from penstock.store.remote.options import StoreOptions


def index(
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="Tar shards, or folders of them.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The manifest: a folder that is made.")],
    store: Annotated[str | None, typer.Option(help="What shard paths shall be relative to.")] = None,
    filelist: Annotated[
        Path | None, typer.Option(help="Index only its rows, with its languages and durations.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Shards read at once.")] = 8,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Read tar shards once; write where every sample lies, with a checksum of each file."""
    shards = named_shards(urls, store, StoreOptions(endpoint, region, anonymous, requests_per_second))
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[size]}"))
    with Progress(*columns, TimeRemainingColumn(), transient=True) as bar:
        task = bar.add_task("", total=len(shards.paths), size="")

        def progress(done: int, total: int, size: int) -> None:
            bar.update(task, completed=done, total=total, size=f"{size / 1e9:.2f} GB")

        manifest = index_shards(shards.store, shards.paths, out, filelist=filelist, threads=threads, progress=progress)
    hours = sum(manifest.microseconds) / 3.6e9
    Console().print(
        f"{out}: {len(manifest):,} items in {manifest.shard_count:,} shards, {len(manifest.sources)} sources, "
        f"{hours:,.2f} hours\nuse it as  manifest: {out}  with  store: {shards.root}",
        highlight=False,
        soft_wrap=True,
    )
