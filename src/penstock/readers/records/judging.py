"""What decides which records are items. It is passed in: the index knows no format and no tokenizer."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Verdict(NamedTuple):
    """What was decided of a record.

    Attributes:
        reason: why it is no item, as a short phrase that is counted; empty for an item.
        length: tokens of the item; 0 if they were not counted.
        labels: tokens of the item that are trained; 0 if they were not counted.
        kept: what is kept of the item, so that it need not be made again; None for nothing.
        losses: what the record has and the item has not, as short phrases that are counted.
    """

    reason: str
    length: int = 0
    labels: int = 0
    kept: bytes | None = None
    losses: tuple[str, ...] = ()


class Judge(Protocol):
    """Decides which records are items. It pickles where worker processes are to use it.

    Which records are items depends on ``key`` alone, not on whether lengths are counted: an index with lengths serves
    a run that needs none, and the order is the same.

    Attributes:
        key: names all that its verdicts depend on: format, tokens, template, tokenizer and their options.
        counts: whether it counts the tokens of all items.
        keeps: whether something is kept of all items.
        leave_out: columns whose bytes it does not look at.
        accepts_all: whether every record is an item, so that none has to be read.
    """

    @property
    def key(self) -> str: ...

    @property
    def counts(self) -> bool: ...

    @property
    def keeps(self) -> bool: ...

    @property
    def leave_out(self) -> Sequence[str]: ...

    @property
    def accepts_all(self) -> bool: ...

    def judge(self, records: Sequence[dict[str, Any]], path: str) -> Sequence[Verdict]:
        """Return a verdict on each record. Called with many at once: tokenizers are faster then.

        Args:
            records: of one file.
            path: of the file, to which links in records are relative.
        """
        ...
