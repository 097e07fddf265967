"""Items of a source -> records, by random access; see ``readers.reader.Reader``. Knows no format of text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.manifest.manifest import Manifest
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.reader import BaseReader, Uses
from penstock.readers.records.content import BadRecord
from penstock.readers.records.sourceindex import Located, SourceIndex
from penstock.store.extents import Extent

_KEPT_GROUPS = 1_024


@dataclass(frozen=True, slots=True)
class Record:
    """One record. It is read when it is loaded.

    Attributes:
        about: what the pipeline says of the source.
        located: where it lies.
    """

    about: Any
    located: Located

    def load(self) -> dict[str, Any]:
        """Return the record as its file has it.

        Raises:
            ContentError: If it can't be parsed, or the file is damaged.
        """
        try:
            return self.located.file.load(self.located.place)
        except BadRecord as error:  # the index would have found it: the file has changed
            raise ContentError(self.located.file.path, str(self.located.row), str(error)) from None

    def kept(self) -> bytes | None:
        """Return what the index keeps of the record, as its judge made it; None for nothing: load it then."""
        return self.located.kept()


class RecordReader(BaseReader):
    """Reads the records of one source. A record for a recipe is a tuple of one: packs have several.

    Args:
        manifest: the items.
        index: where they lie.
        about: what recipes have to know of the source; handed on with each record.
        counted: whether the index has the number of tokens that are trained.
    """

    def __init__(self, manifest: Manifest, index: SourceIndex, about: Any, *, counted: bool = False) -> None:
        self._manifest = manifest
        self._index = index
        self.about = about
        self.counted = counted
        self._resident: LruCache[int, Sequence[Extent]] = LruCache(_KEPT_GROUPS)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(RecordReader, counted=self.counted), (self._manifest, self._index, self.about)

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [each.file.extents(np.array([each.place])) for each in self.locate_all(uses)]

    def group_bytes(self, source: int) -> Ints:  # noqa: ARG002  # there is one source
        return self._index.group_bytes()

    def resident(self, source: int, group: int) -> Sequence[Extent]:  # noqa: ARG002  # there is one source
        if group + 1 >= len(self._index.starts(0)):  # a growing index that has no such group yet
            self._index.open_stores()
            return ()
        return self._resident.get_or_make(group, lambda: self._extents(group))

    def _extents(self, group: int) -> Sequence[Extent]:
        first = self._index.locate(group, 0)
        places = self._index.places(group)
        return first.file.extents(places)

    def locate_all(self, uses: Uses) -> list[Located]:
        """Return where items lie. What is known of a segment is on the shelf: this does not wait for a store."""
        items = uses.row - self._index.firsts(uses.group)
        pairs = zip(uses.group.tolist(), items.tolist(), strict=True)
        return [self._index.locate(group, item) for group, item in pairs]

    def locate(self, uses: Uses) -> list[Located | ContentError]:
        return list(self.locate_all(uses))

    def read(self, places: Sequence[Located]) -> list[tuple[Record, ...] | ContentError]:
        return [(Record(self.about, place),) for place in places]

    def names(self, uses: Uses) -> list[str]:
        items = uses.row - self._index.firsts(uses.group)
        pairs = zip(uses.group.tolist(), items.tolist(), strict=True)
        return [str(self._index.row(group, item)) for group, item in pairs]

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        """Return the tokens that are trained."""
        items = uses.row - self._index.firsts(uses.group)
        found = np.zeros(len(items), dtype=np.int64)
        for group in np.unique(uses.group).tolist():
            here = uses.group == group
            found[here] = self._index.labels(group)[items[here]]
        return {"label_tokens": found}

    def find(self, name: str, epoch: int) -> list[int]:  # noqa: ARG002  # the same in every epoch
        path, _, row = name.rpartition(":")
        return self._index.find(path, int(row)) if row.isdecimal() else []

    def close(self) -> None:
        self._index.close()
