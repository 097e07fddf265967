"""Small speech-like shards in 12 languages, generated for ``penstock demo mix`` and the examples."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from penstock.manifest.publish import errors_naming
from penstock.media.audio.wav import wav_bytes
from penstock.media.audio.waveform import Samples
from penstock.readers.tar.archive import add_file

HOURS = {
    "english": 10002,
    "telugu": 9123,
    "hindi": 9054,
    "punjabi": 8917,
    "malayalam": 7842,
    "gujarati": 6875,
    "kannada": 6263,
    "tamil": 5195,
    "bengali": 2981,
    "marathi": 2579,
    "odia": 2199,
    "assamese": 617,
}
RATE = 16_000


def make_demo_data(folder: Path, clips: int = 600, shards: int = 4, seed: int = 0) -> Iterator[str]:
    """Write ``<language>/shard-*.tar`` and ``train.tsv``.

    Args:
        folder: Output folder.
        clips: Number of clips in all languages, divided in proportion to ``HOURS``.
        shards: Number of shards per language.
        seed: Seed of the generated sounds.

    Yields:
        Each language once its shards are written. ``train.tsv`` is written last.
    """
    lines = []
    for number, (language, hours) in enumerate(HOURS.items()):
        random = np.random.default_rng([seed, number])
        voice = _Voice(random)
        count = max(shards, round(clips * hours / sum(HOURS.values())))
        (folder / language).mkdir(parents=True, exist_ok=True)
        for shard in range(shards):
            path = f"{language}/shard-{shard:06d}.tar"
            with errors_naming(folder / path), tarfile.open(folder / path, "w", format=tarfile.GNU_FORMAT) as tar:
                for clip in range(shard * count // shards, (shard + 1) * count // shards):
                    name = f"{language}_{clip:05d}"
                    sound = voice.speak(random)
                    seconds = len(sound) / RATE
                    add_file(tar, f"{name}.wav", wav_bytes(sound, RATE))
                    facts = {"id": name, "language": language, "duration": round(seconds, 3)}
                    add_file(tar, f"{name}.json", json.dumps(facts).encode())
                    lines.append(f"{path}\t{name}\t{language}\t{seconds:.3f}\n")
        yield language
    with errors_naming(folder / "train.tsv"):
        (folder / "train.tsv").write_text("".join(lines))


class _Voice:
    """A buzz through three resonances, in syllables. Resonances differ by language, so a model can tell them apart."""

    def __init__(self, random: np.random.Generator) -> None:
        self._formants = np.sort(random.uniform([300, 900, 2200], [900, 2200, 3600]))

    def speak(self, random: np.random.Generator) -> Samples:
        time = np.arange(int(random.uniform(1.0, 2.5) * RATE)) / RATE
        pitch = random.uniform(90, 220)
        harmonics = pitch * np.arange(1, int(4000 / pitch))
        nearness = np.abs(harmonics[:, None] - self._formants * random.uniform(0.95, 1.05)) / 120
        loudness = (1 / (1 + nearness**2)).sum(axis=1)
        buzz = loudness @ np.sin(2 * np.pi * harmonics[:, None] * time)
        syllables = np.clip(np.sin(2 * np.pi * random.uniform(2, 5) * time), 0, 1)
        sound = buzz * syllables + random.normal(0, 0.01, len(time))
        steps = np.trunc(sound / np.abs(sound).max() * 20_000)  # whole 16-bit values
        return np.asarray(steps / 2**15, dtype=np.float32)
