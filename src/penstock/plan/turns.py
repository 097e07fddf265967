"""The protocol of a schedule: which source each slot of an endless run draws from. Knows no items."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints


class Turns(Protocol):
    """The source of each slot. ``Mixture`` takes turns by weight, ``Rounds`` once per source and round."""

    @property
    def lanes(self) -> int:
        """Number of lanes: slot s belongs to lane s mod lanes."""
        ...

    def draws(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what each slot draws.

        Returns:
            Three arrays: the source, the number of earlier draws from it, and the number of these in the same lane.
        """
        ...

    def drawn(self, stop: int, lane: int | None) -> tuple[list[int], Ints]:
        """Return what was drawn before a slot.

        Args:
            stop: Slot before which draws are counted.
            lane: Lane whose draws are counted; None for all lanes.

        Returns:
            The sources that slot ``stop - 1`` or a later one may draw from, and the number of draws before ``stop``
            from each source.
        """
        ...

    def slot(self, source: int, draw: int, lane: int | None) -> int | None:
        """Return the slot of a draw from a source, or None if it never comes.

        Args:
            source: Number of the source.
            draw: Number of the draw, from 0.
            lane: Lane whose draws are counted; None for all lanes.
        """
        ...

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the share of each source in the slots start … stop - 1, in samples."""
        ...
