"""Small tar shards of WAV clips with a filelist, for tests of whole clips and of batches by length."""

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.media.audio.wav import wav_bytes
from penstock.readers.tar.archive import add_file

RATE = 16_000
SHARDS: Mapping[str, Sequence[int]] = {"assamese": [9, 12, 8, 10], "bengali": [11, 9, 10], "gujarati": [7, 8, 9]}


def seconds_of(number: int) -> float:
    """Return the duration of the clip with a number: 1 to 5 seconds in tenths, in an order that looks random."""
    return 1 + (number * 7919) % 41 / 10


def write_clips(folder: Path, shards: Mapping[str, Sequence[int]] = SHARDS, *, rate: int = RATE) -> Path:
    """Write ``<source>-<n>.tar`` and ``train.tsv``.

    Args:
        folder: Folder to write into.
        shards: Number of clips of each shard, by source.
        rate: Sample rate of the files; a low one for tests that do not decode them.

    Returns:
        Path of the filelist.
    """
    lines = []
    number = 0
    for source, counts in shards.items():
        for shard, count in enumerate(counts):
            with tarfile.open(folder / f"{source}-{shard}.tar", "w", format=tarfile.GNU_FORMAT) as tar:
                for place in range(count):
                    name = f"{source}_{shard}_{place}"
                    samples = np.full(round(seconds_of(number) * rate), 0.1, np.float32)
                    add_file(tar, f"{name}.wav", wav_bytes(samples, rate))
                    lines.append(f"{source}-{shard}.tar\t{name}\t{source}\t{seconds_of(number):.1f}\n")
                    number += 1
    filelist = folder / "train.tsv"
    filelist.write_text("".join(lines))
    return filelist


def clip_run(folder: Path, **options: Any) -> dict[str, Any]:
    """Return the options of a run by length over the clips of ``write_clips``."""
    own = {"filelist": folder / "train.tsv", "store": str(folder), "cache": {"dir": folder / "cache", "size": "1GB"}}
    speech = {"recipe": "speech", "speech": {"crop": "full", "features": False}}
    batch = {"batch": {"seconds": 12, "units": 4, "window": 48}}
    return {**own, **speech, **batch, "pool": 2, "mixture": {"weights": "equal"}, **options}
