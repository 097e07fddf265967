"""``penstock cache``: look after a node cache by hand. Safe beside running jobs."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from penstock.config import load_config
from penstock.store.admission import CONTROL
from penstock.store.cache import NodeCache
from penstock.store.upkeep import clear as clear_cache
from penstock.store.upkeep import stat as stat_cache
from penstock.store.upkeep import verify as verify_cache

cache = typer.Typer(help="Look after a node cache: what is in it, is it right, empty it.", no_args_is_help=True)

Where = Annotated[Path, typer.Argument(metavar="CONFIG|DIR", help="A run's YAML file, or the cache's folder.")]


@cache.command()
def stat(where: Where) -> None:
    """Show what is in the cache and what it has done, summed over all processes of the node."""
    found = stat_cache(_opened(where))
    table = Table(show_header=False)
    bound = "" if found.max_bytes == sys.maxsize else f" of {found.max_bytes:,}"
    table.add_row("bytes reserved", f"{found.reserved:,}{bound}")
    table.add_row("bytes present", f"{found.present:,}")
    table.add_row("objects", f"{found.objects:,}: {found.complete:,} complete, {found.pinned:,} in use")
    counts = found.counts
    reads = counts.hits + counts.misses
    table.add_row("reads", f"{reads:,}: {counts.hits / max(1, reads):.1%} hits, {counts.waits:,} waited for others")
    table.add_row("bytes read", f"{counts.bytes_read:,}")
    table.add_row(
        "bytes fetched", f"{counts.bytes_fetched:,} in {counts.requests:,} requests, {counts.retries:,} retried"
    )
    table.add_row("bytes evicted", f"{counts.bytes_evicted:,} in {counts.evictions:,} objects")
    table.add_row("waited for data", f"{counts.seconds_waited:.1f} s, summed over threads")
    Console().print(table)


@cache.command()
def verify(where: Where) -> None:
    """Read again all that is whole and has an ETag that is an MD5."""
    verdict = verify_cache(_opened(where))
    typer.echo(f"{verdict.good:,} good, {verdict.unchecked:,} not checkable, {len(verdict.bad):,} bad")
    if verdict.bad:
        raise ValueError("not the bytes of their ETag, remove them: " + ", ".join(verdict.bad))


@cache.command()
def clear(where: Where) -> None:
    """Evict all that no process has in use."""
    removed, kept = clear_cache(_opened(where))
    typer.echo(f"{removed:,} bytes removed" + (f", {kept:,} in use and kept" if kept else ""))


def _opened(where: Path) -> NodeCache:
    if where.is_dir():
        if not (where / CONTROL / "part_bytes").exists():
            raise ValueError(f"{where} is no node cache: nothing in it is touched")
        return NodeCache(where, sys.maxsize)
    config = load_config(where)
    if config.cache is None:
        raise ValueError(f"{where}: cache: the config names none")
    return NodeCache(config.cache.dir, config.cache.size)
