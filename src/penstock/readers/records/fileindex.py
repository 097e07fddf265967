"""The index of one file, segment by segment, cached on disk by the file's version and what verdicts depend on.

The first process that needs a segment makes it, under a lock; others wait, and read it. An index with lengths also
serves runs that need none: both have the same items. Tokens and the like are kept item by item; see ``keptitems``.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.manifest.publish import locked
from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import MetadataCache, ObjectVersion, make_folder
from penstock.readers.ranges import Ranges
from penstock.readers.records.files.recordfile import RecordFile
from penstock.readers.records.judging import (
    Judge,
    Judged,
    SegmentIndex,
    index_segment,
    segment_bytes,
    segment_from,
)
from penstock.readers.records.keptitems import KeptItems, file_key
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.lockwait import lock_in_time
from penstock.store.cache.store import CacheBackedStore

_KEPT_SEGMENTS = 8  # of a source: groups are kept apart
_VERDICTS = "verdicts"
_LENGTHS = "lengths"
_HASHES = "sha256 of records 1"


@dataclass(frozen=True)
class Summary:
    """Totals of the known segments of a file.

    Attributes:
        records: Number of records per segment.
        items: Number of items per segment.
        marks: Mark per segment, by which the next one is found; None for the last segment of the file.
        tokens: Number of tokens of all items; 0 if they were not counted.
        reasons: Number of records that are no items, by reason.
        losses: Number of items that lack something which their records have, by what that is.
    """

    records: tuple[int, ...] = ()
    items: tuple[int, ...] = ()
    marks: tuple[int | None, ...] = ()
    tokens: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all segments of the file are known."""
        return self.marks[-1:] == (None,)

    def with_segment(self, index: SegmentIndex) -> "Summary":
        return Summary(
            (*self.records, index.records),
            (*self.items, index.items),
            (*self.marks, index.mark),
            self.tokens + int(index.lengths.sum()),
            dict(Counter(self.reasons) + Counter(index.reasons)),
            dict(Counter(self.losses) + Counter(index.losses)),
        )

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> "Summary":
        about = json.loads(data)
        return cls(
            records=tuple(about["records"]),
            items=tuple(about["items"]),
            marks=tuple(about["marks"]),
            tokens=about["tokens"],
            reasons=about["reasons"],
            losses=about.get("losses", {}),
        )


class FileIndex:
    """The index of one file. Any number of threads and processes may use it.

    Args:
        file: File to index.
        ranges: Knows the version of the file.
        judge: Decides which records are items.
        metadata: Folder of the metadata cache.
        segments: Latest segments of all files, in memory.
        medium: Column that gets the paths of media; see ``judging.with_media``.
        known: Totals, as far as they are known without the metadata cache.
        known_segment: Returns a segment as bytes; None if it is in the metadata cache.
        must_keep: Whether a segment without kept data, such as tokens, is made again, if the judge keeps any. If not,
            data is kept of segments that are made anyway, while the disk has room.
    """

    def __init__(
        self,
        file: RecordFile,
        ranges: Ranges,
        judge: Judge,
        metadata: Path,
        segments: "LruCache[tuple[str, int], SegmentIndex]",
        medium: str,
        known: Summary,
        known_segment: Callable[[int], memoryview | None],
        must_keep: bool,
    ) -> None:
        self.file = file
        self._ranges = ranges
        self._judge = judge
        self._must_keep = judge.keeps and must_keep
        self._folder = metadata
        self._segments = segments
        self.medium = medium
        layout = f"{file.layout} of {medium}" if medium else file.layout
        self._about = f"{layout} {judge.key}"
        self._depths = (_LENGTHS,) if judge.counts else (_VERDICTS, _LENGTHS)
        self.kept_items = KeptItems(metadata, self._about, self._subject)
        self._known = known
        self._known_segment = known_segment

    def summary(self) -> Summary:
        """Return the totals of the segments that are known so far."""
        if not self._known.complete:
            subject = self._subject()
            for depth in self._depths:
                kept = self._metadata("summary", depth).get(subject)
                known = Summary.from_json(bytes(kept)) if kept is not None else Summary()
                if len(known.items) > len(self._known.items):
                    self._known = known
        return self._known

    def segment(self, number: int) -> SegmentIndex:
        """Return a known segment, or make the one after the last known. May wait."""
        return self._segment(number, None)

    def _segment(self, number: int, judged: Judged | None) -> SegmentIndex:
        return self._segments.get_or_make((self.file.path, number), lambda: self._find(number, judged))

    def extend(self, judged: Judged) -> Summary:
        """Add the next segment, unless another process just did. Return the new totals.

        Args:
            judged: Called now and then while the segment is made.
        """
        before = len(self._known.items)
        with self._alone():
            if len(self.summary().items) == before and not self._known.complete:
                self._known = self._known.with_segment(self._segment(before, judged))
                with suppress(OSError):  # on a full disk every process makes its own
                    self._metadata("summary", self._depths[0]).put(self._subject(), self._known.as_json().encode())
                if self._known.complete:
                    self._ranges.keep_version(self.file.path)
        return self._known

    def make_all(self, judged: Judged | None) -> tuple[Summary, list[bytes]]:
        """Return the totals of the file, and all its segments as bytes. Neither is cached.

        Args:
            judged: Called now and then.
        """
        summary = Summary()
        segments: list[bytes] = []
        while not summary.complete:
            mark = summary.marks[-1] if segments else 0
            assert mark is not None
            made = index_segment(self.file, len(segments), mark, self._judge, self.medium, judged)
            summary = summary.with_segment(made)
            segments.append(segment_bytes(made))
        self._ranges.keep_version(self.file.path)
        return summary, segments

    def make(self, number: int, mark: int, judged: Judged | None = None) -> SegmentIndex:
        """Return a segment from the metadata cache, or make it. If another process is making it, wait for that."""
        known = self._saved_segment(number)
        if known is not None:
            return known
        make_folder(self._folder)
        with LockedFile(self._folder / f".{self._lock_name()}.segments", os.O_RDWR | os.O_CREAT) as lock:
            what = f"the index of {self.file.path}, segment {number}"
            lock_in_time(lock, number, lambda: self._saved_segment(number) is not None, what)
            known = self._saved_segment(number)
            return self._make(number, mark, judged) if known is None else known

    def is_saved(self, number: int) -> bool:
        """Return whether a segment is in the metadata cache, with the kept data that its items should have."""
        return self._saved_segment(number) is not None

    def _saved_segment(self, number: int) -> SegmentIndex | None:
        """Return a saved segment; None if it, or kept data that its items should have, is missing."""
        subject = self._subject()
        for depth in self._depths:
            kept = self._known_segment(number) or self._metadata(f"segment {number}", depth).get(subject)
            if kept is not None:
                known = segment_from(kept)
                if not self._must_keep or self.kept_items.has(number, known.items):
                    return known
        return None

    def _make(self, number: int, mark: int, judged: Judged | None) -> SegmentIndex:
        index = index_segment(self.file, number, mark, self._judge, self.medium, judged)
        with suppress(OSError):
            if self._must_keep or (self._judge.keeps and self.kept_items.has_room()):
                self.kept_items.put(number, index.kept)
            self._metadata(f"segment {number}", self._depths[0]).put(self._subject(), segment_bytes(index))
        return index.without_kept()

    def lacks(self) -> list[int]:
        """Return the known segments whose items should have kept data, and have none."""
        if not self._must_keep:
            return []
        return [number for number, items in enumerate(self.summary().items) if not self.kept_items.has(number, items)]

    def hashes(self, number: int) -> memoryview | None:
        """Return the SHA-256 of every item of a segment, concatenated; None if they were not computed."""
        return self._metadata(_HASHES, f"segment {number}").get(self._subject())

    def put_hashes(self, number: int, digests: bytes) -> None:
        """Keep the SHA-256 of every item of a segment."""
        self._metadata(_HASHES, f"segment {number}").put(self._subject(), digests)

    def remote_version(self) -> str:
        """Return the version (ETag) of the file in its remote store; empty for a local file. May ask the store."""
        return self._subject().version if isinstance(self._ranges.open_store(), CacheBackedStore) else ""

    def kept_bytes(self) -> int:
        """Return the size of what is kept of the known items, such as their tokens."""
        return sum(self.kept_items.size(segment) for segment in range(len(self.summary().items)))

    def _find(self, number: int, judged: Judged | None) -> SegmentIndex:
        mark = self.summary().marks[number - 1] if number else 0
        assert mark is not None
        return self.make(number, mark, judged)

    def _subject(self) -> ObjectVersion:
        return self._ranges.object_version(self.file.path)

    def _metadata(self, what: str, depth: str) -> MetadataCache:
        return MetadataCache(self._folder, f"{what}, {depth} of {self._about}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock under which one process at a time extends the index of a file."""
        make_folder(self._folder)
        with locked(self._folder / f".{self._lock_name()}.lock"):
            yield

    def _lock_name(self) -> str:
        return hashlib.sha256(f"{file_key(self._subject())} {self._about}".encode()).hexdigest()[:24]


def new_segments() -> "LruCache[tuple[str, int], SegmentIndex]":
    """Return an empty cache of segments."""
    return LruCache(_KEPT_SEGMENTS)
