"""``penstock index``: tar shards -> an indexed manifest."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.sources.index import index_shards
from penstock.store.local import LocalStore


def index(
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="Tar shards, or folders of them.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The manifest: a folder that is made.")],
    store: Annotated[str | None, typer.Option(help="What shard paths shall be relative to.")] = None,
    filelist: Annotated[
        Path | None, typer.Option(help="Index only its rows, with its languages and durations.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Shards read at once.")] = 8,
) -> None:
    """Read tar shards once; write where every sample lies, with a checksum of each file."""
    root, paths = _local_shards(urls, store)
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[size]}"))
    with Progress(*columns, TimeRemainingColumn(), transient=True) as bar:
        task = bar.add_task("", total=len(paths), size="")

        def progress(done: int, shards: int, size: int) -> None:
            bar.update(task, completed=done, total=shards, size=f"{size / 1e9:.2f} GB")

        manifest = index_shards(LocalStore(root), paths, out, filelist=filelist, threads=threads, progress=progress)
    hours = sum(manifest.microseconds) / 3.6e9
    Console().print(
        f"{out}: {len(manifest):,} items in {manifest.shard_count:,} shards, {len(manifest.sources)} sources, "
        f"{hours:,.2f} hours\nuse it as  manifest: {out}  with  store: {root}",
        highlight=False,
        soft_wrap=True,
    )


def _local_shards(urls: list[str], store: str | None) -> tuple[Path, list[str]]:
    """The folder that paths are relative to, and the shards below it that the arguments name."""
    files: list[Path] = []
    for url in map(Path, urls):
        found = sorted(url.rglob("*.tar")) if url.is_dir() else [url]
        if not found or not found[0].exists():
            raise FileNotFoundError(f"{url}: no tar shards here")
        files += [file.absolute() for file in found]
    if store is not None:
        root = Path(store).absolute()
    elif len(urls) == 1 and Path(urls[0]).is_dir():
        root = Path(urls[0]).absolute()
    else:
        root = Path(os.path.commonpath([file.parent for file in files]))
    outside = [str(file) for file in files if not file.is_relative_to(root)]
    if outside:
        raise ValueError(f"--store {root}: {outside[0]} is not below it")
    return root, [file.relative_to(root).as_posix() for file in files]
