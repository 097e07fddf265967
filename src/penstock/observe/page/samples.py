"""What a page shows of a batch: the panels of each sample, its other uses, and what it substitutes. Draws nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from penstock.feed import Feed
from penstock.feed.batches import BadSample, Batch, names_in, placed_in_step
from penstock.plan.order import Planned
from penstock.plan.plan import Use
from penstock.plan.windowtimeline import AnyTimeline
from penstock.recipes.file_panels import panels_of
from penstock.recipes.panels import Panel

_NEAR_EPOCHS = 2  # before and after that of a sample, whose uses are shown
_NEAR_EPOCHS_OF_MEMBERS = 1  # a pack may have a hundred members, and each look-up takes a millisecond
_MEMBERS_WITH_USES = 512  # on a page


@dataclass(frozen=True, slots=True)
class PageSample:
    """A sample on a page.

    Attributes:
        rank: Rank of the batch.
        slot: Place in the rank's batch.
        source: Name of the source.
        group: Name of the group.
        item: Id of the item; of a pack, those of all members.
        epoch: Epoch of the source.
        panels: What is shown of it.
        members: Ids of the members of a pack; empty for other samples.
        uses: Uses of the item in nearby epochs, by id: one id, or those of the first members of a pack.
        bad: Bad samples in this place, in the order in which they were tried.
    """

    rank: int
    slot: int
    source: str
    group: str
    item: str
    epoch: int
    panels: Sequence[Panel]
    members: Sequence[str]
    uses: Mapping[str, Sequence[Use]]
    bad: Sequence[BadSample]


@dataclass(frozen=True, slots=True)
class PageBatch:
    """One rank's batch on a page.

    Attributes:
        rank: Rank of the batch.
        samples: Samples in the order of their slots, at most as many as asked for.
        total: Number of samples of the batch, without padding.
        empty: Bad samples whose places were left empty.
    """

    rank: int
    samples: Sequence[PageSample]
    total: int
    empty: Sequence[BadSample]


def page_batch(feed: Feed, step: int, rank: int, world: int, limit: int) -> PageBatch:
    """Make one rank's batch, and return what a page shows of it.

    Args:
        feed: Feed of the run.
        step: Step of the batch.
        rank: Rank of the batch.
        world: Number of ranks.
        limit: Maximum number of samples.
    """
    planned = feed.planned(step, rank, world)
    units = placed_in_step(feed.units(step, rank, world))
    batches = {
        (number, recipe): own for number, unit in enumerate(units) for recipe, own in feed.by_recipe(unit).items()
    }
    places = sorted(
        (int(own["slots"][index]) if "slots" in own else index, index, number, recipe)
        for (number, recipe), own in batches.items()
        for index, row in enumerate(own["rows"].tolist())
        if row >= 0
    )
    members = max(1, _MEMBERS_WITH_USES // max(1, min(limit, len(places))))
    samples = [
        _sample(feed, recipe, batches[number, recipe], index, slot, planned, rank, world, members)
        for slot, index, number, recipe in places[:limit]
    ]
    empty = [bad for own in batches.values() for bad in own["bad"] if bad.outcome == "empty"]
    return PageBatch(rank, samples, len(places), empty)


def _sample(
    feed: Feed, recipe: str, batch: Batch, index: int, slot: int, planned: Planned, rank: int, world: int, most: int
) -> PageSample:
    row = int(batch["rows"][index])
    bad = [each for each in batch["bad"] if each.slot == slot]
    timeline = feed.timeline(world)
    epoch = _epoch(feed, planned, slot, sum(each.outcome == "replaced" for each in bad), timeline)
    [group] = feed.catalog.group_names([row])
    name = names_in(batch)[index]
    members = batch["ids"][index] if isinstance(batch["ids"][index], list) else []
    if members:
        uses = _member_uses(feed, row, epoch, world, group, members[:most])
    else:
        uses = {name: feed.uses(row, _nearby(feed, row, epoch, _NEAR_EPOCHS), world, timeline)}
    panels = list(panels_of(feed.recipes[recipe], batch, index))
    return PageSample(rank, slot, batch["sources"][index], group, name, epoch, panels, members, uses, bad)


def _epoch(feed: Feed, planned: Planned, slot: int, replaced: int, timeline: AnyTimeline) -> int:
    """Return the epoch of the sample in a slot, after some were replaced."""
    instead = feed.plan.cut(timeline).stand_in(int(planned.slot[slot]), replaced) if replaced else None
    return int(planned.epoch[slot]) if instead is None else int(instead.epoch[0])


def _member_uses(
    feed: Feed, row: int, epoch: int, world: int, group: str, members: Sequence[str]
) -> dict[str, list[Use]]:
    """Return the planned uses of each member of a pack. It is in another pack in each epoch."""
    timeline = feed.timeline(world)

    @cache
    def of_pack(row: int, epoch: int) -> list[Use]:
        return feed.uses(row, range(epoch, epoch + 1), world, timeline)

    epochs = _nearby(feed, row, epoch, _NEAR_EPOCHS_OF_MEMBERS)
    return {
        name: [
            use for each in epochs for own in feed.catalog.find(f"{group}:{name}", each) for use in of_pack(own, each)
        ]
        for name in members
    }


def _nearby(feed: Feed, row: int, epoch: int, reach: int) -> range:
    [(source, _, _)] = feed.catalog.locate([row])
    # The end of an epoch is not known before an index that is still being made has reached it.
    after = 0 if feed.catalog.growing(source) is not None else reach
    return range(max(0, epoch - reach), epoch + after + 1)
