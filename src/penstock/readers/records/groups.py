"""Groups of a source: about as many items each, never of two segments. Knows no file and no index."""

import numpy as np

from penstock.plan.draws import Ints, ranges


class SourceGroups:
    """The groups of a source, in arrays that grow. Readers need no lock: what they see does not change.

    Attributes:
        starts: First item of each group, and the number of all items.
        bounds: File, segment, and first item in the segment of each group, shape (n, 3).
    """

    def __init__(self) -> None:
        self._starts: Ints = np.zeros(1, np.int64)
        self._bounds: Ints = np.zeros((0, 3), np.int64)
        self.starts = self._starts
        self.bounds = self._bounds

    def add(self, files: Ints, segments: Ints, items: Ints, most: int) -> None:
        """Cut segments into groups.

        Args:
            files: File of each segment.
            segments: Number of each segment in its file.
            items: Items per segment.
            most: Maximum number of items per group.
        """
        parts = -(-items // most)
        part = ranges(parts)
        each = np.repeat(items, parts)
        firsts = part * each // np.repeat(parts, parts)
        ends = (part + 1) * each // np.repeat(parts, parts)
        before = np.cumsum(items) - items + self.starts[-1]
        count = len(self.bounds)
        after = count + len(part)
        self._starts = _with_room(self._starts, after + 1)
        self._bounds = _with_room(self._bounds, after)
        self._bounds[count:after] = np.stack([np.repeat(files, parts), np.repeat(segments, parts), firsts], axis=1)
        self._starts[count + 1 : after + 1] = np.repeat(before, parts) + ends
        self.bounds = self._bounds[:after]  # first: a thread that sees a start needs its group
        self.starts = self._starts[: after + 1]


def _with_room(values: Ints, count: int) -> Ints:
    """Return an array with room for ``count`` rows: the same, or one of at least twice the size."""
    if len(values) >= count:
        return values
    larger = np.empty((max(count, 2 * len(values)), *values.shape[1:]), values.dtype)
    larger[: len(values)] = values
    return larger
