"""Manifests of other speech loaders -> rows to index: NeMo's tarred datasets and Lhotse Shar. Opens no tar shard.

Both keep texts and durations beside their tar shards, in JSON lines:

    NeMo    manifest.json              {"audio_filepath": "a.wav", "duration": 3.1, "text": "…", "shard_id": 0, …}
            audio_0.tar                a.wav, in any folder; rows with an ``offset`` are segments of one file,
                                       also as ``a-sub1.wav``
    Shar    cuts.000000.jsonl.gz       {"id": "a", "duration": 3.1, "supervisions": [{"text": "…", …}], …}
            recording.000000.tar       a.flac, a.json

The fields of a row take the place of the sample's .json.
"""

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.manifest.errors import ManifestError, Problems
from penstock.readers.sidecars import field_text, no_texts
from penstock.readers.tar.explain import MAX_SECONDS
from penstock.readers.tar.layout import SEGMENT, Shard
from penstock.readers.tar.samples import split_at_last_dot
from penstock.readers.tar.writer import ItemTable
from penstock.runtime.jsontext import load_json
from penstock.store.blob import Store, read_object

_SEGMENT_OF = re.compile(r"(.+)-sub\d+$")
_NUMBER = re.compile(r"(\d+)\.(?:tar|json|jsonl)$")


class DescribedItems(NamedTuple):
    """Rows to index.

    Attributes:
        rows: Rows.
        without_text: Number of rows that were left out, as they have no text.
    """

    rows: ItemTable
    without_text: int


def read_nemo(manifests: Sequence[str | Path], tars: Collection[str], text_field: str | None = None) -> DescribedItems:
    """Return the rows of manifests of a NeMo tarred dataset.

    Args:
        manifests: Manifest of all shards, or manifests of single shards, which have the number of their shard.
        tars: Paths of all tar shards, whose names end in their number.
        text_field: Field that holds the text; rows without one are left out. None to keep all.

    Raises:
        ManifestError: If a row can't be used; the message lists all problems.
    """
    numbered = _numbered(tars)
    rows = DescribedRows(str(manifests[0]), text_field)
    for path in manifests:
        own = _NUMBER.search(str(path))
        with open(path, "rb") as lines:
            for number, row in rows.objects(lines, str(path)):
                where = f"{path}:{number}"
                shard = row.get("shard_id", int(own[1]) if own else None)
                file = row.get("audio_filepath") or row.get("audio_file")
                if not isinstance(file, str) or not file:
                    rows.problem(where, "has no audio_filepath")
                elif shard not in numbered:
                    rows.problem(where, f"is in shard {shard}, and no tar shard has this number")
                else:
                    name = (split_at_last_dot(PurePosixPath(file).name) or (PurePosixPath(file).name,))[0]
                    segment = None if row.get("offset") is None else (row["offset"], row.get("duration"))
                    inside = _SEGMENT_OF.match(name) if segment else None  # without offset, a file of its own
                    source = row.get("lang") or row.get("language")
                    rows.add(where, numbered[shard], name, inside[1] if inside else name, source, row, segment)
    return DescribedItems(replace(rows.table(), without_folders=True), rows.without_text)


def read_shar(store: Store, tars: Collection[str], text_field: str | None = None) -> DescribedItems:
    """Return the cuts of a Lhotse Shar folder.

    Args:
        store: Store of the folder.
        tars: Paths of all tar shards. The cuts of ``recording.000000.tar`` are in ``cuts.000000.jsonl.gz`` beside it.
        text_field: Field that holds the text; cuts without one are left out. None to keep all.

    Raises:
        ManifestError: If a cut can't be used; the message lists all problems.
    """
    recordings = sorted(path for path in tars if PurePosixPath(path).name.startswith("recording"))
    if not recordings:
        raise ManifestError("there is no recording*.tar; name the folder of the Shar data")
    rows = DescribedRows(recordings[0], text_field)
    for tar in recordings:
        folder, slash, name = tar.rpartition("/")
        path = f"{folder}{slash}cuts{name.removeprefix('recording').removesuffix('.tar')}.jsonl.gz"
        try:
            lines = _lines(store, path)
        except FileNotFoundError:
            rows.problem(tar, f"there is no {path} beside it")
            continue
        for number, cut in rows.objects(lines, path):
            _add_cut(rows, f"{path}:{number}", tar, cut)
    return DescribedItems(rows.table(), rows.without_text)


def _add_cut(rows: "DescribedRows", where: str, tar: str, cut: Mapping[str, Any]) -> None:
    name = cut.get("id")
    spoken = cut.get("supervisions") or []
    if not isinstance(name, str) or not name:
        rows.problem(where, "has no id")
        return
    if not isinstance(spoken, list) or not all(isinstance(each, dict) for each in spoken):
        rows.problem(where, "its supervisions are no list of objects")
        return
    first = spoken[0] if spoken else {}
    fields = {**(first.get("custom") or {}), **(cut.get("custom") or {})}
    fields |= {key: first[key] for key in ("speaker", "language", "gender") if first.get(key) is not None}
    texts = [each["text"] for each in spoken if isinstance(each.get("text"), str)]
    if texts:
        fields["text"] = " ".join(texts)
    rows.add(where, tar, name, name, first.get("language"), {**fields, "duration": cut.get("duration")}, None)


def _lines(store: Store, path: str) -> list[bytes]:
    try:
        return gzip.decompress(read_object(store, path)).splitlines()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ManifestError(f"{path}: is not complete gzip data: {error}") from None


def _numbered(tars: Collection[str]) -> dict[int, str]:
    """Return tar shards by the number at the end of their names."""
    found: dict[int, str] = {}
    for path in sorted(tars):
        number = _NUMBER.search(path)
        if number is None:
            continue
        if int(number[1]) in found:
            raise ManifestError(
                f"{path} and {found[int(number[1])]} have the same number; name the shards of one dataset only"
            )
        found[int(number[1])] = path
    return found


class DescribedRows:
    """Rows in the making, and what is wrong with them.

    Args:
        name: Name of the rows, for messages.
        text_field: Field that holds the text; rows without one are left out. None to keep all.
        loose: Whether shards are loose files, which say themselves how long they are.
    """

    def __init__(self, name: str, text_field: str | None, *, loose: bool = False) -> None:
        self._loose = loose
        self.without_text = 0
        self._text_field = text_field
        self._problems = Problems(name)
        self._columns: dict[str, list[Any]] = {name: [] for name in ("shard", "id", "key", "source", "seconds")}
        self._fields: list[bytes] = []
        self._known: set[tuple[str, str]] = set()

    def problem(self, where: str, reason: str) -> None:
        """Add a problem of a row."""
        self._problems.add("row", where, reason)

    def objects(self, lines: Iterable[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number and the value of every line that is not blank."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = load_json(line)
            except ValueError as error:
                self.problem(f"{name}:{number}", f"is not JSON: {error}")
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                self.problem(f"{name}:{number}", "is not a JSON object")

    def add(
        self,
        where: str,
        shard: str,
        name: str,
        key: str,
        source: object,
        fields: dict[str, Any],
        segment: tuple[Any, Any] | None,
    ) -> None:
        """Add a row.

        Args:
            where: File and line.
            shard: Path of the tar shard.
            name: Id of the item.
            key: Key of the sample in the shard.
            source: Name of the source; by default that of the shard's folder.
            fields: Fields of the row, with its ``duration``.
            segment: Start and duration of the item in the file, in seconds; None for the whole file.
        """
        if self._text_field is not None and not _has_text(fields, self._text_field):
            self.without_text += 1
            return
        seconds = fields.get("duration")
        if seconds is None and self._loose:
            seconds = 0.0
        elif not _is_time(seconds) or not seconds:
            self.problem(where, f"its duration is {seconds!r}, not a number of seconds")
            return
        if segment is not None and not _is_time(segment[0]):
            self.problem(where, f"its offset is {segment[0]!r}, not a number of seconds")
            return
        if (shard, name) in self._known and segment is not None:
            name = f"{name}@{segment[0]}"
        if (shard, name) in self._known:
            self.problem(where, f"{name} is there twice")
            return
        self._known.add((shard, name))
        source = source if isinstance(source, str) and source else PurePosixPath(shard).parent.name or "default"
        for column, value in zip(self._columns.values(), (shard, name, key, source, seconds), strict=True):
            column.append(value)
        self._fields.append(json.dumps(fields | ({SEGMENT: segment} if segment else {})).encode())

    def table(self) -> ItemTable:
        """Return all rows.

        Raises:
            ManifestError: If there were problems.
        """
        if self._problems:
            raise self._problems.error()
        if self.without_text and not self._fields:
            raise no_texts(self._problems.name, self.without_text)
        shards, shard = np.unique(self._columns["shard"], return_inverse=True)
        sources, source = np.unique(self._columns["source"], return_inverse=True)
        return ItemTable(
            pa.array(self._columns["id"], type=pa.large_string()),
            np.array(self._columns["seconds"], dtype=np.float64),
            shard.astype(np.int32),
            source.astype(np.int32),
            [Shard(path, None, None) for path in shards.tolist()],
            sources.tolist(),
            keys=pa.array(self._columns["key"], type=pa.large_string()),
            fields=pa.array(self._fields, type=pa.large_binary()),
        )


def _is_time(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= MAX_SECONDS


def _has_text(fields: Mapping[str, Any], name: str) -> bool:
    try:
        field_text(fields, name)
    except ValueError:
        return False
    return True
