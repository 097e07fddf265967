"""``penstock index``: tar shards -> an indexed manifest."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from penstock.cli.console import Terminal
from penstock.cli.progress import Progress
from penstock.cli.remote import Anonymous, Endpoint, Region, RequestsPerSecond
from penstock.cli.shards import named_shards
from penstock.manifest.manifest import UNITS
from penstock.readers.tar.index import index_shards
from penstock.store.remote.options import StoreOptions


def index(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL…", help="Tar shards, or folders or prefixes that contain them.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The manifest to write; a folder.")],
    store: Annotated[str | None, typer.Option(help="The folder or URL that shard paths are relative to.")] = None,
    filelist: Annotated[
        Path | None, typer.Option(help="Index only the items of this filelist, with its languages and durations.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Number of shards to read at once.")] = 8,
    endpoint: Endpoint = "",
    region: Region = "",
    anonymous: Anonymous = False,
    requests_per_second: RequestsPerSecond = None,
) -> None:
    """Read tar shards once and write a manifest with the position of every sample and a checksum of every file."""
    shards = named_shards(urls, store, StoreOptions(endpoint, region, anonymous, requests_per_second))
    with Progress("indexing") as shown:

        def progress(done: int, total: int, size: int) -> None:
            shown.update(done, total, decimal(size))

        manifest = index_shards(shards.store, shards.paths, out, filelist=filelist, threads=threads, progress=progress)
    hours = sum(manifest.amounts["hours"]) / UNITS["hours"]
    Terminal().print(
        f"{out}: {len(manifest):,} items in {manifest.shard_count:,} shards, {len(manifest.sources)} sources, "
        f"{hours:,.2f} hours\nuse it with  manifest: {out}  and  store: {shards.root}",
        soft_wrap=True,
    )
