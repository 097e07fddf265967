"""The order of an endless run: sources take turns, each epoch after epoch. Knows no batches of a rank."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints, key, permutations
from penstock.plan.excluding import Excluded, ExcludingStream
from penstock.plan.fileorder import FileOrder
from penstock.plan.lanes import Share, deal, is_split, lane_limit, whole
from penstock.plan.order import Planned, Source
from penstock.plan.stream import Stream
from penstock.plan.turns import Turns
from penstock.plan.windows import NextItems, Windows


class Endless:
    """The order of an endless run.

    Args:
        sources: Sources of the run.
        turns: Source of each slot: a ``Mixture`` or ``Rounds``.
        residents: Number of resident groups per lane, of every source or of each.
        seed: Seed of the run.
        arranged: Whether the slots of a batch are shuffled; otherwise they come in ascending order.
        excluded: Excluded items by number of the source; ``since`` counts slots of the run.

    Raises:
        ValueError: If all items of a source are excluded.
    """

    length: int | None = None  # slots

    def __init__(
        self,
        sources: Sequence[Source],
        turns: Turns,
        *,
        residents: int | Sequence[int],
        seed: int,
        arranged: bool = True,
        excluded: Mapping[int, Excluded] | None = None,
    ) -> None:
        self._sources = tuple(sources)
        self._residents = [residents] * len(sources) if isinstance(residents, int) else list(residents)
        self._seed = seed
        self._turns = turns
        self._lanes = turns.lanes
        self._arranged = arranged
        self._split = np.array([self._is_split(number) for number in range(len(sources))])
        self._repeats = np.array([source.repeat for source in sources])
        self._windows = Windows.empty(len(sources) * self._lanes)
        self._streams: dict[tuple[int, int], Stream | FileOrder | ExcludingStream] = {}
        self._shares: dict[int, list[Share]] = {}
        self._excluded = excluded or {}
        for source in self._excluded:  # raises now if too many items are excluded
            for lane in range(self._lanes if self._split[source] else 1):
                self._stream(source, lane)

    def arrange(self, starts: Sequence[int], size: int) -> Ints:
        """Return the slots of global batches, one batch per row: by lane, shuffled within each lane.

        The shuffle keeps a rank or a column of the batch from always holding the same source. A run that is not
        arranged keeps its slots in ascending order.
        """
        if not self._arranged:
            return np.array(starts)[:, None] + np.arange(size)
        shares = [(start, lane) for start in starts for lane in range(self._lanes)]
        slots = [range(start + (lane - start) % self._lanes, start + size, self._lanes) for start, lane in shares]
        keys = np.array([key(self._seed, "batch", *share) for share in shares], dtype=np.uint64)
        sizes = np.array([len(share) for share in slots])
        first = np.repeat(np.array([share.start for share in slots]), sizes)
        return (first + self._lanes * permutations(keys, sizes)).reshape(len(starts), size)

    def look_up(self, slots: Ints) -> Planned:
        source, stream, index = self._draws(slots)
        nth, repeat = np.divmod(index, self._repeats[source])
        found, missing = self._windows.find(stream, nth)
        if len(missing):
            found[:, missing] = self._walk(stream[missing], index[missing], nth[missing])
        epoch, group, item = found
        return Planned(slots, source, epoch, repeat, group, item)

    def _walk(self, stream: Ints, index: Ints, nth: Ints) -> Ints:
        """Return epoch, group and item of indices of streams, shape (3, n). Windows move to those planned already."""
        found = np.empty((3, len(stream)), dtype=np.int64)
        windows: dict[int, NextItems] = {}
        order = np.argsort(stream, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(stream[order], prepend=-1)))[1:]:
            number = int(stream[here[0]])
            walked = self._stream(*divmod(number, self._lanes))
            picks = walked.picks(index[here])
            found[:, here] = picks.epoch, picks.group, picks.item
            # A stream with half a window in one look-up would move its window every time.
            if 2 * len(here) <= self._windows.width and (
                known := walked.ahead(int(nth[here].min()), self._windows.width)
            ):
                windows[number] = known
        if windows:
            self._windows = self._windows.moved(windows)
        return found

    def stand_in(self, slot: int, attempt: int) -> Planned:
        """Return a substitute from the same chunk or, in file order, from the same group."""
        source, stream, index = self._draws(np.array([slot]))
        walked = self._stream(*divmod(int(stream[0]), self._lanes))
        picks = walked.stand_in(int(index[0]), attempt)
        return Planned(np.array([slot]), source, picks.epoch, picks.repeat, picks.group, picks.item)

    def residents(self, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group that is resident in the lanes of these slots at the last of them.

        This includes groups of sources that only later slots draw from.
        """
        stop = int(slots.max()) + 1
        found: dict[tuple[int, int], None] = {}
        sources, common = self._turns.drawn(stop, None)
        for lane in np.unique(slots % self._lanes).tolist():
            _, own = self._turns.drawn(stop, lane)
            for source in sources:
                drawn, of = (own, lane) if self._split[source] else (common, 0)
                groups = self._stream(source, of).residents(max(0, int(drawn[source]) - 1))
                found |= dict.fromkeys((source, group) for group in groups)
        return list(found)

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return self._lanes

    def is_split(self, source: int) -> bool:
        """Return whether a source is split into lanes; otherwise all lanes draw from lane 0 of it."""
        return bool(self._split[source])

    def drawn(self, stop: int, lane: int) -> Ints:
        """Return how many items were drawn before a slot from the stream of each source that a lane draws from."""
        _, common = self._turns.drawn(stop, None)
        _, own = self._turns.drawn(stop, lane)
        found: Ints = np.where(self._split, own, common)
        return found

    def stays(self, source: int, lane: int, epoch: int) -> tuple[Ints, Ints, Ints] | None:
        """Return when the groups of a stream are resident in an epoch; see ``Stream.stays``.

        Returns:
            None if the stream is in file order, or items of it are excluded.
        """
        stream = self._stream(source, lane)
        return stream.stays(epoch) if isinstance(stream, Stream) else None

    def slots_of(self, source: int, group: int, item: int, epoch: int) -> list[int]:
        """Return every slot that holds an item in an epoch of its source: the inverse of ``look_up``."""
        lanes = range(self._lanes) if self._split[source] else [None]
        slots = []
        for lane in lanes:
            for index in self._stream(source, lane or 0).indices(group, item, epoch).tolist():
                slot = self._turns.slot(source, index, lane)
                if slot is not None:
                    slots.append(slot)
        return slots

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        return self._turns.quotas(start, stop)

    def _draws(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return source, stream (source and lane in one number) and index in the stream of each slot."""
        source, common, own = self._turns.draws(slots)
        split = self._split[source]
        stream = source * self._lanes + np.where(split, slots % self._lanes, 0)
        return source, stream, np.where(split, own, common)

    def _is_split(self, source: int) -> bool:
        spec = self._sources[source]
        if not spec.shuffled:
            return False  # file order is one order, whatever the number of lanes
        return is_split(spec.known_sizes(), self._residents[source], self._lanes, spec.limit)

    def _stream(self, source: int, lane: int) -> Stream | FileOrder | ExcludingStream:
        if (source, lane) not in self._streams:
            stream = self._make_stream(source, lane)
            self._streams[source, lane] = self._without_excluded(stream, source, lane)
        return self._streams[source, lane]

    def _without_excluded(
        self, stream: Stream | FileOrder, source: int, lane: int
    ) -> Stream | FileOrder | ExcludingStream:
        excluded = self._excluded.get(source)
        if excluded is None:
            return stream
        if source in self._shares:
            excluded = excluded.some(self._shares[source][lane].holds(excluded.group, excluded.item))
        of = lane if self._split[source] else None
        own = excluded.moved(lambda slot: int(self._turns.drawn(slot, of)[1][source]) if slot else 0)
        return ExcludingStream(stream, own, self._sources[source].name)

    def _make_stream(self, source: int, lane: int) -> Stream | FileOrder:
        spec = self._sources[source]
        if not spec.shuffled:
            return FileOrder(spec.sizes, self._residents[source], spec.name, limit=spec.limit, repeat=spec.repeat)
        sizes = spec.known_sizes()
        lanes = self._lanes if self._split[source] else 1
        if source not in self._shares:
            self._shares[source] = deal(sizes, lanes, self._seed, spec.name) if lanes > 1 else [whole(sizes)]
        return Stream(
            self._shares[source][lane],
            self._residents[source],
            key(self._seed, "lane", lane),
            spec.name,
            limit=None if spec.limit is None else lane_limit(spec.limit, int(sizes.sum()), lane, lanes),
            repeat=spec.repeat,
        )
