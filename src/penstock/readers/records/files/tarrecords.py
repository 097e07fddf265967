"""Tar shards by the naming rules of WebDataset; see ``recordfile.RecordFile``. The files of a sample are a record.

clip7.json  {"question": …}     the keys of a JSON file are those of the record, also of clip7.more.json
clip7.txt   some words          a text file is its content, under its extension
clip7.jpg   …                   other files are ``{"bytes": …, "path": …}``, under their extension and under the kind
                                of medium: ``image``, ``video`` or ``audio``, unless a JSON file has that key

Two files that give a column different values make a bad record.

Headers are walked segment by segment: the first records of a large shard are found soon. A segment has samples that
begin within a mebibyte, the next within twice as many as the one before, up to a gibibyte, and 8,192 samples at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.records.files.filebytes import STRIDE_BYTES, FileBytes
from penstock.readers.records.files.jsonfile import parse_json
from penstock.readers.records.files.recordfile import (
    RECORD_BYTES,
    TOO_LONG,
    BadRecord,
    Columns,
    FileSegment,
    Place,
    RecordFile,
    Weight,
)
from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.samples import SCAN_SPAN, group, is_text, split_name
from penstock.readers.window import Window
from penstock.store.extents import Extent

_TEXTS = ("txt", "text", "caption", "cls")
_MEDIA = {
    "image": ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"),
    "video": ("mp4", "avi", "mov", "mkv", "webm"),
    "audio": ("wav", "flac", "mp3", "ogg", "opus", "m4a"),
}
KINDS = {extension: kind for kind, extensions in _MEDIA.items() for extension in extensions}
_FIRST_BYTES = 1 << 20
_DOUBLINGS = 10
_MOST_SAMPLES = 8_192  # of a segment


class TarRecords(RecordFile):
    """One shard. A place is the first byte of a sample's headers, and the byte after its last file.

    Args:
        content: Content of the shard.
    """

    layout = "tar-3"

    def __init__(self, content: FileBytes) -> None:
        self.path = content.path
        self._content = content

    def segment(self, number: int, mark: int) -> FileSegment:
        limit = mark + (_FIRST_BYTES << min(number, _DOUBLINGS))
        places: list[Place] = []
        following: int | None = None
        start = mark
        for sample in group(self._entries(mark)):
            last = sample.members[-1]
            end = TarEntry("", last.offset, last.size).after
            if is_text(sample.key):
                places.append((start, end))
            start = end
            if start >= limit or len(places) == _MOST_SAMPLES:
                following = start  # where there may be nothing: that is seen when somebody comes to it
                break
        return FileSegment(np.array(places, dtype=np.int64).reshape(-1, 2), following)

    def _entries(self, start: int) -> Iterator[TarEntry]:
        return walk(Window(_Bytes(self._content, 0, self._content.size()), SCAN_SPAN), self.path, start)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:  # noqa: ARG002
        return self._records(places, with_media=False)

    def whole_records(self, places: Ints) -> Iterator[Columns | BadRecord]:
        return self._records(places, with_media=True)

    def _records(self, places: Ints, with_media: bool) -> Iterator[Columns | BadRecord]:
        for start, end in places.tolist():
            try:
                yield self._record((start, end), with_media)
            except BadRecord as error:
                yield error

    def load(self, place: Place) -> Columns:
        return self._record(place, with_media=True)

    def _record(self, place: Place, with_media: bool) -> Columns:
        start, end = place
        record: Columns = {}
        defaults: Columns = {}
        for entry in self._entries(start):
            for name, value in self._columns(entry, with_media, defaults):
                if record.get(name, value) != value:
                    raise BadRecord(f"two files of a sample have different values of {name[:40]!r}")
                record[name] = value
            if entry.after >= end:
                break
        return defaults | record

    def _columns(self, entry: TarEntry, with_media: bool, defaults: Columns) -> Iterable[tuple[str, Any]]:
        """Return the columns of a file of a sample. Those that other files may override go into ``defaults``."""
        named = split_name(entry.name)
        if named is None:
            return ()
        key, extension = named
        defaults["__key__"] = key
        last = extension.rpartition(".")[2]
        if last == "json":
            return parse_json(self._text_bytes(entry)).items()
        if last in _TEXTS:
            return [(extension, _text(self._text_bytes(entry)))]
        is_read = with_media or last not in KINDS
        data = self._read(entry) if is_read else _Bytes(self._content, entry.offset, entry.size)
        medium = {"bytes": data, "path": f"{key}.{extension}"}
        if last in KINDS:
            defaults.setdefault(KINDS[last], medium)
        return [(extension, medium)]

    def _text_bytes(self, entry: TarEntry) -> bytes:
        if entry.size > RECORD_BYTES:
            raise BadRecord(TOO_LONG)
        return self._read(entry)

    def _read(self, entry: TarEntry) -> bytes:
        return self._content.read(entry.offset, entry.offset + entry.size).tobytes()

    def extents(self, places: Ints) -> Sequence[Extent]:
        return self._content.extents(int(places[0, 0]), int(places[-1, 1]))

    def weight(self) -> Weight:
        return Weight(self._content.cached_size(), STRIDE_BYTES)


class _Bytes(NamedTuple):
    """Bytes of a shard that are read on demand: the whole shard as a blob, or one medium."""

    content: FileBytes
    start: int
    size: int
    version: str = ""

    def readinto(self, buffer: memoryview, offset: int) -> None:
        at = self.start + offset
        buffer[:] = self.content.read(at, at + len(buffer)).data

    def close(self) -> None:
        """Do nothing: the content holds nothing open."""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRecord("not UTF-8") from None
