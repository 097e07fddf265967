"""Chosen clips -> one tar: ``<id>.wav`` (16 kHz, mono, PCM16) and ``<id>.json``. The same clips give the same bytes."""

import hashlib
import json
import tarfile
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock.curate.speech.evaluation.candidates import Candidate, ClipReader
from penstock.media.audio.clip import read_whole
from penstock.media.audio.wav import wav_bytes
from penstock.media.audio.waveform import RATE
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from penstock.readers.tar.archive import add_file
from penstock.runtime.engines.engine import Engine, WorkerLost


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


@dataclass(frozen=True, slots=True)
class ConvertedClip:
    """A clip as it is in an archive.

    Attributes:
        wav: WAV file.
        seconds: Duration.
        transcription: Transcription; None if it is not known.
    """

    wav: bytes
    seconds: float
    transcription: str | None


class ClipTask(NamedTuple):
    """A clip to convert.

    Attributes:
        number: Number of the clip among those to convert.
        source: Name of the corpus.
        name: Name of the clip in its source.
        reader: Number of the function that fetches the clip.
        place: Argument of that function.
    """

    number: int
    source: str
    name: str
    reader: int
    place: Any


@dataclass(frozen=True)
class ConvertClip:
    """Reads and decodes a clip, in any process: the work of a task. Every process gets the stores of clips once."""

    readers: tuple[ClipReader, ...]

    def __call__(self, task: ClipTask) -> ConvertedClip | LeftOut:
        clip = self.readers[task.reader](task.place)
        try:
            sound = read_whole(InMemory(clip.audio))
        except BadMedia as bad:
            return LeftOut(task.source, task.name, str(bad))
        return ConvertedClip(wav_bytes(sound, RATE), len(sound) / RATE, clip.transcription)


def convert_clips(candidates: Sequence[Candidate], engine: Engine) -> Generator[ConvertedClip | LeftOut, None, None]:
    """Convert clips on an engine; yield them in the order of the candidates.

    Raises:
        ValueError: If a clip ends the processes that decode it.
    """
    readers = tuple(dict.fromkeys(each.reader for each in candidates))
    number_of = {reader: number for number, reader in enumerate(readers)}
    tasks = (
        ClipTask(number, each.source, each.name, number_of[each.reader], each.place)
        for number, each in enumerate(candidates)
    )
    ready: dict[int, ConvertedClip | LeftOut] = {}
    following = 0
    with closing(engine.map(ConvertClip(readers), tasks)) as outcomes:
        for outcome in outcomes:
            try:
                ready[outcome.task.number] = outcome.get()
            except WorkerLost as error:
                raise ValueError(f"{outcome.task.source}: {outcome.task.name}: {error}") from None
            while following in ready:
                yield ready.pop(following)
                following += 1


class ArchiveWriter:
    """Writes an archive, one sample after the other.

    Args:
        path: File to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tar = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self.samples: list[EvaluationSample] = []
        self.left_out: list[LeftOut] = []

    def add(self, name: str, candidate: Candidate, clip: ConvertedClip | LeftOut) -> None:
        """Add what ``ConvertClip`` has made of a candidate.

        Args:
            name: Id of the sample.
            candidate: Candidate.
            clip: Result of ``ConvertClip``.
        """
        if isinstance(clip, LeftOut):
            self.left_out.append(clip)
            return
        facts = {
            "id": name,
            "language": candidate.language,
            "duration": clip.seconds,
            "transcription": clip.transcription,
            "source": candidate.source,
        }
        add_file(self._tar, f"{name}.wav", clip.wav)
        add_file(self._tar, f"{name}.json", json.dumps(facts, ensure_ascii=False).encode())
        self.samples.append(EvaluationSample(name, clip.seconds, candidate.source, candidate.name))

    def finish(self) -> Archive:
        """Complete the file."""
        self.close()
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Archive(tuple(self.samples), tuple(self.left_out), self._path.stat().st_size, digest)

    def close(self) -> None:
        self._tar.close()
