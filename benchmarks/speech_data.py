"""The clips of the speech job, made once: 12 languages × 4 tar shards × 200 clips of 2–14 s, as 16 kHz PCM WAV.

A second set of fewer clips is 24 kHz FLAC. Knows nothing of loaders; every loader is given these same clips.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

# Hours of each language: the weights of the job's mixture.
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
SHARDS = 4
SETS = {"wav": ("WAV", 16_000, 200), "flac": ("FLAC", 24_000, 20)}  # container, rate, clips a shard


def voice(random: np.random.Generator, rate: int) -> NDArray[np.int16]:
    """A minute of something as easy and as hard to compress as speech, to cut clips from."""
    t = np.arange(60 * rate) / rate
    pitch = random.uniform(90, 220)
    buzz = sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 12))
    syllables = np.clip(np.sin(2 * np.pi * random.uniform(2, 5) * t), 0, 1)
    sound = buzz * syllables + random.normal(0, 0.01, len(t))
    return (sound / np.abs(sound).max() * 20_000).astype(np.int16)


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def write_shard(path: Path, language: str, form: str, rate: int, clips: int, random: np.random.Generator) -> None:
    sound = voice(random, rate)
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as tar:
        for clip in range(clips):
            length = int(random.uniform(2, 14) * rate)
            start = int(random.integers(len(sound) - length))
            file = io.BytesIO()
            soundfile.write(file, sound[start : start + length], rate, format=form, subtype="PCM_16")
            name = f"{language}_{path.stem}_{clip:05d}"
            add(tar, f"{name}.{form.lower()}", file.getvalue())
            facts = {"id": name, "language": language, "duration": round(length / rate, 3)}
            add(tar, f"{name}.json", json.dumps(facts).encode())
    partial.rename(path)


def make(folder: Path, name: str) -> None:
    """``folder/name/<language>/shard-*.tar`` and their index, ``folder/name.manifest``; what is there is kept."""
    form, rate, clips = SETS[name]
    for number, language in enumerate(HOURS):
        (folder / name / language).mkdir(parents=True, exist_ok=True)
        for shard in range(SHARDS):
            path = folder / name / language / f"shard-{shard:06d}.tar"
            if not path.exists():
                write_shard(path, language, form, rate, clips, np.random.default_rng([number, shard]))
    if not (folder / f"{name}.manifest").exists():
        penstock = Path(sys.executable).with_name("penstock")
        command = [penstock, "index", folder / name, "-o", folder / f"{name}.manifest"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/speech"))
    folder = parser.parse_args().folder
    for name in SETS:
        make(folder, name)


if __name__ == "__main__":
    main()
