"""Tar shards by the naming rules of WebDataset; see ``recordfile.RecordFile``. The files of a sample are a record.

clip7.json  {"question": …}     the keys of a JSON file are those of the record
clip7.txt   some words          a text file is its content, under its extension
clip7.jpg   …                   other files are ``{"bytes": …, "path": …}``, under their extension and under the kind
                                of medium: ``image``, ``video`` or ``audio``
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.blobs import OpenBlobs
from penstock.readers.kept import Kept
from penstock.readers.records.content import BadRecord
from penstock.readers.records.layouts import parse_json
from penstock.readers.records.recordfile import Place, Segment
from penstock.readers.shelf import Shelf, Subject
from penstock.readers.tar.indexbytes import KIND, index_bytes, index_from
from penstock.readers.tar.samples import scan
from penstock.readers.tar.shardindex import TarIndex
from penstock.store.blob import Store
from penstock.store.extents import Extent, Unit

_TEXTS = ("txt", "text", "caption", "cls")
_MEDIA = {
    "image": ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"),
    "video": ("mp4", "avi", "mov", "mkv", "webm"),
    "audio": ("wav", "flac", "mp3", "ogg", "opus", "m4a"),
}
KINDS = {extension: kind for kind, extensions in _MEDIA.items() for extension in extensions}
_KEPT_INDEXES = 256


class TarShards:
    """The shards of a store: their indexes, and their open files.

    Args:
        open_store: opens the store.
        shelf: the folder of what was learnt about shards.
    """

    def __init__(self, open_store: Callable[[], Store], shelf: Path) -> None:
        self._open_store = open_store
        self._shelf = Shelf(shelf, KIND)
        self._indexes: Kept[str, TarIndex] = Kept(_KEPT_INDEXES)
        self.blobs = OpenBlobs(open_store)

    def index(self, path: str) -> TarIndex:
        """Return the index of a shard. May wait, and scan it.

        Raises:
            ContentError: If the shard is damaged.
        """
        return self._indexes.get_or_make(path, lambda: self._learn(path))

    def unit(self, path: str) -> Unit:
        return Unit(self._open_store(), path)

    def _learn(self, path: str) -> TarIndex:
        blob = self.blobs.get(path)
        about = Subject(self._open_store().identity, path, blob.version)
        kept = self._shelf.get(about)
        if kept is not None:
            return index_from(kept, path)
        index = TarIndex.of(scan(blob, path), path)
        with suppress(OSError):  # on a full disk: other processes scan for themselves
            self._shelf.put(about, index_bytes(index))
        return index


class TarRecords:
    """One shard. A place is the number of a sample, and 0."""

    layout = "tar-1"

    def __init__(self, path: str, shards: TarShards) -> None:
        self.path = path
        self._shards = shards

    def segment(self, number: int, mark: int) -> Segment:  # noqa: ARG002  # a shard is one segment
        count = len(self._shards.index(self.path).keys)
        return Segment(np.stack([np.arange(count), np.zeros(count, np.int64)], axis=1), None)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:  # noqa: ARG002
        for number, _ in places.tolist():
            try:
                yield self._record(number, with_media=False)
            except BadRecord as error:
                yield error

    def load(self, place: Place) -> dict[str, Any]:
        return self._record(place[0], with_media=True)

    def _record(self, number: int, with_media: bool) -> dict[str, Any]:
        index = self._shards.index(self.path)
        key = index.keys[number].as_py()
        record: dict[str, Any] = {"__key__": key}
        here = range(int(index.starts[number]), int(index.starts[number + 1]))
        for member in here:
            extension = index.places.extensions[index.places.ext[member]]
            last = extension.rpartition(".")[2]
            if last in KINDS and not with_media:
                medium: dict[str, Any] = {"bytes": None, "path": f"{key}.{extension}"}
            else:
                data = self._read(int(index.places.offset[member]), int(index.places.size[member]))
                medium = {"bytes": data, "path": f"{key}.{extension}"}
                if last == "json":
                    record |= parse_json(data)
                    continue
                if last in _TEXTS:
                    record[extension] = _text(data)
                    continue
            record[extension] = medium
            if last in KINDS:
                record.setdefault(KINDS[last], medium)
        return record

    def _read(self, offset: int, size: int) -> bytes:
        data = bytearray(size)
        if size:
            self._shards.blobs.get(self.path).readinto(memoryview(data), offset)
        return bytes(data)

    def count(self) -> int | None:
        return 1

    def extents(self, places: Ints) -> Sequence[Extent]:  # noqa: ARG002
        return (Extent(self._shards.unit(self.path), 0),)

    def close(self) -> None:
        self._shards.blobs.close()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRecord("not UTF-8") from None
