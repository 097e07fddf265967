"""Says why the orders of two runs differ: seed, batch size, data, mixture, exclusions. Reads no data."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.feed import Feed
from penstock.feed.identity import Identity
from penstock.plan.order import Planned
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline, WindowTimeline

_SHOWN = 3  # names of sources or items in a description


def reasons(one: Feed, other: Feed) -> list[str]:
    """Return descriptions of what makes the orders of two runs, A and B, differ; empty if nothing does."""
    mine, theirs = one.identity, other.identity
    found = [
        f"{name}: {getattr(mine, name)} in A, {getattr(theirs, name)} in B"
        for name in ("seed", "run", "lanes", "pool")
        if getattr(mine, name) != getattr(theirs, name)
    ]
    timelines = [feed.timeline(feed.world) for feed in (one, other)]
    if timelines[0] != timelines[1]:
        found.append("{}: {} in A, {} in B".format(_compared(timelines), *map(_sizes, timelines)))
    found += _sources(one, other) + _exclusions(mine, theirs)
    return found + _mixtures(mine, theirs) if mine.run == theirs.run else found


def _compared(timelines: list[AnyTimeline]) -> str:
    return "global batch size" if all(isinstance(each, Timeline) for each in timelines) else "batches"


def _sizes(timeline: AnyTimeline) -> str:
    if isinstance(timeline, WindowTimeline):
        several = [f"{each.units} units of {each.budget} from step {each.step:,} on" for each in timeline.segments]
        return ", ".join(several)
    *before, (_, _, last) = timeline.segments
    after = [step for step, _, _ in timeline.segments[1:]]
    changes = (f"{size}, from step {step:,} on " for (_, _, size), step in zip(before, after, strict=True))
    return f"{''.join(changes)}{last}"


def _mixtures(mine: Identity, theirs: Identity) -> list[str]:
    """Compare the shares of sources by name: one more source without a share is no difference."""
    one, other = ([(at, _by_name(identity, counts)) for at, counts in identity.mixture] for identity in (mine, theirs))
    for (at, shares), (other_at, other_shares) in zip(one, other, strict=False):
        if at != other_at:
            break
        if shares != other_shares:
            differing = sorted(name for name in shares | other_shares if shares.get(name) != other_shares.get(name))
            return [f"mixture: from sample {at:,} on, {_shares(differing, shares, other_shares)}"]
    starts = {at for at, _ in one} ^ {at for at, _ in other}
    return [f"mixture: it changes at sample {min(starts):,} in only one of them"] if starts else []


def _exclusions(mine: Identity, theirs: Identity) -> list[str]:
    """Name the first sample from which on the runs exclude different items."""
    starts = {at for at, _ in set(mine.exclude) ^ set(theirs.exclude)}
    return [f"exclude: differs from sample {min(starts):,} on"] if starts else []


def _by_name(identity: Identity, counts: Sequence[int]) -> dict[str, float]:
    """Return the share of each source that is drawn."""
    total = sum(counts)
    return {str(source[0]): count / total for source, count in zip(identity.sources, counts, strict=True) if count}


def _shares(names: Sequence[str], mine: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """Describe the shares of sources in two mixtures."""
    shown = (f"{name} {mine.get(name, 0):.4g} in A, {theirs.get(name, 0):.4g} in B" for name in names[:_SHOWN])
    return f"{'; '.join(shown)}{f'; and {len(names) - _SHOWN} more' if names[_SHOWN:] else ''}"


def _sources(one: Feed, other: Feed) -> list[str]:
    known = [
        {str(each[0]): (number, each[1:]) for number, each in enumerate(feed.identity.sources)} for feed in (one, other)
    ]
    found = [
        f"sources: {name} only in {run}"
        for run, mine, theirs in (("A", *known), ("B", *known[::-1]))
        for name in mine
        if name not in theirs
    ]
    for name, (number, content) in known[0].items():
        if name in known[1] and content != known[1][name][1]:
            found.append(f"data of {name}: {_data(one, other, number, known[1][name][0])}")
    order = [[name for name in each if name in known[0] and name in known[1]] for each in known]
    return found + (["sources: in another order"] if order[0] != order[1] else [])


def _data(one: Feed, other: Feed, mine: int, theirs: int) -> str:
    """Describe how the items of a source differ."""
    if one.catalog.growing(mine) is not None or other.catalog.growing(theirs) is not None:
        return "its files or their format differ"
    counts = Counter(_items(one, mine))
    counts.subtract(_items(other, theirs))
    only = {"A": [name for name in counts if counts[name] > 0], "B": [name for name in counts if counts[name] < 0]}
    parts = [
        f"{len(names):,} only in {run} ({', '.join(names[:_SHOWN])}{', …' if names[_SHOWN:] else ''})"
        for run, names in only.items()
        if names
    ]
    return f"items {' and '.join(parts)}" if parts else "the same items, with other content, order or limit"


def _items(feed: Feed, source: int) -> list[str]:
    """Return ``group:id`` of all items of a source, in its first epoch."""
    sizes = feed.catalog.group_sizes(source)
    group = np.repeat(np.arange(len(sizes)), sizes)
    item = np.concatenate([np.arange(0), *map(np.arange, sizes.tolist())])
    zeros = np.zeros(len(item), dtype=np.int64)
    return feed.catalog.item_names(Planned(zeros, zeros + source, zeros, zeros, group, item))
