"""The documents written next to the archives. Pure.

evaluation_manifest.json   every sample and its origin; clips that could not be used; the parameters of the choice
index.json                 a few numbers per language, and their totals
evaluation.tsv             the filelist that a feed reads
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.curate.speech.evaluation.archive import Archive, EvaluationSample, LeftOut
from penstock.curate.speech.evaluation.candidates import FORMAT
from penstock.media.audio.waveform import RATE

MANIFEST = "evaluation_manifest.json"
INDEX = "index.json"
FILELIST = "evaluation.tsv"


@dataclass(frozen=True, slots=True)
class Language:
    """One language's archive, and the request that it was made for."""

    file: str
    seed: int
    requested: int
    candidates: int
    request: str
    archive: Archive

    @property
    def hours(self) -> float:
        return sum(sample.duration for sample in self.archive.samples) / 3600


Languages = Mapping[str, Language]


def manifest_json(languages: Languages) -> str:
    return _json({"format": FORMAT, "languages": {name: asdict(languages[name]) for name in sorted(languages)}})


def parse_manifest(text: bytes, where: str) -> dict[str, Language]:
    """Parse the manifest of an earlier build.

    Raises:
        ValueError: If it is another kind of file, which must not be overwritten.
    """
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']!r}")
        return {name: _language(record) for name, record in value["languages"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{where}: not made by this command ({error}); remove it or build elsewhere") from None


def _language(record: dict[str, Any]) -> Language:
    archive = record.pop("archive")
    samples = tuple(EvaluationSample(**sample) for sample in archive.pop("samples"))
    left_out = tuple(LeftOut(**clip) for clip in archive.pop("left_out"))
    return Language(archive=Archive(samples, left_out, **archive), **record)


def index_json(languages: Languages) -> str:
    listed = {
        name: {
            "file": one.file,
            "count": len(one.archive.samples),
            "hours": one.hours,
            "bytes": one.archive.bytes,
            "sha256": one.archive.sha256,
        }
        for name, one in sorted(languages.items())
    }
    total = {key: sum(one[key] for one in listed.values()) for key in ("count", "hours", "bytes")}  # type: ignore[misc]
    audio = {"sample_rate": RATE, "channels": 1, "encoding": "PCM_16"}
    return _json({"format": FORMAT, "audio": audio, "languages": listed, "total": {"languages": len(listed), **total}})


def filelist_tsv(languages: Languages) -> str:
    return "".join(
        f"{one.file}\t{sample.id}\t{name}\t{sample.duration:.6f}\n"
        for name, one in sorted(languages.items())
        for sample in one.archive.samples
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
