"""Small tar shards with a filelist, for tests of feeds, loaders and commands."""

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.readers.tar.archive import add_file

Sizes = Mapping[str, Sequence[int]]
"""Number of samples of each shard, by source."""

SMALL: Sizes = {"assamese": [5, 7, 4], "bengali": [6, 5], "gujarati": [3, 4, 2]}


def write_shards(folder: Path, sizes: Sizes = SMALL, *, bytes_each: int = 0) -> Path:
    """Write ``<source>-<n>.tar`` and ``train.tsv``. The content of a sample is its own name.

    Returns:
        Path of the filelist.
    """
    lines = []
    for source, counts in sizes.items():
        for number, count in enumerate(counts):
            shard = f"{source}-{number}.tar"
            names = [f"{source}_{number}_{place}" for place in range(count)]
            write_shard(folder / shard, {name: content(shard, name, bytes_each) for name in names})
            lines += [f"{shard}\t{name}\t{source}\t{1 + place % 3}.5\n" for place, name in enumerate(names)]
    filelist = folder / "train.tsv"
    filelist.write_text("".join(lines))
    return filelist


def small_run(folder: Path, **options: Any) -> dict[str, Any]:
    """Return the options of a run over the shards of ``write_shards``. Manifests and indexes stay in the folder.

    Equal weights have a short period, so that the run opens quickly.
    """
    own = {"filelist": folder / "train.tsv", "store": str(folder), "cache": {"dir": folder / "cache", "size": "1GB"}}
    return {**own, "pool": 2, "mixture": {"weights": "equal"}, **options}


def write_shard(path: Path, samples: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in samples.items():
            add_file(tar, f"{name}.txt", data)


def content(shard: str, name: str, bytes_each: int = 0) -> bytes:
    return f"{shard}:{name}".encode().ljust(bytes_each, b".")


def damage(path: Path, data: bytes) -> None:
    """Change one byte of a sample in its shard, which only a checksum detects."""
    whole = path.read_bytes()
    at = whole.index(data)
    path.write_bytes(whole[:at] + b"!" + whole[at + 1 :])
