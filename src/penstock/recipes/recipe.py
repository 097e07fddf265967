"""The recipe protocol: from records to the fields of a batch. Knows no reader, no file layout and no plan."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.readers.errors import ContentError

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Item(NamedTuple):
    """One planned sample.

    Attributes:
        row: Number of the item, unique in the run.
        id: Name of the item, unique in its group; a list of names for a pack.
        source: Name of the source.
        draw: Random 64-bit number from (seed, source, epoch, item, repeat). Derive all randomness from it: the sample
            then does not depend on the thread, worker or rank that makes it.
        length: Planned length of the sample when padded, in batches by length; 0 in others.

    Examples:
        >>> import numpy as np
        >>> import penstock
        >>> item = penstock.Item(row=7, id="clip-7", source="english", draw=12345)
        >>> int(np.random.default_rng(item.draw).integers(100))  # the same in every process
        69
    """

    row: int
    id: str | list[str]
    source: str
    draw: int
    length: int = 0

    def name(self, member: int | None = None) -> str:
        """Return the id as one text; for a pack, the id of one member if given, else of all."""
        if isinstance(self.id, str) or member is None:
            return id_text(self.id)
        return self.id[member]


def id_text(id: str | list[str]) -> str:
    """Return an id as one text: ``a+b+c`` for a pack."""
    return id if isinstance(id, str) else "+".join(id)


@dataclass(frozen=True, slots=True)
class Bad:
    """A sample that could not be used.

    Attributes:
        index: Index of the sample in the batch.
        reason: What is wrong, as a sentence for the user.
        outcome: ``replaced``: the feed fills the index with another sample. ``padded``, ``skipped``: the recipe has
            handled the sample; it is only reported.
        member: Index of the bad member of a pack.

    Examples:
        >>> import penstock
        >>> penstock.Bad(3, "this line holds no caption")
        Bad(index=3, reason='this line holds no caption', outcome='replaced', member=None)
    """

    index: int
    reason: str
    outcome: Literal["replaced", "padded", "skipped"] = "replaced"
    member: int | None = None


class Recipe(Protocol[R_contra]):
    """How records become a batch. Several threads may call it at the same time, each for its own batch.

    A recipe must pickle by import path, without its buffers and caches.

    Examples:
        >>> import penstock
        >>> class Lengths:
        ...     needs = None
        ...     def start(self, size):
        ...         return [0] * size
        ...     def fill(self, work, records):
        ...         def make(index, item, record):
        ...             work[index] = len(record)
        ...         return penstock.each(records, make)
        ...     def finish(self, work):
        ...         return {"lengths": work}
        ...     def preview(self, batch, index):
        ...         yield "txt", str(batch["lengths"][index]).encode()
    """

    @property
    def needs(self) -> Any:
        """What the recipe reads of an item (extensions, columns, windows); passed to the reader. None: everything."""
        ...

    def start(self, size: int) -> Any:
        """Return the work for a new batch, of any type; ``fill`` and ``finish`` get it.

        Args:
            size: Number of samples. A sample that is never filled is padding.
        """
        ...

    def fill(self, work: Any, records: Mapping[int, tuple[Item, R_contra]]) -> list[Bad]:
        """Fill samples of a batch; see ``each``. It may be called several times per batch.

        Args:
            work: Work that ``start`` returned.
            records: Item and record of each sample to fill, by index in the batch.

        Returns:
            Samples that could not be used. A sample that is to be replaced is filled again, from another record.
        """
        ...

    def finish(self, work: Any) -> dict[str, Any]:
        """Return the fields of the batch, with what is computed for all samples at once.

        Args:
            work: Work that ``start`` returned, filled.

        Returns:
            Fields by name. Arrays that are values of the dict reach the trainer as tensors; nested arrays stay arrays.
        """
        ...

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        """Return one sample of a finished batch as files, for ``replay``.

        Args:
            batch: Batch with the fields that ``finish`` returned.
            index: Index of the sample.

        Returns:
            Extension and content of each file. ``penstock replay`` prints a file with the extension ``ansi`` to the
            terminal, too.
        """
        ...


class PaddedRecipe:
    """A recipe that pads the samples of a batch to the longest one, so that batches by length suit it.

    Attributes:
        length_unit: Unit of lengths: ``seconds`` or ``tokens``.
    """

    length_unit: str

    @property
    def length_key(self) -> str:
        """Options that change planned lengths, as text. A state of a run with other ones is refused."""
        return ""

    def planned_lengths(self, lengths: NDArray[np.int64], draws: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the lengths of samples as the recipe pads them, rounded up.

        Args:
            lengths: Lengths of items: thousandths of a second, or tokens; 0 if unknown.
            draws: Draw of each item; see ``Item.draw``.

        Returns:
            Planned lengths: tenths of a second, or tokens. A sample that turns out to be longer is bad.
        """
        raise NotImplementedError


def each(records: Mapping[int, tuple[Item, R]], make: Callable[[int, Item, R], object]) -> list[Bad]:
    """Call ``make(index, item, record)`` for every sample, for use in ``Recipe.fill``.

    Only the reason of an error is kept: the traceback of the exception would keep the batch and open files alive.

    Args:
        records: Item and record of each sample, by index in the batch.
        make: Function that fills one sample.

    Returns:
        Samples for which ``make`` raised ``ContentError`` or ``BadMedia``. Other exceptions propagate.

    Examples:
        >>> import penstock
        >>> item = penstock.Item(row=7, id="line-7", source="web", draw=12345)
        >>> texts = [""]
        >>> def make(index, item, record):
        ...     texts[index] = record.decode()
        >>> penstock.each({0: (item, b"A red boat.")}, make)
        []
    """
    bad = []
    for index, (item, record) in records.items():
        try:
            make(index, item, record)
        except ContentError as error:
            bad.append(Bad(index, error.reason))
        except BadMedia as error:
            bad.append(Bad(index, str(error)))
    return bad
