"""Whole records by row, read as a feed reads them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from penstock.readers.errors import ContentError
from penstock.readers.reader import Uses
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import Place, TarReader
from penstock.store.blob import Store


def reader_of(store: Store, manifest: TarManifest, files: Sequence[str] | None = None) -> TarReader:
    return TarReader(manifest, lambda: store, files)


def uses_of(manifest: TarManifest, rows: ArrayLike) -> Uses:
    """Return the first use of each row."""
    numbers = np.atleast_1d(np.asarray(rows, dtype=np.int64))
    source, group, _ = manifest.locate(numbers)
    first = np.zeros_like(numbers)
    return Uses(source, group, numbers, first, first, first.astype(np.uint64))


def place_of(reader: TarReader, manifest: TarManifest, row: int) -> Place:
    """Return the place of an item. Raises its error, if it has one."""
    [place] = reader.locate(uses_of(manifest, row))
    if isinstance(place, ContentError):
        raise place
    return place


def read_record(reader: TarReader, manifest: TarManifest, row: int) -> dict[str, bytes]:
    """Return the files of an item by extension."""
    [record] = reader.read([place_of(reader, manifest, row)])
    assert not isinstance(record, ContentError)
    return {extension: file.read() for extension, file in record.items()}
