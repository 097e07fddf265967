"""The sources and groups of a part of a run, and the number of items per group. Knows no file and no byte.

Nothing is stored per item: rows are computed from the sizes of the groups. Everything else about items (ids, places,
durations) belongs to their reader.

    source 0                source 1
    group 0   group 1       group 0      a group's items are consecutive rows, a source's groups are consecutive
    rows 0-2  rows 3-7      rows 8-9
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.plan.draws import Ints
from penstock.plan.growing import Growing

UNITS = {"hours": 3_600_000_000, "items": 1}
"""Number of counts per unit. Amounts are exact integers: hours are counted in microseconds."""


def spoken_hours(hours: float) -> str:
    """Return a readable duration in hours, minutes or seconds."""
    if hours >= 1:
        return f"{hours:,.2f} hours"
    return f"{hours * 60:.1f} minutes" if hours * 60 >= 1 else f"{hours * 3600:.1f} seconds"


class Manifest:
    """The sources of one part of a run.

    Args:
        sources: Names of the sources.
        sizes: Items per group, for every source. Groups must not be empty.
        fingerprints: Digest of what the order depends on, per source. A state with another fingerprint is refused.
        group_names: Readable names of the groups of every source, such as paths of files. Names may repeat. By default
            the name of the source and the number of the group.
        amounts: Amount per source, by unit (see ``UNITS``); 0 if unknown.
        limits: Maximum number of items per epoch of every source; None for all. By default no source has a limit.
        modalities: Modality of every source, such as ``image``, for caps of ``mixture: rounds``. By default none.
        pool: Number of resident groups for ``pool: auto``; by default from the sizes of the groups.

    Attributes:
        sources: Names of the sources.
        fingerprints: One fingerprint per source.
        items: Items per source.
        amounts: Amount per source, by unit; always includes ``items``.
        limits: Maximum number of items per epoch of every source; None for no limit.
        modalities: Modality of every source; empty for none.
        growing: Index of the only source, if it is still being made (see ``GrowingManifest``).
        pool: Number of resident groups for ``pool: auto``, if set.
        length_digests: Digest of the lengths of all items, per source, by which a run with batches by length knows that
            they have changed; empty if there is none.

    Raises:
        ValueError: If a source has no group, a group has no item, a limit is below 1, or arguments differ in length.

    Examples:
        >>> import numpy as np
        >>> import penstock
        >>> digest = penstock.fingerprint(["a.jsonl", "b.jsonl"])
        >>> manifest = penstock.Manifest(["web"], [np.array([30, 17])], fingerprints=[digest])
        >>> manifest.amounts["items"]
        (47,)
    """

    growing: Growing | None = None
    pool: int | None = None
    length_digests: tuple[str, ...] = ()

    def __init__(
        self,
        sources: Sequence[str],
        sizes: Sequence[NDArray[np.integer]],
        *,
        fingerprints: Sequence[str],
        group_names: Sequence[Sequence[str]] | None = None,
        amounts: Mapping[str, Sequence[int]] | None = None,
        limits: Sequence[int | None] | None = None,
        modalities: Sequence[str] | None = None,
        pool: int | None = None,
    ) -> None:
        counts = np.concatenate([np.zeros(0, np.int64), *sizes]).astype(np.int64)
        if not all(map(len, sizes)) or not len(counts) or counts.min() < 1:
            raise ValueError("every source of a manifest has at least one group, and no group is empty")
        limits = (None,) * len(sources) if limits is None else limits
        modalities = ("",) * len(sources) if modalities is None else modalities
        several = {"sizes": sizes, "fingerprints": fingerprints, "limits": limits, "modalities": modalities}
        for name, values in {**several, **(amounts or {})}.items():
            if len(values) != len(sources):
                raise ValueError(f"a manifest of {len(sources)} sources needs as many {name}, not {len(values)}")
        self.sources = tuple(sources)
        self.fingerprints = tuple(fingerprints)
        self.limits = checked_limits(limits)
        self.modalities = tuple(modalities)
        self._group_names = group_names
        self._source_starts = np.cumsum([0, *map(len, sizes)])  # the first group of each source
        self._group_starts: Ints = np.concatenate([[0], np.cumsum(counts)])  # the first row of each group
        starts = self._group_starts[self._source_starts]
        self.items = tuple(np.diff(starts).tolist())
        self.amounts: dict[str, tuple[int, ...]] = {"items": self.items}
        self.amounts |= {unit: tuple(amount) for unit, amount in (amounts or {}).items()}
        self.pool = pool

    @property
    def first_groups(self) -> Ints:
        """Number of the first group of each source, counted over all sources, and the number of all groups."""
        return self._source_starts

    def __len__(self) -> int:
        """Return the number of items."""
        return int(self._group_starts[-1])

    def group_name(self, source: int, group: int) -> str:
        """Return the name of a group, as used by ``plan``, the ledger and messages."""
        return self._group_names[source][group] if self._group_names else f"{self.sources[source]}/{group}"

    def group_sizes(self, source: int) -> Ints:
        """Return the number of items of each group of a source."""
        first, after = self._source_starts[source : source + 2]
        return np.diff(self._group_starts[first : after + 1])

    def rows(self, source: ArrayLike, group: ArrayLike, item: ArrayLike) -> Ints:
        """Return the rows of items. The arguments broadcast.

        Args:
            source: Number of the source.
            group: Number of the group in its source.
            item: Number of the item in its group.
        """
        number = self._source_starts[np.asarray(source)] + np.asarray(group)
        rows: Ints = self._group_starts[number] + np.asarray(item)
        return rows

    def locate(self, rows: ArrayLike) -> tuple[Ints, Ints, Ints]:
        """Return source, group in its source and item in its group of each row: the inverse of ``rows``."""
        rows = np.asarray(rows, dtype=np.int64)
        number = self._group_starts.searchsorted(rows, side="right") - 1
        source = self._source_starts.searchsorted(number, side="right") - 1
        return source, number - self._source_starts[source], rows - self._group_starts[number]


def checked_limits(limits: Sequence[int | None]) -> tuple[int | None, ...]:
    """Check limits of items per epoch.

    Raises:
        ValueError: If a limit is below 1.
    """
    if any(limit is not None and limit < 1 for limit in limits):
        raise ValueError(
            f"a limit of items per epoch must be 1 or more, not {min(each for each in limits if each is not None)}"
        )
    return tuple(limits)


def fingerprint(*parts: object) -> str:
    """Return a digest of what an order depends on.

    Args:
        parts: Values that JSON can represent, and arrays of integers or bytes.

    Examples:
        >>> import penstock
        >>> penstock.fingerprint(["a.jsonl", "b.jsonl"], [30, 17])
        'c8b0843c4771742a'
    """
    digest = hashlib.sha256()
    for part in parts:
        data = np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else json.dumps(part).encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:16]
