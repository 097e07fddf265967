"""The steps of each rank that a ledger covers. Knows spans of steps; knows nothing of the contents of batches."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

StepSpan = tuple[int, int]
"""First step, and the step after the last."""


class Rank(NamedTuple):
    """A rank of a run, with the number of ranks."""

    world: int
    rank: int


RankSpans = Mapping[Rank, Sequence[StepSpan]]


def missing(spans: RankSpans) -> list[str]:
    """Return descriptions of the missing steps of each rank, between the first and the last step of its world.

    Args:
        spans: Steps of each rank. A rank without lines may be left out.
    """
    worlds = _by_world(spans)
    whole = {world: joined(span for own in ranks.values() for span in own) for world, ranks in worlds.items()}
    everywhere = joined(span for each in whole.values() for span in each)
    found = [f"no line covers steps {before[1]}:{then[0]}" for before, then in pairwise(everywhere)]
    for world, ranks in sorted(worlds.items()):
        for rank, own in sorted(ranks.items()):
            holes = _without(whole[world], own)
            found += [f"rank {rank} of {world}: no line covers steps {a}:{b}" for a, b in holes]
        for first, after in _without([(0, world)], joined((rank, rank + 1) for rank in ranks)):
            named = f"rank {first}" if after == first + 1 else f"ranks {first} to {after - 1}"
            found += [f"{named} of {world}: no line covers steps {a}:{b}" for a, b in whole[world]]
    return found


def covered(spans: RankSpans) -> list[str]:
    """Return descriptions of the covered steps, with the number of ranks."""
    blocks: list[tuple[int, int, int, int]] = []  # first step, the one after the last, world, ranks
    for world, ranks in _by_world(spans).items():
        changes: dict[int, int] = {}
        for first, after in (span for own in ranks.values() for span in own):
            changes[first] = changes.get(first, 0) + 1
            changes[after] = changes.get(after, 0) - 1
        count = 0
        steps = sorted(step for step, change in changes.items() if change)
        for step, then in zip(steps, [*steps[1:], None], strict=True):
            count += changes[step]
            if count and then is not None:
                blocks.append((step, then, world, count))
    return [f"{steps_text(first, after)} of {_of(count, world)}" for first, after, world, count in sorted(blocks)]


def steps_text(first: int, after: int) -> str:
    """Return a span of steps in words: ``step 7``, ``steps 3 to 8``."""
    return f"step {first:,}" if after == first + 1 else f"steps {first:,} to {after - 1:,}"


def _of(count: int, world: int) -> str:
    if world == 1:
        return "the only rank"
    return f"all {world:,} ranks" if count == world else f"{count:,} of {world:,} ranks"


def joined(spans: Iterable[StepSpan]) -> list[StepSpan]:
    """Return the same steps in as few spans as possible, in order."""
    found: list[StepSpan] = []
    for first, after in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], after))
        else:
            found.append((first, after))
    return found


def _by_world(spans: RankSpans) -> dict[int, dict[int, list[StepSpan]]]:
    worlds: dict[int, dict[int, list[StepSpan]]] = {}
    for (world, rank), own in spans.items():
        if own:
            worlds.setdefault(world, {})[rank] = joined(own)
    return worlds


def _without(spans: Sequence[StepSpan], taken: Sequence[StepSpan]) -> list[StepSpan]:
    """Return ``spans`` without ``taken``. Both are sorted and without overlaps."""
    found: list[StepSpan] = []
    at = 0
    for first, after in spans:
        while at < len(taken) and taken[at][1] <= after:
            if taken[at][0] > first:
                found.append((first, taken[at][0]))
            first = max(first, taken[at][1])
            at += 1
        end = min(after, taken[at][0]) if at < len(taken) else after
        if first < end:
            found.append((first, end))
    return found
