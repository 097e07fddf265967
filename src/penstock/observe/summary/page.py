"""The page of a run: what was fed, how fast, and with which losses. One HTML file without scripts."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.feed import Feed
from penstock.observe.page.cards import counted
from penstock.observe.page.document import document
from penstock.observe.page.markup import Child, Markup, element, joined
from penstock.observe.runlog import RunLog
from penstock.observe.summary.binned import Binned, Doubles
from penstock.observe.summary.charts import MAX_CURVES, Band, chart
from penstock.observe.summary.quotas import Drift, drift_of, quota_shares

GENERATOR = "penstock report"
_MAX_ROWS = 16  # of a table
_NOT_COMPARED = (
    "Counts are not compared with quotas: the run has none, lines of some ranks are missing, or batches are by length: "
    "these follow the mixture over a window of steps."
)
_RULES = Path(__file__).with_name("report.css")


def make_report(name: str, log: RunLog, binned: Binned, feed: Feed | None) -> str:
    """Return the page of a run.

    Args:
        name: Name of the run.
        log: Ledgers of the run.
        binned: The same, summed up.
        feed: Feed of the run; without it, quotas, coverage of items and losses per source are left out.
    """
    drift = None if feed is None else drift_of(feed, binned)
    cards = [
        _mixture(binned, feed, drift),
        _throughput(binned),
        _waits(binned),
        _cache(binned),
        _coverage(binned, feed),
        _bad(binned),
        _losses(binned, feed),
    ]
    body = element("main", _header(name, log, binned), list(filter(None, cards)), class_="report")
    return document(f"Report of {name}", body, _RULES.read_text(), GENERATOR)


def _header(name: str, log: RunLog, binned: Binned) -> Markup:
    bins = binned.bins
    first = int(bins.edges[0])
    after = int(bins.edges[-1])
    lasted = max(0.0, binned.last_time - binned.first_time)
    tiles = [
        _count(round(bins.samples.sum()), "sample"),
        _count(after - first, "step", f", {first:,} to {after - 1:,}" if after > first + 1 else f", number {first:,}"),
        (" → ".join(f"{world:,}" for world in sorted(binned.worlds)) or "0", _ranks(binned)),
        (_duration(lasted), "from first to last line"),
        _count(round(bins.bad.sum()), "bad sample"),
    ]
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(binned.last_time)) if binned.last_time else "no step yet"
    notes = [
        f"lines that could not be read: {log.torn:,}" if log.torn else "",
        f"{counted(log.used.repeated, 'step')} of a rank made again after a restart; the last one counts"
        if log.used.repeated
        else "",
        *log.used.gaps[:3],
        f"and {len(log.used.gaps) - 3} more gaps" if len(log.used.gaps) > 3 else "",
    ]
    return joined(
        element(
            "header",
            element("p", element("bdi", name), class_="run"),
            element("div", element("h1", "What the model was fed"), class_="title"),
            element("p", f"{counted(log.lines, 'line')} of the ledger, the last of {when} UTC", class_="facts"),
            [element("p", note, class_="left") for note in notes if note],
            class_="top",
        ),
        element("div", [_tile(*each) for each in tiles], class_="tiles"),
    )


def _count(number: int, noun: str, which: str = "") -> tuple[str, str]:
    """Return a number, and what it counts."""
    count, what = counted(number, noun).split(" ", 1)
    return count, what + which


def _tile(number: str, what: str) -> Markup:
    return element("div", element("b", number), what, class_="tile")


def _ranks(binned: Binned) -> str:
    """Return what the number of ranks counts: ``ranks on 2 nodes``."""
    nodes = len(binned.hosts)
    return f"{'rank' if binned.worlds == {1} else 'ranks'} on {counted(nodes, 'node')}"


def _mixture(binned: Binned, feed: Feed | None, drift: Drift | None) -> Markup | None:
    bins = binned.bins
    if not bins.sources:
        return None
    totals = {name: float(counts.sum()) for name, counts in bins.sources.items()}
    order = sorted(totals, key=lambda each: -totals[each])
    shares = {name: 100 * _ratio(bins.sources[name], bins.samples) for name in order}
    quotas = None if feed is None else quota_shares(feed, binned)
    steps = bins.edges[:-1]
    parts: list[Child] = [
        _say(
            "Share of each source in the samples of each bin."
            + (" Dotted: its quota." if quotas else " Its quota needs --config.")
            + (f" The {MAX_CURVES} largest of {len(order)} sources are drawn." if len(order) > MAX_CURVES else "")
        ),
        chart("Share of each source over steps", steps, shares, label="% of samples", dashed=quotas),
    ]
    if drift is not None:
        parts += _drift(drift, order)
    elif feed is not None:
        parts.append(_say(_NOT_COMPARED))
    return _card("Mixture", *parts, _source_table(binned, feed, drift, order))


def _drift(drift: Drift, order: Sequence[str]) -> list[Child]:
    off = {name: drift.off[name] for name in order if name in drift.off}
    steps = counted(len(drift.steps), "step")
    said = f"Samples above or below the quota, over all ranks, at {steps} where all lines end."
    verdict: Child = None
    band = None
    if drift.bound is not None:
        band = Band(-drift.bound, drift.bound)
        said += f" The plan proves that no source is ever further off than {drift.bound:.3f} (shaded)."
        holds = drift.worst <= drift.bound + 1e-6
        verdict = element(
            "p",
            f"{'✓' if holds else '✗'} the largest distance is {drift.worst:.3f}"
            + ("" if holds else ": run `penstock usage --check`"),
            class_="say good" if holds else "left",
        )
    return [
        _say(said),
        chart("Distance from the quota over steps", drift.steps, off, label="samples", band=band),
        verdict,
    ]


def _source_table(binned: Binned, feed: Feed | None, drift: Drift | None, order: Sequence[str]) -> Markup:
    bins = binned.bins
    heads = ["source", "samples", "share"]
    heads += [] if drift is None else ["off quota by"]
    heads += [] if feed is None else ["items", "passes"]
    items = {} if feed is None else dict(zip(feed.catalog.sources, feed.catalog.amounts["items"], strict=True))
    total = max(1.0, float(bins.samples.sum()))
    rows = []
    for name in order:
        count = float(bins.sources[name].sum())
        row = [name, f"{count:,.0f}", f"{count / total:.2%}"]
        row += [] if drift is None else [f"{drift.off[name][-1]:+.2f}" if name in drift.off else ""]
        if feed is not None:
            known = items.get(name, 0)
            row += [f"{known:,}" if known else "", f"{count / known:,.3f}" if known else ""]
        rows.append(row)
    return _table(heads, rows)


def _throughput(binned: Binned) -> Markup | None:
    bins = binned.bins
    rate = _ratio(bins.timed, bins.seconds)
    if not np.isfinite(rate).any():
        return None
    mean = bins.timed.sum() / bins.seconds.sum()
    return _card(
        "Throughput",
        _say(f"Samples per second over all ranks, by the times of lines: {mean:,.0f} on average."),
        chart("Samples per second over steps", bins.edges[:-1], {"samples/s": rate}, label="samples/s"),
    )


def _waits(binned: Binned) -> Markup | None:
    if not binned.waits:
        return None
    bins = binned.bins
    curves = {
        "mean": 1e3 * _ratio(bins.waited, bins.steps),
        "longest": 1e3 * np.where(bins.steps > 0, bins.longest, np.nan),
    }
    worst = sorted(binned.waits, key=lambda rank: -binned.waits[rank].seconds)
    rows = [
        [
            f"rank {rank}",
            *(_milliseconds(binned.waits[rank].percentile(share)) for share in (0.5, 0.95, 0.99)),
            _milliseconds(binned.waits[rank].longest),
            _duration(binned.waits[rank].seconds),
        ]
        for rank in sorted(worst[:_MAX_ROWS])
    ]
    rest = f" The {_MAX_ROWS} ranks that waited longest of {len(worst):,} are listed." if worst[_MAX_ROWS:] else ""
    return _card(
        "Waiting for data",
        _say("Time that the trainer waited for a batch, per step of a rank." + rest),
        chart("Milliseconds waited over steps", bins.edges[:-1], curves, label="ms"),
        _table(["", "median", "p95", "p99", "longest", "in all"], rows),
    )


def _cache(binned: Binned) -> Markup | None:
    bins = binned.bins
    if not bins.cache:
        return None
    hosts: dict[str, Doubles] = {}
    for (host, _), counts in bins.cache.items():  # every rank counts the whole node
        hosts[host] = np.maximum(hosts.get(host, 0), counts)
    hits, misses, fetched, requests, retries = sum(hosts.values(), np.zeros_like(next(iter(hosts.values())))).T
    reads = hits.sum() + misses.sum()
    steps = bins.edges[:-1]
    parts: list[Child] = [
        _say(
            f"{_share(hits.sum(), reads)} of {reads:,.0f} reads found all their bytes in the node cache. "
            f"{_bytes(fetched.sum())} were downloaded in {requests.sum():,.0f} requests, "
            f"{retries.sum():,.0f} of them again."
        ),
        element("h3", "Reads that hit the cache"),
        chart("Hits over steps", steps, {"hits": 100 * _ratio(hits, hits + misses)}, label="%"),
        element("h3", "Downloads"),
        chart("Downloads over steps", steps, {"downloaded": fetched / 1e9}, label="GB per bin"),
    ]
    if bins.held:
        held = {host: np.where(values > 0, values, np.nan) / 1e9 for host, values in sorted(bins.held.items())}
        parts += [
            element("h3", "Bytes in the cache"),
            _say(f"At the end of each bin, per node; the bound is {_bytes(binned.cache_limit)}."),
            chart("Bytes in the cache over steps", steps, held, label="GB"),
        ]
    return _card("Node cache", *parts)


def _coverage(binned: Binned, feed: Feed | None) -> Markup | None:
    if not binned.groups:
        return None
    used = len(binned.groups)
    seen = binned.seen
    label = "groups"
    said = f"Groups (shards, files or recordings) used at least once: {used:,}"
    if feed is not None:
        total = sum(len(feed.catalog.group_sizes(number)) for number in range(len(feed.catalog.sources)))
        said += f", {_share(used, total)} of {total:,}"
        seen = 100 * seen / total
        label = "% of groups"
    counts = sorted(binned.groups.values())
    said += f". Samples per group: {counts[0]:,} to {counts[-1]:,}, median {counts[len(counts) // 2]:,}."
    return _card(
        "Coverage",
        _say(said),
        chart("Groups used at least once over steps", binned.bins.edges[:-1], {"groups": seen}, label=label),
    )


def _bad(binned: Binned) -> Markup | None:
    bins = binned.bins
    if not binned.reasons:
        return None
    share = _share(bins.bad.sum(), bins.samples.sum())
    reasons = [[reason, f"{count:,}"] for reason, count in binned.reasons.most_common(_MAX_ROWS)]
    groups = [[group, f"{count:,}"] for group, count in binned.bad_groups.most_common(_MAX_ROWS)]
    return _card(
        "Bad samples",
        _say(f"Planned samples that could not be used: {bins.bad.sum():,.0f}, {share} of all."),
        chart("Bad samples over steps", bins.edges[:-1], {"bad": bins.bad}, label="per bin"),
        _table(["reason", "samples"], reasons),
        _table(["group", "bad samples"], groups),
    )


def _losses(binned: Binned, feed: Feed | None) -> Markup | None:
    bins = binned.bins
    total, count, norms, with_norm = bins.losses
    if not count.any() and not binned.not_finite:
        return None
    said = f"Mean of {count.sum():,.0f} losses that feed.report recorded. `penstock spikes` ranks samples by them."
    if binned.not_finite:
        said += f" Not finite: {binned.not_finite:,} more."
    if binned.unplaced:
        said += f" Of no sample of the plan: {binned.unplaced:,}."
    if feed is None:
        said += " Losses per source need --config."
    order = sorted(bins.source_losses, key=lambda name: -float(bins.sources.get(name, count).sum()))
    curves = {name: _ratio(*bins.source_losses[name]) for name in order[: MAX_CURVES - 1]}  # coloured as above
    curves["all losses"] = _ratio(total, count)
    parts: list[Child] = [_say(said), chart("Losses over steps", bins.edges[:-1], curves, label="loss", zero=False)]
    if with_norm.any():
        norm = {"norm": _ratio(norms, with_norm)}
        parts += [
            element("h3", "Norm of the gradients"),
            chart("Norm of the gradients over steps", bins.edges[:-1], norm, label="norm"),
        ]
    if bins.source_losses:
        sums = {name: own.sum(axis=1).tolist() for name, own in bins.source_losses.items()}
        highest = sorted(((total / max(1, count), name, count) for name, (total, count) in sums.items()), reverse=True)
        rows = [[name, f"{mean:.4g}", f"{count:,.0f}"] for mean, name, count in highest]
        parts.append(_table(["source", "mean loss", "losses"], rows))
    return _card("Losses", *parts)


def _card(title: str, *children: Child) -> Markup:
    return element("section", element("h2", title), *children, class_="card")


def _say(text: str) -> Markup:
    return element("p", text, class_="say")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("tr", [element("th", each) for each in heads])
    body = [element("tr", [element("td", each) for each in row]) for row in rows]
    return element("div", element("table", element("thead", head), element("tbody", body)), class_="scroll")


def _ratio(above: Doubles, below: Doubles) -> Doubles:
    """Return a quotient per bin, NaN where there is nothing."""
    found: Doubles = np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)
    return found


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole else "0%"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _bytes(number: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f} bytes"
