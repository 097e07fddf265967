"""An index that grows, as the plan sees one: groups become known from the front on, no more of them than asked for."""

import numpy as np

from penstock.plan.draws import Ints


class PrefixIndex:
    """The groups of a source, of which the first ``groups`` are known."""

    def __init__(self, sizes: Ints) -> None:
        self._all: Ints = np.concatenate([[0], np.cumsum(sizes)])
        self.groups = 0

    @property
    def complete(self) -> bool:
        return self.groups == len(self._all) - 1

    @property
    def items(self) -> int:
        """Items that are known."""
        return int(self._all[self.groups])

    def starts(self, items: int) -> Ints:
        while self.items < items and not self.complete:
            self.groups += 1
        return self._all[: self.groups + 1]
