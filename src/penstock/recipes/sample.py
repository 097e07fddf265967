"""What a recipe makes one row of a batch from, and what it offers to a feed."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from penstock.readers.errors import ContentError
from penstock.readers.tar.reader import Files, Place


class Sample(NamedTuple):
    """One item in one use of it.

    Attributes:
        row: the item in the manifest.
        word: 64 random bits of (seed, source, epoch, item, repeat): whoever makes the sample draws the same.
        place: where its files lie, or why they can't be found.
    """

    row: int
    id: str
    source: str
    word: int
    place: Place | ContentError


class Recipe(Protocol):
    """How records become a batch. Its methods run in several threads at once, each on a batch of its own."""

    @property
    def files(self) -> Files:
        """What it reads of a sample."""
        ...

    def start(self, size: int) -> Any:
        """An empty batch to work on; a row that is never filled is padding."""
        ...

    def fill(self, work: Any, rows: Sequence[int], samples: Sequence[Sample]) -> dict[int, ContentError]:
        """Make these rows, each of its sample. Returns what is wrong with the samples that could not be used, by row;

        such a row is then filled anew with another.
        """
        ...

    def finish(self, work: Any) -> dict[str, Any]:
        """The batch's fields, with what is computed from all rows at once. Arrays reach the trainer as tensors."""
        ...
