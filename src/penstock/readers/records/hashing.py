"""SHA-256 of records, made by ``penstock index --sha256``, and what else identifies their content.

The hash is that of the record as JSON, whatever the format and compression of its file. Media that a record only names
are not part of it.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.readers.lrucache import LruCache
from penstock.readers.reader import Evidence
from penstock.readers.records.files.recordfile import BadRecord, Columns
from penstock.readers.records.record import Record, RecordGroup
from penstock.readers.records.sourceindex import SourceIndex

_KEPT_SEGMENTS = 256
_DIGEST_BYTES = hashlib.sha256().digest_size
_UNREADABLE = bytes(_DIGEST_BYTES)

Hashes = NDArray[np.uint8]
"""Hashes of the items of a segment, shape (n, 32)."""


def record_digest(record: Columns) -> bytes:
    """Return the SHA-256 of a record as JSON, with sorted keys and without spaces.

    Bytes count as ``{"sha256": …}``, other values that JSON does not have by their text.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).digest()


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"sha256": hashlib.sha256(value).hexdigest()}
    return str(value)


def unhashed(index: SourceIndex) -> Iterator[int]:
    """Yield the first group of every segment whose records have no hashes yet. The index must be complete."""
    before: tuple[str, int] | None = None
    for number in range(len(index.starts(0)) - 1):
        group = index.group(number)
        here = (group.path, group.segment)
        if here != before and _known(group) is None:
            yield number
        before = here


def hash_segment(index: SourceIndex, number: int) -> None:
    """Hash the records of the segment that contains a group, and keep the hashes."""
    group = index.group(number)
    of_file = group.file_index
    mark = of_file.summary().marks[group.segment - 1] if group.segment else 0
    assert mark is not None
    places = of_file.file.segment(group.segment, mark).places
    is_item = np.zeros(len(places), dtype=bool)
    is_item[of_file.segment(group.segment).rows] = True
    records = zip(is_item.tolist(), of_file.file.whole_records(places), strict=True)
    digests = [
        _UNREADABLE if isinstance(record, BadRecord) else record_digest(record) for keep, record in records if keep
    ]
    of_file.put_hashes(group.segment, b"".join(digests))


def _known(group: RecordGroup) -> Hashes | None:
    """Return the hashes of the segment that contains a group; None if they are missing."""
    data = group.file_index.hashes(group.segment)
    if data is None or len(data) < _DIGEST_BYTES * (group.first + len(group.places)):
        return None
    return np.frombuffer(data, np.uint8).reshape(-1, _DIGEST_BYTES)


class RecordContents:
    """What identifies the content of the records of a source; see ``BaseReader.contents``.

    Args:
        index: Index of the source.
    """

    def __init__(self, index: SourceIndex) -> None:
        self._index = index
        self._segments: LruCache[tuple[str, int], Hashes] = LruCache(_KEPT_SEGMENTS)
        self._versions: dict[str, str] = {}

    def evidence(self) -> tuple[Evidence, ...]:
        """Return what is known of the first record; the rest is asked when it is needed."""
        self._index.starts(1)
        first = self._index.group(0)
        hashed: tuple[Evidence, ...] = () if _known(first) is None else ("sha256",)
        return (*hashed, "version") if self._version(first) else hashed

    def of(self, records: Sequence[Record], evidence: Evidence) -> str:
        """Return what identifies the content of the records of a sample.

        Raises:
            ManifestError: If a record was not hashed.
        """
        if evidence == "version":
            return ",".join(dict.fromkeys(self._version(record.group) for record in records))
        return ",".join([self._hash(record) for record in records])

    def _hash(self, record: Record) -> str:
        group = record.group
        hashes = self._segments.get_or_make((group.path, group.segment), lambda: self._load(group))
        return bytes(hashes[group.first + record.item]).hex()

    def _load(self, group: RecordGroup) -> Hashes:
        found = _known(group)
        if found is None:
            raise ManifestError(
                f"{group.path}: has records without a SHA-256; run penstock index CONFIG --sha256 again"
            )
        return found

    def _version(self, group: RecordGroup) -> str:
        if group.path not in self._versions:
            self._versions[group.path] = group.file_index.remote_version()
        return self._versions[group.path]
