"""The groups of a source in file order: all known, or found by an index that grows from the front on request."""

from typing import Protocol

import numpy as np

from penstock.plan.draws import Ints


class Growing(Protocol):
    """The groups of a source whose index is still being made.

    It grows by whole groups, and a known group never changes. Groups may be empty; an index without any item raises an
    error of its own. Any thread may call it.
    """

    @property
    def complete(self) -> bool:
        """Whether all groups are known. Never extends the index."""
        ...

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin, and where the last of them ends.

        [0, 3, 8] means a group of 3 and a group of 5 items, [0] no group yet. Every look-up calls this, so it must be
        as cheap as a view of an array if nothing is added.

        Args:
            items: Minimum number of items. Groups are added until there are as many, or all groups are known.
        """
        ...


class Known:
    """Groups that are all known.

    Args:
        sizes: Items per group.
    """

    complete = True

    def __init__(self, sizes: Ints) -> None:
        self._starts: Ints = np.concatenate([[0], np.cumsum(sizes)])

    def starts(self, items: int) -> Ints:  # noqa: ARG002
        """Return where the groups begin, and where the last of them ends."""
        return self._starts
