"""A video cut into clips by the times at which they begin. All clips of a file get their bytes by the same cuts.

frames     K..K..K..K....K......K..K....
clips      └────────┴───────────┴───────      begin at 0 s, 12 s, 31 s
cuts       ^        ^           ^       ^     the units of the cache: no byte is in two of them

Where frames lie in the head of the file, which is read to find its header, the head is a unit, too.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.mp4.checksums import UNKNOWN, Checksums
from penstock.readers.mp4.clip import Clip, starts_of
from penstock.readers.mp4.header import head_bytes
from penstock.readers.mp4.track import Coding, Track
from penstock.store.blob import ByteRange


class Video:
    """One video file.

    Args:
        path: Path of the file.
        size: Size of the file, in bytes.
        track: Frames of the file.
        begins: Seconds at which the clips of the file begin, including clips that are not used.
        checksums: Checksums of the frames, if the file was indexed.
    """

    def __init__(
        self, path: str, size: int, track: Track, begins: NDArray[np.float64], checksums: Checksums | None = None
    ) -> None:
        self._path = path
        self._size = size
        self._track = track
        self._checksums = checksums
        self._order = np.argsort(track.times, kind="stable")  # frames as they are shown
        self._seconds = track.times[self._order] / track.ticks_per_second
        self._starts = starts_of(track)
        self._ends = track.offsets + track.sizes
        first = self._order[self._nearest(np.sort(begins))]
        inner = np.unique(track.offsets[np.maximum(self._starts[first], 0)])
        cuts = np.unique(np.concatenate([[track.offsets.min()], inner, [self._ends.max()]]))
        head = head_bytes(size)
        self._begins_in_head = bool(cuts[0] < head)
        self._cuts = np.concatenate([[0, head], cuts[cuts > head]]) if self._begins_in_head else cuts

    @property
    def frames(self) -> int:
        return len(self._order)

    def checksums(self) -> Checksums:
        """Return the checksums of its frames, as far as they are known."""
        return self._checksums or Checksums.unknown(self._track)

    @property
    def coding(self) -> Coding:
        """Parameters of the decoder."""
        return self._track.coding

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Display time of each frame, in ascending order."""
        return self._seconds

    def clip(self, begin: float, end: float) -> Clip:
        """Return the frames that are shown between two times, in seconds from the beginning of the video.

        Args:
            begin: First display time, inclusive.
            end: Last display time, exclusive.
        """
        at, after = self._seconds.searchsorted([begin, end]).tolist()
        shown = self._order[at:after]
        first = max(0, int(self._starts[shown].min(initial=self.frames)))
        here = slice(first, int(shown.max(initial=-1)) + 1)
        units = self._units(self._track.offsets[here], self._ends[here])
        checksums = None if self._checksums is None else self._checksums.frames[here]
        behind = int(self._cuts.searchsorted(units[-1][1])) if units else len(self._cuts)
        return Clip(
            path=self._path,
            file_size=self._size,
            units=units,
            frames_range=(int(self._cuts[int(self._begins_in_head)]), int(self._cuts[-1])),
            following=tuple(pairwise(self._cuts[behind : behind + 2].tolist())),
            coding=self._track.coding,
            first=first,
            checksums=None if checksums is None or (checksums == UNKNOWN).any() else checksums.copy(),
            offsets=self._track.offsets[here].copy(),
            sizes=self._track.sizes[here].copy(),
            starts=self._starts[here] - first,
            shown=shown - first,
            seconds=self._seconds[at:after].copy(),
        )

    def _nearest(self, seconds: NDArray[np.float64]) -> Ints:
        """Return the places in the order of showing that are nearest to some times."""
        middles = (self._seconds[1:] + self._seconds[:-1]) / 2
        return np.searchsorted(middles, seconds)

    def _units(self, offsets: Ints, ends: Ints) -> tuple[ByteRange, ...]:
        """Return the units that hold some frames."""
        if not len(offsets):
            return ()
        low = int(self._cuts.searchsorted(offsets.min(), side="right")) - 1
        high = int(self._cuts.searchsorted(ends.max(), side="left"))
        return tuple(zip(self._cuts[low:high].tolist(), self._cuts[low + 1 : high + 1].tolist(), strict=True))
