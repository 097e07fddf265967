"""``penstock simulate``: what a run will download, keep, wait for and cost. Reads no data."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import penstock
from penstock.cli.console import Terminal, print_rows
from penstock.cli.options import AsJson, ConfigFile
from penstock.cli.progress import Progress
from penstock.config import Config, load_config
from penstock.config.values import duration, size_in_bytes
from penstock.feed import Feed
from penstock.feed.opening import cache_bytes, cache_dir
from penstock.observe.simulation.forecast import Forecast, Setting, forecast
from penstock.observe.simulation.node import NodeMoment, NodeSimulation
from penstock.observe.simulation.plot import write_plot
from penstock.pipelines import PIPELINES
from penstock.recipes.extras import require_packages

_BITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MAX_NODES = 16  # rows of the table
_MAX_MOMENTS = 200  # per node in JSON


def simulate(
    config: ConfigFile,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes, each with a cache of its own.")] = 1,
    gpus_per_node: Annotated[int, typer.Option(min=1, help="Ranks per node.")] = 1,
    step_time: Annotated[str, typer.Option(help="Duration of a step that waits for nothing, such as 400ms.")] = "1s",
    bandwidth: Annotated[str, typer.Option(help="Bandwidth of each node, such as 10Gbps or 500MB.")] = "10Gbps",
    cache: Annotated[str, typer.Option(help="Cache of each node, such as 500GB; by default cache.size.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="Number of steps, from the start of the run.")] = 1_000,
    price_per_gb: Annotated[float, typer.Option(min=0, help="Price of a downloaded GB.")] = 0.0,
    price_per_million_requests: Annotated[float, typer.Option(min=0, help="Price of a million requests.")] = 0.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture to write, such as run.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast downloads, requests, cache, waits and costs of a run on some nodes.

    Works from the plan alone: nothing is downloaded. A short run is simulated step by step, a long one by the groups
    that enter and leave the pool. An ordinary run, with threads, may have 10% more or fewer requests and
    evictions; where more is uncertain, a note says so. The cache of the run is not changed.
    """
    if plot is not None:
        require_packages("penstock simulate --plot", "see", "matplotlib")
    seconds = _seconds(step_time)
    rate = _bytes_per_second(bandwidth)
    own = load_config(config, PIPELINES)
    setting = Setting(nodes, gpus_per_node, steps, seconds, rate, _size(own, cache))
    with _opened(config, own, setting.world) as feed, Progress("simulating") as progress:
        found = forecast(feed, setting, progress.update)
    if plot is not None:
        write_plot(found, plot)
    cost = found.cost(price_per_gb, price_per_million_requests)
    if as_json:
        print_rows([_run(found, cost), *_node_rows(found)], as_json=True)
    else:
        _show(found, cost if price_per_gb or price_per_million_requests else None)


@contextmanager
def _opened(path: Path, config: Config, world: int) -> Iterator[Feed]:
    """Open a run. A cache folder that does not exist yet is not created: a temporary one takes its place."""
    with tempfile.TemporaryDirectory(prefix="penstock-simulate-") as folder:
        temporary = {"dir": folder, "size": shutil.disk_usage(folder).free // 2}  # for what is read to open a run
        instead: dict[str, Any] = {} if cache_dir(config).is_dir() else {"cache": temporary}
        feed = penstock.open(path, rank=0, world=world, usage=None, **instead)
        try:
            yield feed
        finally:
            feed.close()


def _seconds(text: str) -> float:
    try:
        seconds = duration(text)
    except ValueError as error:
        raise ValueError(f"--step-time {text}: {error}") from None
    assert isinstance(seconds, float)
    return seconds


def _size(config: Config, text: str) -> int:
    if text:
        try:
            found = size_in_bytes(text)
        except ValueError as error:
            raise ValueError(f"--cache {text}: {error}") from None
        assert isinstance(found, int)
        return found
    return cache_bytes(config)


def _bytes_per_second(text: str) -> float:
    """Parse bits per second such as ``10Gbps``, or bytes per second such as ``500MB``.

    Raises:
        ValueError: If the text has another form, or is 0.
    """
    bits = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)bps\s*", text, re.IGNORECASE)
    if bits:
        found = float(bits[1]) * _BITS[bits[2].upper()] / 8
    else:
        try:
            size = size_in_bytes(text)
        except ValueError:
            raise ValueError(f"--bandwidth {text}: write it as 10Gbps (bits) or 500MB (bytes per second)") from None
        assert isinstance(size, int)
        found = float(size)
    if not found:
        raise ValueError(f"--bandwidth {text}: must be more than 0")
    return found


def _run(found: Forecast, cost: float) -> dict[str, Any]:
    """Return the figures of the whole run."""
    requests = found.total("requests")
    evictions = found.total("evictions")
    return {
        **found.setting._asdict(),
        "by": found.by,
        "hours": found.stalls.hours,
        "downloads": found.total("downloads"),
        "bytes": found.total("bytes_fetched"),
        "bytes_again": found.total("bytes_again"),
        "requests": requests,
        "requests_between": found.requests_between(),
        "evictions": evictions,
        "evictions_between": found.evictions_between(),
        "hits": found.total("hits") / max(1, found.total("pins")),
        "first_step_seconds": found.stalls.first_seconds,
        "stalled_steps": found.stalls.steps,
        "stalled_seconds": found.stalls.seconds,
        "warming_per_hour": found.warming._asdict(),
        "steady_per_hour": found.steady._asdict(),
        "least_cache": found.least_cache,
        "enough_cache": found.enough_cache,
        "enough_bytes_per_second": found.enough_bandwidth,
        "cost": cost,
        "notes": list(found.notes),
    }


def _in_words(count: int, low: int, high: int | None) -> str:
    return f"{count:,} ({low:,} to {high:,})" if high is not None else f"{low:,} or more"


def _node_rows(found: Forecast) -> Iterator[dict[str, Any]]:
    for number, node in enumerate(found.nodes):
        every = max(1, len(node.moments) // _MAX_MOMENTS)
        moments: list[NodeMoment] = node.moments[every - 1 :: every]
        seconds = found.stalls.at[every - 1 :: every]
        series = [{**moment._asdict(), "seconds": at} for moment, at in zip(moments, seconds, strict=True)]
        yield {"node": number, **asdict(node.counts), "most_held": _most_held(node), "moments": series}


def _most_held(node: NodeSimulation) -> int:
    return max((moment.held for moment in node.moments), default=0)


def _show(found: Forecast, cost: float | None) -> None:
    setting = found.setting
    terminal = Terminal()
    title = f"{setting.steps:,} steps on {setting.nodes} nodes, simulated by {found.by}"
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in _lines(found, cost):
        table.add_row(name, value)
    terminal.print(table)
    nodes = Table("node", "downloads", "GB", "requests", "evictions", "most in the cache, GB")
    for number, node in enumerate(found.nodes[:_MAX_NODES]):
        counts = node.counts
        figures = [f"{counts.downloads:,}", _gigabytes(counts.bytes_fetched), f"{counts.requests:,}"]
        nodes.add_row(str(number), *figures, f"{counts.evictions:,}", _gigabytes(_most_held(node)))
    if len(found.nodes) > _MAX_NODES:
        nodes.add_row("…", "", "", "", "", "")
    terminal.print(nodes)
    for note in found.notes:
        terminal.print(f"note: {note}")


def _lines(found: Forecast, cost: float | None) -> Iterator[tuple[str, str]]:
    waits = found.stalls
    requests = found.total("requests")
    evictions = found.total("evictions")
    yield "duration", f"{waits.hours:,.2f} h"
    yield "downloads", f"{found.total('downloads'):,} units, {_gigabytes(found.total('bytes_fetched'))} GB"
    yield "requests", _in_words(requests, *found.requests_between())
    yield "evictions", _in_words(evictions, *found.evictions_between())
    yield "downloaded again", f"{_gigabytes(found.total('bytes_again'))} GB"
    yield "found in the cache", f"{found.total('hits') / max(1, found.total('pins')):.1%}"
    for name, rate in (("warming", found.warming), ("steady", found.steady)):
        yield f"{name}, per node", f"{rate.downloads:,.1f} units/h, {rate.gigabytes:,.1f} GB/h"
    yield "before the first step", f"{waits.first_seconds:,.2f} s"
    yield "steps that wait", f"{waits.steps:,}, {waits.seconds:,.1f} s in all"
    yield "cache that is pinned at most", f"{_gigabytes(found.least_cache)} GB"
    yield "cache that evicts nothing", f"{_gigabytes(found.enough_cache)} GB"
    enough = found.enough_bandwidth
    said = "none: no room to fetch ahead" if enough is None else f"{enough * 8 / 1e9:,.3f} Gbps per node"
    yield "bandwidth that is enough", said
    if cost is not None:
        yield "cost", f"{cost:,.2f}"


def _gigabytes(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.2f}"
