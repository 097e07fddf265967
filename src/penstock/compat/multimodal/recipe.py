"""The recipe: format function, then the hooks of the dataset. A batch is a list of samples, as a user gets them."""

import logging
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.compat.multimodal.functions import formatted
from penstock.compat.multimodal.links import linked
from penstock.compat.multimodal.reader import Row
from penstock.compat.randomness import seeded
from penstock.media.errors import BadMedia
from penstock.plan.draws import key as draw_key
from penstock.readers.errors import ContentError
from penstock.recipes.recipe import Bad, Item
from penstock.store.blob import Store
from penstock.text.errors import Rejected
from penstock.text.formats import Format

log = logging.getLogger(__name__)

Sample = dict[str, Any]


class FunctionSource(NamedTuple):
    """What the recipe has to know of a source.

    Attributes:
        format: Format of its records.
        tokens: Special tokens for the function of the format.
        open_store: Function that opens the store of its files.
        open_path: Function that opens the files that records name, ``open_path(link, folder=…)``.
    """

    format: Format
    tokens: Mapping[str, str]
    open_store: Callable[[], Store]
    open_path: Callable[..., bytes]


class Hooks(NamedTuple):
    """What a subclass of the dataset may override.

    Attributes:
        record: Returns a record of a source as it is to be used, or None to leave it out.
        process: Makes tensors of the media of a sample, for a dtype. Returns None if the sample can't be used.
        tokenize: Makes the final sample: a dict, or whatever the collate function takes.
    """

    record: Callable[[str, dict[str, Any]], dict[str, Any] | None]
    process: Callable[[Sample, str], Sample | None]
    tokenize: Callable[[Sample], object]


def planned_record(
    get_iterator: Callable[[dict[str, Any]], Iterator[dict[str, Any]]],
    config: Mapping[str, Any],
    record: dict[str, Any],
) -> dict[str, Any] | None:
    """Return what an iterator over records of a source makes of one record; None if it leaves it out.

    Args:
        get_iterator: Function of the config, in which ``records`` yields the record.
        config: Element of ``_dataset_sources``.
        record: Record as the file has it.

    Raises:
        TypeError: If the iterator does not take its records one by one from ``records``.
    """
    asked = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal asked
        asked = 1
        yield record
        asked = 2

    made = iter(get_iterator({**config, "records": records()}))
    first = next(made, None)
    if asked == 0:
        wrong = "it did not use that record"
    elif first is not None and asked == 2:
        wrong = "it asked for another record before it yielded this one"
    elif first is not None and next(made, None) is not None:
        wrong = "it yielded several for one"
    else:
        return first
    raise TypeError(
        f"_get_iterator({config['name']!r}) has to yield each record of super()._get_iterator(config), changed or not, "
        f"or leave it out, and {wrong}: the order of records is planned from the files; put other records, or another "
        "order, into a file of dataset_configs"
    )


class _UnusableSample(NamedTuple):
    """Takes the place of a sample."""

    reason: str


class Samples:
    """Makes samples.

    Args:
        hooks: Hooks of the dataset.
        seed: Seed of the run. Random numbers that functions and hooks draw depend on it, the record and the pass only.
    """

    needs = None

    def __init__(self, hooks: Hooks, seed: int) -> None:
        self._hooks = hooks
        self._seed = seed
        self._reported: set[str] = set()

    def start(self, size: int) -> list[object]:
        return [{} for _ in range(size)]

    def fill(self, work: list[object], records: Mapping[int, tuple[Item, Row]]) -> list[Bad]:
        made: dict[tuple[int, int], object] = {}  # a record may be repeated in a batch
        bad = []
        for index, (item, row) in records.items():
            which = (item.row, row.walk)
            if which not in made:
                made[which] = self._make(item, row)
            sample = made[which]
            if isinstance(sample, _UnusableSample):
                bad.append(Bad(index, sample.reason))
            else:
                work[index] = dict(sample) if type(sample) is dict else sample
        return bad

    def _make(self, item: Item, row: Row) -> object:
        try:
            with seeded(draw_key(self._seed, "sample", item.source, row.walk, item.row)):
                return self._made(item.source, row)
        except (ContentError, Rejected, BadMedia) as error:
            reason = str(getattr(error, "reason", error))
            self._report(item, reason)
            return _UnusableSample(reason)
        except Exception as error:
            error.add_note(f"This was raised for record {item.id} of source {item.source!r}.")
            raise

    def _made(self, source: str, row: Row) -> object:
        about: FunctionSource = row.record.about
        file = row.record.path
        record = self._hooks.record(source, row.record.load())
        if record is None:
            raise Rejected("_get_iterator left it out")
        sample = formatted(about.format, record, about.tokens)
        folder = posixpath.dirname(file)
        processed = self._hooks.process(linked(sample, about.open_store(), folder, about.open_path), about.format.dtype)
        if processed is None:
            raise Rejected("_process_sample returned None")
        return self._hooks.tokenize(processed)

    def _report(self, item: Item, reason: str) -> None:
        """Log the first bad record of a source: the others have the same reason most of the time."""
        if item.source not in self._reported:
            self._reported.add(item.source)
            log.warning(
                "source %r: record %s can't be used, and another one of it is used instead: %s",
                *(item.source, item.id, reason),
            )

    def finish(self, work: list[object]) -> dict[str, Any]:
        return {"samples": work}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        sample = batch["samples"][index]
        yield "txt", str(sample.get("text", "") if isinstance(sample, Mapping) else sample).encode()
