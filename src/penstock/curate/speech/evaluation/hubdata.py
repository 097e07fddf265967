"""Candidates from Hugging Face datasets: FLEURS, LibriSpeech, and others with an ``audio`` column.

| | FLEURS | LibriSpeech |
|---|---|---|
| repository | google/fleurs, its Parquet branch (the main branch is a script, which ``datasets`` no longer runs) | openslr/librispeech_asr |
| config, split | a language such as te_in; test | clean; test |
| language | ``lang_id``, else the config | english |
| name | ``id`` is the sentence's, read by several speakers: with the audio file's name | ``id`` |
| transcription | ``transcription`` | ``text`` |

The audio stays encoded: it is decoded by ``penstock.media``, not by ``datasets``.
"""  # noqa: E501

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.curate.speech.evaluation.candidates import Candidate, StoredClip, transcription_in_fields

if TYPE_CHECKING:
    from datasets import Dataset

LANGUAGES = {
    "as_in": "assamese",
    "bn_in": "bengali",
    "en_us": "english",
    "gu_in": "gujarati",
    "hi_in": "hindi",
    "kn_in": "kannada",
    "ml_in": "malayalam",
    "mr_in": "marathi",
    "or_in": "odia",
    "pa_in": "punjabi",
    "ta_in": "tamil",
    "te_in": "telugu",
}
"""FLEURS codes and the names used in training data; its ``language`` column has Oriya for odia."""

INDIC = tuple(code for code in LANGUAGES if code.endswith("_in"))
PARQUET_BRANCH = "refs/convert/parquet"  # the hub's own conversion: <config>/<split>/0000.parquet


@dataclass(frozen=True, slots=True)
class HubData:
    """A dataset to load.

    Attributes:
        name: Name of the source, as samples have it.
        where: Repository of the hub, or local folder with the output of ``save_to_disk`` or Parquet files by split.
        config: Configuration of the dataset; None for the default.
        split: Split, or several joined by ``+``.
        language: Language of every sample; None if a column or the config has it.
        revision: Revision of the repository; None for the latest.
    """

    name: str
    where: str
    config: str | None
    split: str
    language: str | None = None
    revision: str | None = None

    @property
    def source(self) -> str:
        return ":".join(part for part in (self.name, self.config, self.split) if part)


def fleurs(config: str, split: str = "test", where: str = "google/fleurs", language: str | None = None) -> HubData:
    return HubData("fleurs", where, config, split, language, PARQUET_BRANCH)


def librispeech(
    config: str = "clean",
    split: str = "test",
    where: str = "openslr/librispeech_asr",
    language: str | None = "english",
) -> HubData:
    return HubData("librispeech", where, config, split, language)


def hub_candidates(data: HubData) -> Iterator[Candidate]:
    """List the clips of a dataset.

    Raises:
        ValueError: If ``datasets`` is not installed, or the dataset cannot be loaded or has no audio.
    """
    library = _library()
    table = _load(library, data)
    if "audio" not in table.column_names:
        raise ValueError(f"{data.source}: no column `audio`; it has {', '.join(table.column_names)}")
    table = table.cast_column("audio", library.Audio(decode=False))
    codes = table.features.get("lang_id")
    for number, row in enumerate(table):
        code = codes.int2str(row["lang_id"]) if isinstance(codes, library.ClassLabel) else row.get("lang_id")
        audio = row["audio"]
        size = len(audio["bytes"]) if audio["bytes"] is not None else Path(audio["path"]).stat().st_size
        place = _HubRow(table, number)
        yield Candidate(data.source, _name(row, number), _language(row, code, data), size, _stored_clip, place)


def _stored_clip(row: "_HubRow | _ReadRow") -> StoredClip:
    return row.read()


@dataclass(frozen=True, slots=True)
class _HubRow:
    """A row of a dataset. It pickles as its clip: other processes need not open the dataset, nor have it."""

    table: "Dataset"
    number: int

    def read(self) -> StoredClip:
        row = self.table[self.number]
        stored = row["audio"]["bytes"]
        data = Path(row["audio"]["path"]).read_bytes() if stored is None else stored
        return StoredClip(data, transcription_in_fields(row))

    def __reduce__(self) -> tuple[type["_ReadRow"], tuple[StoredClip]]:
        return _ReadRow, (self.read(),)


@dataclass(frozen=True, slots=True)
class _ReadRow:
    clip: StoredClip

    def read(self) -> StoredClip:
        return self.clip


def _library() -> ModuleType:
    try:
        import datasets
    except ImportError:
        raise ValueError(
            "FLEURS, LibriSpeech and other datasets need the package `datasets`: pip install datasets"
        ) from None
    return datasets  # type: ignore[no-any-return]


def _load(library: ModuleType, data: HubData) -> "Dataset":
    folder = Path(data.where)
    if folder.is_dir():
        return _load_local(library, data, folder)
    splits = data.split.split("+")
    options: dict[str, Any] = {"name": data.config}
    if data.revision == PARQUET_BRANCH:
        options = {"data_files": {split: f"{data.config}/{split}/*.parquet" for split in splits}}
    try:
        return library.load_dataset(data.where, split=data.split, revision=data.revision, **options)
    except (OSError, RuntimeError) as error:  # RuntimeError: the repository is a script, which is not run
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{data.source}: {data.where} is not a local folder, and loading it from the hub failed: {reason}"
        ) from None


def _load_local(library: ModuleType, data: HubData, folder: Path) -> "Dataset":
    if data.config and (folder / data.config).is_dir():
        folder = folder / data.config
    splits = data.split.split("+")
    if (folder / "state.json").exists():
        return library.load_from_disk(str(folder))
    if (folder / "dataset_dict.json").exists():
        saved = library.load_from_disk(str(folder))
        if missing := [split for split in splits if split not in saved]:
            raise ValueError(f"{folder}: no split {missing[0]!r}; it has {', '.join(saved)}")
        return library.concatenate_datasets([saved[split] for split in splits])
    files = {split: _parquet_files(folder, split) for split in splits}
    return library.load_dataset("parquet", data_files=files, split=data.split)


def _parquet_files(folder: Path, split: str) -> list[str]:
    """As hub repositories have them: ``test/0000.parquet``, ``data/test-00000-of-00002.parquet``, ``test.parquet``."""
    files = sorted(folder.rglob("*.parquet"))
    found = [
        str(path) for path in files if path.parent.name == split or re.match(rf"{re.escape(split)}[-.]", path.name)
    ]
    if not found:
        raise FileNotFoundError(f"{folder}: nothing saved by save_to_disk, and no Parquet files of the split {split!r}")
    return found


def _name(row: Mapping[str, Any], number: int) -> str:
    """The row's id and its audio file's name, where they differ; its number if there is neither."""
    file = row["audio"]["path"] or row.get("path") or row.get("file")
    stem = PurePosixPath(str(file)).stem if file else None
    parts = [str(part) for part in dict.fromkeys((row.get("id"), stem)) if part is not None]
    return "_".join(parts) or f"row_{number}"


def _language(row: Mapping[str, Any], code: object, data: HubData) -> str:
    if data.language:
        return data.language
    for known in (code, data.config):
        if known in LANGUAGES:
            return LANGUAGES[known]
    if isinstance(row.get("language"), str):
        return re.sub(r"[^\w-]+", "_", row["language"].lower())
    raise ValueError(f"{data.source}: the language is neither in its columns nor in its config; write LANGUAGE=…")
