"""The walk protocol: what threads and worker processes need of a feed to make batches ahead."""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.feed.steps import Steps


class Walk(Protocol):
    """The batches of some steps; see ``feed.walk``."""

    def made(self, step: int) -> Any:
        """Return the batch of a step, in the form in which it travels to the trainer."""
        ...

    def close(self) -> None: ...


OpenWalk = Callable[[Steps], Walk]
