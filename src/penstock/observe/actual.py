"""What became of an item's planned uses, as a ledger tells it. Who stood in for a bad sample follows from the plan."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from penstock.feed import Feed
from penstock.observe.lineage import Line, lineage
from penstock.observe.proof import cut, line_timeline, of_this_run, rows_of
from penstock.observe.usage import read_lines
from penstock.plan.plan import Use


class Actual:
    """The uses of items in a run that has a ledger. Ranks and slots are those of the world that a step was made in."""

    def __init__(self, feed: Feed, log: Path) -> None:
        told = [line for line in read_lines(log) if line is not None]
        if not told:
            raise ValueError(f"{log}: holds no line of a ledger")
        if not all(of_this_run(feed, line) for line in told):
            raise ValueError(f"{log}: written by another run (seed, filelist or mixture differ)")
        self._feed, self._lines = feed, lineage(told, partial(cut, feed)).lines
        newest = max(self._lines, key=lambda line: int(line["steps"][1]))
        self._end, self._timeline = newest["steps"][1], line_timeline(newest)
        self._worlds = sorted({line["world"] for line in self._lines})

    def uses(self, row: int, epochs: int, world: int) -> Iterator[tuple[Use, str]]:
        """Each use of an item, and whether it was ``used``, ``bad``, a ``substitute``, or is no more than ``planned``.

        All that the ledger covers, and beyond it what is planned in so many epochs, for a given world.
        """
        yield from ((use, "substitute") for use in self._substitutes(row))
        for epoch in count():
            planned = self._planned(row, epoch, world)
            if not planned or (epoch >= epochs and planned[0].step >= self._end):
                return
            told = [
                (use, "bad" if _is_bad(line, use, row) else "used")
                for each in self._worlds
                for use in self._planned(row, epoch, each)
                for line in self._lines
                if (line["world"], line["rank"]) == (each, use.rank) and use.step in range(*line["steps"])
            ]
            yield from told or [(use, "planned") for use in planned]

    def _planned(self, row: int, epoch: int, world: int) -> list[Use]:
        source, group, item = (int(number) for number in self._feed.manifest.locate(row))
        epochs, timeline = range(epoch, epoch + 1), self._timeline
        return list(self._feed.plan.uses(source, group, item, epochs, world=world, timeline=timeline))

    def _substitutes(self, row: int) -> Iterator[Use]:
        for line in self._lines:
            rank, world = line["rank"], line["world"]
            for (step, slot), tried in Counter((bad["step"], bad["slot"]) for bad in line["bad"]).items():
                planned = self._feed.plan.batch(step, rank, world, self._timeline)
                taken = self._feed.plan.order.stand_in(int(planned.slot[slot]), tried)
                if taken is not None and rows_of(self._feed, taken) == [row]:
                    yield Use(int(taken.epoch[0]), step, rank, slot)


def _is_bad(line: Line, use: Use, row: int) -> bool:
    return any((bad["step"], bad["slot"], bad["row"]) == (use.step, use.slot, row) for bad in line["bad"])
