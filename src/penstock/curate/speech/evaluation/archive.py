"""Chosen clips -> one tar: ``<id>.wav`` (16 kHz, mono, PCM16) and ``<id>.json``. The same clips give the same bytes."""

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.curate.speech.evaluation.candidates import Candidate
from penstock.media.audio.clip import read_whole
from penstock.media.audio.wav import wav_bytes
from penstock.media.audio.waveform import RATE
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from penstock.readers.tar.archive import add_file


@dataclass(frozen=True, slots=True)
class EvaluationSample:
    """A sample of the archive: its id, its duration in seconds, and its origin."""

    id: str
    duration: float
    source: str
    name: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A clip that was chosen but could not be decoded; the next in order replaces it."""

    source: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Archive:
    samples: tuple[EvaluationSample, ...]
    left_out: tuple[LeftOut, ...]
    bytes: int
    sha256: str


def write_archive(
    path: Path, candidates: Iterable[tuple[str, Candidate]], count: int, progress: Callable[[int], None]
) -> Archive:
    """Write the first ``count`` candidates that can be decoded.

    Args:
        path: File to write.
        candidates: Sample ids and candidates, in order.
        count: Number of samples to write.
        progress: Function to call with the number of samples written.
    """
    samples: list[EvaluationSample] = []
    left_out: list[LeftOut] = []
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, candidate in candidates:
            if len(samples) == count:
                break
            clip = candidate.read()
            try:
                sound = read_whole(InMemory(clip.audio))
            except BadMedia as bad:
                left_out.append(LeftOut(candidate.source, candidate.name, str(bad)))
                continue
            facts = {
                "id": name,
                "language": candidate.language,
                "duration": len(sound) / RATE,
                "transcription": clip.transcription,
                "source": candidate.source,
            }
            add_file(tar, f"{name}.wav", wav_bytes(sound, RATE))
            add_file(tar, f"{name}.json", json.dumps(facts, ensure_ascii=False).encode())
            samples.append(EvaluationSample(name, len(sound) / RATE, candidate.source, candidate.name))
            progress(len(samples))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Archive(tuple(samples), tuple(left_out), path.stat().st_size, digest)
