"""``penstock cache``: inspects, verifies and clears a node cache. Safe while jobs are running."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from penstock.cli.console import Terminal
from penstock.cli.progress import Progress
from penstock.config import load_config
from penstock.feed.opening import cache_dir
from penstock.pipelines import PIPELINES
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.maintenance import clear as clear_cache
from penstock.store.cache.maintenance import clear_scratch
from penstock.store.cache.maintenance import stat as stat_cache
from penstock.store.cache.maintenance import verify as verify_cache

cache = typer.Typer(help="Inspect, verify or clear a node cache. Safe while jobs are running.", no_args_is_help=True)

CacheOrConfig = Annotated[Path, typer.Argument(metavar="CONFIG|DIR", help="YAML file of a run, or cache folder.")]


@cache.command()
def stat(where: CacheOrConfig) -> None:
    """Show the cache's contents and its counters, summed over all processes of the node."""
    opened = _opened(where)
    found = stat_cache(opened.cache)
    table = Table(show_header=False)
    bound = f" of {opened.bound:,}" if opened.bound else ""
    table.add_row("folder", str(opened.cache.root))
    table.add_row("bytes reserved", f"{found.reserved:,}{bound}")
    table.add_row("bytes present", f"{found.present:,}")
    table.add_row("objects", f"{found.objects:,}: {found.complete:,} complete, {found.pinned:,} in use")
    counts = found.counts
    reads = counts.hits + counts.misses
    table.add_row(
        "reads", f"{reads:,}: {counts.hits / max(1, reads):.1%} hits, {counts.waits:,} waited for another fetch"
    )
    table.add_row("bytes read", f"{counts.bytes_read:,}")
    table.add_row(
        "bytes fetched", f"{counts.bytes_fetched:,} in {counts.requests:,} requests, {counts.retries:,} retried"
    )
    table.add_row("bytes evicted", f"{counts.bytes_evicted:,} in {counts.evictions:,} objects")
    table.add_row("waited for data", f"{counts.seconds_waited:.1f} s, summed over threads")
    Terminal().print(table)


@cache.command()
def verify(where: CacheOrConfig) -> None:
    """Compare complete objects with their ETags, if these are hashes of the content."""
    with Progress("verifying", in_bytes=True) as progress:
        verdict = verify_cache(_opened(where).cache, progress.update)
    typer.echo(
        f"{verdict.good:,} good, {verdict.incomplete:,} incomplete, {verdict.unchecked:,} not checkable, "
        f"{len(verdict.bad):,} bad"
    )
    if verdict.bad:
        raise ValueError("these files do not match their ETag; remove them: " + ", ".join(verdict.bad))


@cache.command()
def clear(where: CacheOrConfig) -> None:
    """Remove objects that no process is using, compiled filelists and stored indexes."""
    opened = _opened(where).cache
    removed, kept = clear_cache(opened)
    typer.echo(f"{removed:,} bytes removed" + (f", {kept:,} kept because they are in use" if kept else ""))
    if scratch := clear_scratch(opened):
        typer.echo(f"{scratch:,} bytes of compiled filelists and stored indexes removed")


class _InspectedCache(NamedTuple):
    """A cache opened for inspection.

    Attributes:
        cache: Node cache.
        bound: Maximum size in bytes by the config; None if it is not given.
    """

    cache: NodeCache
    bound: int | None


def _opened(where: Path) -> _InspectedCache:
    if not where.exists():
        raise ValueError(f"{where}: no such folder or config")
    config = None if where.is_dir() else load_config(where, PIPELINES)
    folder = cache_dir(config) if config else where
    if not folder.exists():
        raise ValueError(f"there is no cache at {folder} yet; a run or `penstock warm` creates it")
    if not (folder / CONTROL).is_dir():
        raise ValueError(f"{folder} is not a node cache; nothing in it was changed")
    return _InspectedCache(NodeCache.as_it_is(folder), config.cache.size if config and config.cache else None)
