"""The protocol of a schedule: which source each slot of an endless run draws from. Knows no items."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints


class Turns(Protocol):
    """Whose turn it is in each slot. ``Mixture`` takes turns by weights, ``Rounds`` one of each source per round."""

    @property
    def lanes(self) -> int:
        """The number of lanes: slot s belongs to lane s mod lanes."""
        ...

    def draws(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what each slot draws.

        Returns:
            Three arrays: the source, how many earlier slots drew from it, and how many of these are of the same lane.
        """
        ...

    def drawn(self, stop: int, lane: int | None) -> tuple[list[int], Ints]:
        """Return what was drawn before a slot.

        Args:
            stop: the slot.
            lane: count the slots of this lane; None counts those of all lanes.

        Returns:
            The sources that slot ``stop - 1`` or a later one may draw from, and the number of draws before ``stop``
            from each source.
        """
        ...

    def slot(self, source: int, draw: int, lane: int | None) -> int | None:
        """Return the slot of a draw from a source, or None if it never comes.

        Args:
            source: the source.
            draw: the number of the draw, from 0.
            lane: the lane in which draws are counted; None counts those of all lanes.
        """
        ...

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return how many of the slots start … stop - 1 are granted to each source."""
        ...
