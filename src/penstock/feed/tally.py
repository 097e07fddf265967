"""How many samples were bad so far, and whether that is too many. Pure."""

from typing import Any

from penstock.feed.making import flat_batches

_ENOUGH = 1_000  # samples before the share of bad ones means something


class TooManyBad(RuntimeError):
    """More samples than ``max_bad`` allows could not be decoded."""


class Tally:
    """Counts samples of batches; past a share of ``max_bad`` bad ones it raises, from 1,000 samples on."""

    def __init__(self, max_bad: float) -> None:
        self._max_bad = max_bad
        self._seen = 0
        self._bad = 0

    def add(self, batch: dict[str, Any]) -> None:
        """Count a batch.

        Raises:
            TooManyBad: with the reason of the last bad sample.
        """
        bad = []
        for each in flat_batches(batch):
            self._seen += sum(1 if isinstance(id, str) else len(id) for id in each["ids"])  # a pack has several
            bad += each["bad"]
        self._bad += len(bad)
        if bad and self._seen >= _ENOUGH and self._bad > self._max_bad * self._seen:
            raise TooManyBad(
                f"{self._bad} of {self._seen} samples were bad, more than max_bad: {self._max_bad} allows "
                f"from {_ENOUGH:,} samples on; the last: {bad[-1].group}:{bad[-1].id}: {bad[-1].reason}"
            )
