"""The groups of a source in file order: all of them are known, or an index adds more from the front on when asked."""

from typing import Protocol

import numpy as np

from penstock.plan.draws import Ints


class Growing(Protocol):
    """The groups of a source whose index is still being made.

    It grows by whole groups, and what is known of a group never changes. Groups may be empty, a whole source may not:
    the index raises an error of its own then. Any thread may call it.
    """

    @property
    def complete(self) -> bool:
        """Whether all groups are known."""
        ...

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin, and where the last of them ends.

        [0, 3, 8] stands for a group of 3 and a group of 5 items, [0] for no group yet. Every look-up calls this, so
        without anything to add it should cost no more than a view of an array.

        Args:
            items: add groups until there are at least so many items, or all groups are known.
        """
        ...


class Known:
    """Groups that are all known.

    Args:
        sizes: items per group.
    """

    complete = True

    def __init__(self, sizes: Ints) -> None:
        self._starts: Ints = np.concatenate([[0], np.cumsum(sizes)])

    def starts(self, items: int) -> Ints:  # noqa: ARG002
        """Return where the groups begin, and where the last of them ends."""
        return self._starts
