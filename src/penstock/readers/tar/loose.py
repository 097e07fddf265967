"""Speech corpora of loose files -> rows to index: LibriSpeech, Common Voice, Kaldi. Opens no sound file.

    LibriSpeech     dev-clean/2412/153948/2412-153948.trans.txt     2412-153948-0001 AND SO ON
                    dev-clean/2412/153948/2412-153948-0001.flac
    Common Voice    en/train.tsv                                    client_id, path, sentence, …, locale, segment
                    en/clip_durations.tsv                           clip, duration[ms]; may be missing
                    en/clips/common_voice_en_651325.mp3
    Kaldi           wav.scp, segments, text, utt2spk                only the first must be there

Texts, speakers and other fields take the place of a sample's .json.
"""

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.readers.tar.described import DescribedItems, DescribedRows
from penstock.readers.tar.layout import Shard
from penstock.readers.tar.shardreader import SOUNDS
from penstock.readers.tar.writer import ItemTable
from penstock.runtime.engines.engine import ThreadEngine
from penstock.store.blob import Store, read_object

_TRANSCRIPTS = ".trans.txt"
_AT_ONCE = 16  # transcripts of LibriSpeech that are read at the same time


def read_librispeech(
    store: Store,
    paths: Collection[str],
    name: str,
    text_field: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DescribedItems:
    """Return the utterances of a folder of LibriSpeech. Their sources are its subsets, such as ``dev-clean``.

    Args:
        store: Store of the folder.
        paths: Paths of all files.
        name: Name of the folder: the source, if the folder is a subset.
        text_field: Field that holds the text; utterances without one are left out. None to keep all.
        progress: Function called with the number of chapters that were read, and of all.

    Raises:
        ManifestError: If an utterance can't be used; the message lists all problems.
    """
    known = set(paths)
    chapters = sorted(path for path in known if path.endswith(_TRANSCRIPTS))
    if not chapters:
        raise ManifestError(f"{name}: there is no *{_TRANSCRIPTS}; name a folder of LibriSpeech")
    rows = DescribedRows(name, text_field, loose=True)
    texts: dict[str, bytes] = {}
    for outcome in ThreadEngine(_AT_ONCE).map(lambda path: read_object(store, path), chapters):
        texts[outcome.task] = outcome.get()
        if progress is not None:
            progress(len(texts), len(chapters))
    for chapter in chapters:
        folders = ["", "", "", *chapter.split("/")[:-1]][-3:]
        for where, line in _lines(rows, chapter, texts.pop(chapter)):
            utterance, _, text = line.partition(" ")
            stem = posixpath.join(posixpath.dirname(chapter), utterance)
            file = next((path for kind in SOUNDS if (path := f"{stem}.{kind}") in known), None)
            if file is None:
                rows.problem(where, f"there is no {utterance}.flac beside it")
                continue
            fields = {"text": text.strip(), "speaker": folders[1], "chapter": folders[2]}
            rows.add(where, file, utterance, file, folders[0] or name, fields, None)
    return _described(rows)


def read_commonvoice(
    store: Store, paths: Collection[str], tables: Sequence[str], name: str, text_field: str | None = None
) -> DescribedItems:
    """Return the clips of tables of Common Voice. Their sources are their locales.

    ``sentence``, ``client_id`` and ``locale`` become ``text``, ``speaker`` and ``language``; other columns keep their
    names.

    Args:
        store: Store of the folder.
        paths: Paths of all files.
        tables: Paths of the tables, which have ``clips`` beside them.
        name: Name of the folder: the source of tables without locales.
        text_field: Field that holds the text; clips without one are left out. None to keep all.

    Raises:
        ManifestError: If a clip can't be used; the message lists all problems.
    """
    known = set(paths)
    rows = DescribedRows(tables[0], text_field, loose=True)
    for table in tables:
        folder = posixpath.dirname(table)
        measured = posixpath.join(folder, "clip_durations.tsv")
        seconds = _clip_seconds(rows, measured, read_object(store, measured)) if measured in known else {}
        if table not in known:
            raise ManifestError(f"{table}: there is no such table in the folder; it is the path of a .tsv below it")
        for where, row in _table(rows, table, read_object(store, table), ("path", "sentence")):
            clip = row.pop("path")
            file = posixpath.join(folder, "clips", clip if "." in clip else f"{clip}.mp3")
            if file not in known:
                rows.problem(where, f"there is no {file}")
                continue
            renamed = {"sentence": "text", "client_id": "speaker", "locale": "language"}
            fields = {renamed.get(column, column): value for column, value in row.items() if value}
            source = fields.get("language") or posixpath.basename(folder) or name
            length = seconds.get(posixpath.basename(file))
            more = {} if length is None else {"duration": length}
            rows.add(where, file, PurePosixPath(file).stem, file, source, {**fields, **more}, None)
    return _described(rows)


def _clip_seconds(rows: DescribedRows, path: str, data: bytes) -> dict[str, float]:
    found = {}
    for where, row in _table(rows, path, data, ("clip", "duration[ms]")):
        try:
            found[row["clip"]] = float(row["duration[ms]"]) / 1000
        except ValueError:
            rows.problem(where, f"its duration is {row['duration[ms]']!r}, not a number of milliseconds")
    return found


def _table(
    rows: DescribedRows, path: str, data: bytes, needed: Collection[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every row of a table by its columns. Quotes mean nothing in it."""
    lines = _lines(rows, path, data)
    where, header = next(lines, (path, ""))
    columns = header.split("\t")
    if missing := [column for column in needed if column not in columns]:
        rows.problem(where, f"has no column {', '.join(missing)}; it has {', '.join(columns)}")
        return
    for where, line in lines:
        values = line.split("\t")
        if len(values) == len(columns):
            yield where, dict(zip(columns, values, strict=True))
        else:
            rows.problem(where, f"has {len(values)} columns, and the header has {len(columns)}")


def read_kaldi(
    folders: Sequence[Path], root: str, paths: Collection[str], text_field: str | None = None
) -> DescribedItems:
    """Return the utterances of Kaldi data folders. Their sources are the names of the folders.

    Args:
        folders: Folders with ``wav.scp``, and perhaps ``segments``, ``text`` and ``utt2spk``.
        root: Folder or URL that paths in ``wav.scp`` are relative to, or that they begin with.
        paths: Paths of all files below ``root``.
        text_field: Field that holds the text; utterances without one are left out. None to keep all.

    Raises:
        ManifestError: If an utterance can't be used; the message lists all problems.
    """
    known = set(paths)
    rows = DescribedRows(str(folders[0]), text_field, loose=True)
    for folder in folders:
        if not (folder / "wav.scp").is_file():
            raise ManifestError(f"{folder}: there is no wav.scp; name a Kaldi data folder")
        own = {name: _keyed(rows, folder / name) for name in ("wav.scp", "segments", "text", "utt2spk")}
        files = {
            recording: (where, file)
            for recording, (where, value) in own["wav.scp"].items()
            if (file := _kaldi_file(rows, where, value, root, known)) is not None
        }
        source = folder.resolve().name
        parts: dict[str, tuple[str, str, tuple[float, float] | None]] = {}
        if (folder / "segments").exists():
            parts.update(_segments(rows, own["segments"]))
        else:
            parts.update((name, (where, name, None)) for name, (where, _) in files.items())
        for utterance, (where, recording, segment) in parts.items():
            if recording not in own["wav.scp"]:
                rows.problem(where, f"{recording} is not in wav.scp")
            elif recording in files:
                names = (("text", "text"), ("utt2spk", "speaker"))
                fields: dict[str, Any] = {
                    field: own[file][utterance][1] for file, field in names if utterance in own[file]
                }
                file = files[recording][1]
                if segment is not None:
                    fields["duration"] = segment[1]
                rows.add(where, file, utterance, file, source, fields, segment)
    return _described(rows)


def _kaldi_file(rows: DescribedRows, where: str, value: str, root: str, known: Collection[str]) -> str | None:
    """Return the path of a recording below the root; None if it can't be used, which is then a problem."""
    if value.endswith("|"):
        rows.problem(where, f"is a command, {value!r}, and commands are not run; write its output to a file")
        return None
    below = f"{root.rstrip('/')}/"
    file = posixpath.normpath(value.removeprefix(below))
    if PurePosixPath(file).suffix[1:].lower() not in SOUNDS:
        rows.problem(where, f"{value} is not a file of {', '.join(SOUNDS)}; convert it")
    elif file not in known:
        rows.problem(where, f"there is no {value} below {root}")
    else:
        return file
    return None


def _segments(
    rows: DescribedRows, lines: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, tuple[str, str, tuple[float, float]]]]:
    for utterance, (where, line) in lines.items():
        try:
            recording, start, end = line.split()[:3]
            yield utterance, (where, recording, (float(start), round(float(end) - float(start), 6)))
        except ValueError:
            rows.problem(where, "is not an utterance, a recording, its start and its end in seconds")


def _keyed(rows: DescribedRows, path: Path) -> dict[str, tuple[str, str]]:
    """Return the rest of every line, and where it is, by its first word. Empty if there is no such file."""
    found: dict[str, tuple[str, str]] = {}
    if not path.exists():
        return found
    for where, line in _lines(rows, str(path), path.read_bytes()):
        key, *rest = line.split(maxsplit=1)
        if key in found:
            rows.problem(where, f"{key} is there twice")
        found[key] = (where, rest[0].strip() if rest else "")
    return found


def _lines(rows: DescribedRows, path: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield every line that is not blank, with its place."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        where = f"{path}:{number}"
        try:
            text = line.decode().rstrip("\r")
        except UnicodeDecodeError as error:
            rows.problem(where, f"is not UTF-8: {error.reason} at byte {error.start}")
            continue
        if text.strip():
            yield where, text


def _described(rows: DescribedRows) -> DescribedItems:
    return DescribedItems(_in_folders(rows.table()), rows.without_text)


def _in_folders(rows: ItemTable) -> ItemTable:
    """Return rows whose shards have become files, in the order of their paths, in one folder per source as a shard."""
    rows = rows.take(np.lexsort((rows.shard, rows.source)))
    folders = []
    for _, own in groupby(zip(rows.source.tolist(), rows.shard.tolist(), strict=True), key=lambda pair: pair[0]):
        parents = {posixpath.dirname(rows.shards[file].path) for _, file in own}
        folders.append(Shard("" if "" in parents else posixpath.commonpath(parents), None, None))
    folders = [folder if folder.path else Shard(".", None, None) for folder in folders]
    shard = (rows.source + len(rows.shards)).astype(np.int32)
    return replace(rows, file=rows.shard, shard=shard, shards=[*rows.shards, *folders])
