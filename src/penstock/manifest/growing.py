"""The manifest of a source whose index is still being made: in file order, a run starts before all items are known."""

import numpy as np
from numpy.typing import ArrayLike

from penstock.manifest.manifest import Manifest, checked_limits
from penstock.plan.draws import Ints
from penstock.plan.growing import Growing


class GrowingManifest(Manifest):
    """One source in file order. The row of an item is its number in the source.

    Items and amounts are 0, which means unknown.

    Args:
        source: Name of the source.
        index: Groups of the source. Must pickle: every process extends its own copy, and all copies agree.
        fingerprint: Digest of what the order depends on: the files, and how items are made from them.
        limit: Maximum number of items per epoch; None for all.
        modality: Modality of the source; empty for none.

    Raises:
        ValueError: If the limit is below 1.
    """

    growing: Growing

    def __init__(
        self, source: str, index: Growing, *, fingerprint: str, limit: int | None = None, modality: str = ""
    ) -> None:
        self.sources = (source,)
        self.fingerprints = (fingerprint,)
        self.items = (0,)
        self.amounts = {"items": (0,)}
        self.limits = checked_limits((limit,))
        self.modalities = (modality,)
        self.growing = index

    def __len__(self) -> int:
        """Return the number of known items."""
        return int(self.growing.starts(0)[-1])

    def group_name(self, source: int, group: int) -> str:
        """Return the name of a group: the source and a number, unless a subclass knows a better one."""
        return f"{self.sources[source]}/{group}"

    def group_sizes(self, source: int) -> Ints:  # noqa: ARG002
        """Return the number of items of each known group."""
        return np.diff(self.growing.starts(0))

    def rows(self, source: ArrayLike, group: ArrayLike, item: ArrayLike) -> Ints:  # noqa: ARG002
        """Return the rows of items. Their groups must be known, as all groups of a plan are."""
        rows: Ints = self.growing.starts(0)[np.asarray(group)] + np.asarray(item)
        return rows

    def locate(self, rows: ArrayLike) -> tuple[Ints, Ints, Ints]:
        """Return source, group and item of each row: the inverse of ``rows``. Extends the index if necessary."""
        rows = np.asarray(rows, dtype=np.int64)
        starts = self.growing.starts(int(rows.max(initial=-1)) + 1)
        group = starts.searchsorted(rows, side="right") - 1
        return np.zeros_like(rows), group, rows - starts[group]
