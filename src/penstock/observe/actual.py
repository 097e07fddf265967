"""Compares planned uses of an item with a ledger: used, bad, or a substitute. Reads no data."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from penstock.feed import Feed
from penstock.observe.lineage import lineage
from penstock.observe.lines import LedgerLine, line_timeline, read_lines
from penstock.observe.proof import cut, of_this_run
from penstock.plan.plan import Use


class Actual:
    """The uses of items in a run with a ledger. Ranks and slots are those of the world that made a step.

    Args:
        feed: Feed of the run.
        *logs: Ledgers of the run, one per node.

    Attributes:
        lines: Lines that count: of steps that were repeated after a resume, the last.

    Raises:
        ValueError: If the ledger is empty or belongs to another run.
    """

    def __init__(self, feed: Feed, *logs: Path) -> None:
        names = ", ".join(map(str, logs))
        reported = [line for line in read_lines(*logs) if line is not None]
        if not reported:
            raise ValueError(f"{names}: no line of a usage ledger found")
        found = lineage(reported, partial(cut, feed))
        if not all(of_this_run(feed, line) for line, _ in found.kept):
            raise ValueError(f"{names}: written by another run (seed, data, mixture or exclude differ)")
        self._feed = feed
        self.lines = found.lines
        newest = max(self.lines, key=lambda line: int(line["steps"][1]))
        self._timeline = line_timeline(newest)
        self._worlds = sorted({line["world"] for line in self.lines})

    def uses_of(self, item: str, epochs: int, world: int) -> Iterator[tuple[str, Use, str]]:
        """Yield ``group:id`` of an item, or of its pack, with each result of ``uses``.

        Args:
            item: Id or ``group:id`` of an item, or of a member of packs, which is in another pack in each epoch.
            epochs: See ``uses``.
            world: See ``uses``.
        """
        find = self._feed.catalog.find
        for number, end in enumerate(self._feed.ends_in_packs(item)):
            for use, what in self.uses(lambda epoch, n=number: find(item, epoch)[n], epochs, world, item, end):  # type: ignore[misc]
                yield self._feed.catalog.item_name(find(item, use.epoch)[number], use.epoch), use, what

    def uses(
        self, row: int | Callable[[int], int], epochs: int, world: int, item: str = "", before: int | None = None
    ) -> Iterator[tuple[Use, str]]:
        """Yield each use of an item, and its outcome: ``used``, ``bad``, ``substitute`` or only ``planned``.

        All uses that the ledger covers are included.

        Args:
            row: Row of the item, or a function from the epoch to the row.
            epochs: Number of epochs whose planned uses are included, even if the ledger does not cover them.
            world: Number of ranks for planned uses.
            item: Id of a member of a pack, which may be bad on its own.
            before: Slot of the run since which the member is left out; None if it never is.
        """
        row_in = row if callable(row) else lambda _: row
        yield from ((use, "substitute") for use in self._substitutes(row_in, before))
        for epoch in self._epochs(row_in, epochs, world):
            here = row_in(epoch)
            planned = self._planned(here, epoch, world, before)
            reported = [
                (use, "bad" if _is_bad(line, use, here, item.rpartition(":")[2]) else "used")
                for each in self._worlds
                for use in self._planned(here, epoch, each, before)
                for line in self.lines
                if (line["world"], line["rank"]) == (each, use.rank) and use.step in range(*line["steps"])
            ]
            yield from reported or [(use, "planned") for use in planned]

    def _epochs(self, row_in: Callable[[int], int], epochs: int, world: int) -> Iterator[int]:
        """Yield the first epochs of an item, and those in which the ledger has lines.

        Epochs between lines are skipped: a damaged line may name a step that no run ever reaches.
        """
        epoch = 0
        while planned := self._planned(row_in(epoch), epoch, world):
            if epoch >= epochs:
                following = [line["steps"][0] for line in self.lines if line["steps"][1] > planned[0].step]
                if not following:
                    return
                if planned[-1].step < min(following):
                    epoch = self._epoch_of(min(following), epoch, row_in, world)
                    continue
            yield epoch
            epoch += 1

    def _epoch_of(self, step: int, epoch: int, row_in: Callable[[int], int], world: int) -> int:
        """Return the first epoch after ``epoch`` in which an item is used at ``step`` or later, or not at all."""

        def is_before(each: int) -> bool:
            planned = self._planned(row_in(each), each, world)
            return bool(planned) and planned[-1].step < step

        stride = 1
        while is_before(epoch + stride):
            epoch += stride
            stride *= 2
        later = range(epoch + 1, epoch + stride)
        return epoch + 1 + bisect_left(later, True, key=lambda each: not is_before(each))

    def _planned(self, row: int, epoch: int, world: int, before: int | None = None) -> list[Use]:
        return self._feed.uses(row, range(epoch, epoch + 1), world, self._timeline, before)

    def _substitutes(self, row_in: Callable[[int], int], before: int | None) -> Iterator[Use]:
        for line in self.lines:
            rank = line["rank"]
            world = line["world"]
            replaced = [bad for bad in line["bad"] if bad["outcome"] == "replaced"]
            for (step, slot), tried in Counter((bad["step"], bad["slot"]) for bad in replaced).items():
                planned = self._feed.plan.batch(step, rank, world, self._timeline)
                if slot >= len(planned.slot):
                    continue  # not a sample of this run; ``usage --check`` reports it
                taken = self._feed.plan.cut(self._timeline).stand_in(int(planned.slot[slot]), tried)
                if taken is None or (before is not None and taken.slot[0] >= before):
                    continue
                epoch = int(taken.epoch[0])
                if self._feed.catalog.rows(taken) == [row_in(epoch)]:
                    yield Use(epoch, step, rank, slot)


def _is_bad(line: LedgerLine, use: Use, row: int, member: str) -> bool:
    here = [bad for bad in line["bad"] if (bad["step"], bad["slot"], bad["row"]) == (use.step, use.slot, row)]
    return any(bad["member"] is None or bad["id"] == member for bad in here)
