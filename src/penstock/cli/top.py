"""``penstock top``: a run that is going on, in the terminal."""

import signal
import time
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

import penstock
from penstock.cli.console import Terminal, counted, escaped
from penstock.feed import Feed
from penstock.observe.coverage import steps_text
from penstock.observe.live import CacheNow, LiveRun, RankNow, RunNow, SourceNow

_REFRESH_SECONDS = 1.0
_MAX_ROWS = 16  # of ranks and of sources
_MAX_REASONS = 3


def top(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="LOG|CONFIG...", help="Ledgers of a run, one per node, or its config (.yaml), or both."),
    ],
) -> None:
    """Show a run that is going on: speed and waits of every rank, mixture, cache, bad samples and losses.

    Reads the ledger, which gets a line every `usage.every` steps. Ctrl-C ends it. If the output is not a terminal, it
    prints once and ends.
    """
    logs, feed = _opened(files)
    run = LiveRun(logs, feed)
    run.update()
    now = run.now()
    console = Terminal()
    if now is None and not (console.is_terminal and feed is not None):
        raise ValueError(_nothing_yet(logs))
    if not console.is_terminal:
        console.print(_shown(now, logs))
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the terminal is left as it was
    try:
        with Live(_shown(now, logs), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                run.update()
                now = run.now()
                live.update(_shown(now, logs), refresh=True)
    except KeyboardInterrupt:
        console.print(_shown(now, logs))


def _opened(files: list[Path]) -> tuple[list[Path], Feed | None]:
    """Return the ledgers, and the feed of the config if there is one."""
    configs = [path for path in files if path.suffix in (".yaml", ".yml")]
    logs = [path for path in files if path not in configs]
    if len(configs) > 1:
        raise ValueError(f"{configs[0]} and {configs[1]} are two configs; give one run")
    for path in logs:
        path.open("rb").close()  # a misspelt name is an error, not a run that has not begun
    if not configs:
        return logs, None
    feed = penstock.open(configs[0], rank=0, world=1)
    if not logs and feed.config.usage is None:
        raise ValueError(f"{configs[0]}: the run has no ledger; add `usage: {{}}` to its config")
    return logs or [feed.config.usage.log], feed  # type: ignore[union-attr]


def _shown(now: RunNow | None, logs: list[Path]) -> RenderableType:
    if now is None:
        return Text(escaped(_nothing_yet(logs)))
    return Group(*_parts(now))


def _nothing_yet(logs: list[Path]) -> str:
    """Describe why there is nothing to show."""
    missing = [str(log) for log in logs if not log.exists()]
    if missing:
        return (
            f"{', '.join(missing)}: there is no such file yet; a run writes it, every `usage.every` steps of "
            "feed.loader(), where its config has `usage: {log: FILE}`"
        )
    return f"{', '.join(map(str, logs))}: not a usage ledger, or no step was recorded yet"


def _parts(now: RunNow) -> Iterator[RenderableType]:
    hosts = len({rank.host for rank in now.ranks})
    speed = sum(rank.samples_per_second for rank in now.ranks)
    said = (
        f"step {now.next_step:,}   {_rate(speed)} samples/s   {len(now.ranks):,} of {counted(now.world, 'rank')} on "
        f"{counted(hosts, 'node')}   last line {_age(min(rank.age for rank in now.ranks))} ago"
    )
    yield Text(said, style="bold")
    yield Text(f"figures of {steps_text(now.first_step, now.next_step)}", style="dim")
    yield _rank_table(now.ranks)
    yield _source_table(now.sources)
    for host, cache in list(now.caches.items())[:_MAX_ROWS]:
        yield _cache(host, cache)
    yield _bad(now)
    if now.loss is not None or now.not_finite:
        yield _losses(now)


def _rank_table(ranks: list[RankNow]) -> Table:
    table = Table(title_justify="left", title=_left_out(ranks, "ranks that wait longest"))
    table.add_column("rank", no_wrap=True)
    table.add_column("node")  # the only one that is shortened in a narrow terminal
    for name in ("step", "samples/s", "waits", "median", "p95", "p99", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    worst = sorted(ranks, key=lambda each: -1.0 if isnan(each.wait_share) else each.wait_share, reverse=True)
    for each in sorted(worst[:_MAX_ROWS]):
        waits = list(map(_wait, each.waits)) if each.waits else ["?"] * 3
        share = "?" if isnan(each.wait_share) else f"{each.wait_share:.1%}"
        node = Text(escaped(each.host), no_wrap=True, overflow="ellipsis")
        table.add_row(
            *(str(each.rank), node, f"{each.next_step:,}", _rate(each.samples_per_second), share),
            *(*waits, _age(each.age)),
        )
    return table


def _source_table(sources: list[SourceNow]) -> Table:
    table = Table("source", title_justify="left", title=_left_out(sources, "largest sources"))
    columns = {
        "share": [f"{each.share:.2%}" for each in sources],
        "quota": ["" if each.quota is None else f"{each.quota:.2%}" for each in sources],
        "passes": ["" if each.passes is None else f"{each.passes:,.3f}" for each in sources],
        "loss": ["" if each.loss is None else f"{each.loss:.4g}" for each in sources],
    }
    kept = {name: values for name, values in columns.items() if any(values)}
    for name in kept:
        table.add_column(name, justify="right")
    for number, each in enumerate(sources[:_MAX_ROWS]):
        table.add_row(escaped(each.name), *(values[number] for values in kept.values()))
    return table


def _left_out(rows: list[RankNow] | list[SourceNow], what: str) -> str | None:
    return f"the {_MAX_ROWS} {what} of {len(rows):,}" if len(rows) > _MAX_ROWS else None


def _cache(host: str, cache: CacheNow) -> Text:
    hits = "" if isnan(cache.hit_share) else f", hits {cache.hit_share:.1%}"
    loaded = "" if isnan(cache.download_rate) else f", downloads {decimal(int(cache.download_rate))}/s"
    return Text(f"cache of {escaped(host)}: {decimal(cache.held)} of {decimal(cache.limit)}{hits}{loaded}")


def _bad(now: RunNow) -> Text:
    bad = now.reasons.total()
    share = f" ({bad / max(1, now.samples):.2%})" if bad else ""
    named = [f"{count:,} {escaped(reason)}" for reason, count in now.reasons.most_common(_MAX_REASONS)]
    return Text(f"{counted(bad, 'bad sample')}{share}{': ' if bad else ''}{'; '.join(named)}")


def _losses(now: RunNow) -> Text:
    said = "loss ?" if now.loss is None else f"loss {now.loss:.4g}"
    if now.grad_norm is not None:
        said += f", norm of the gradients {now.grad_norm:.4g}"
    if now.not_finite:
        said += f", {now.not_finite:,} losses are not finite"
    return Text(said)


def _rate(rate: float) -> str:
    return "?" if isnan(rate) else f"{rate:,.1f}"


def _wait(seconds: float) -> str:
    """Return three digits of a time, so that a table fits into a terminal."""
    if seconds < 0.9995:
        return f"{1e3 * seconds:.{0 if seconds >= 0.09995 else 1}f} ms"
    return f"{seconds:,.1f} s"


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
