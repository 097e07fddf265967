"""Datasets as readers see them: opened from a folder, without a run around them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock.readers.lerobot.dataset import Dataset, EpisodeManifest, read_dataset, select
from penstock.readers.lerobot.reader import EpisodeReader
from penstock.readers.lerobot.windows import Needs
from penstock.readers.reader import Uses
from penstock.store.blob import read_object
from penstock.store.local import LocalStore


def dataset_of(folder: Path) -> Dataset:
    return read_dataset(partial(read_object, LocalStore(folder)), "robot")


def reader_of(
    folder: Path, metadata: Path, *, pool: int = 4, needs: Needs | None = None, **filters: Any
) -> EpisodeReader:
    """Return the reader of a dataset in a folder."""
    dataset = dataset_of(folder)
    manifest = EpisodeManifest(dataset, select(dataset, **filters))
    store = LocalStore(folder)
    return EpisodeReader(manifest, lambda: store, needs or Needs({}, 1e-4), metadata, pool, no_pieces)


def no_pieces(maker: Any) -> Any:
    raise AssertionError("no images are embedded")


def uses_of(reader: EpisodeReader, *names: str) -> Uses:
    """Return uses of items, by their ids."""
    rows = np.array([row for name in names for row in reader.find(name, 0)])
    _, groups, _ = reader._manifest.locate(rows)
    zeros = np.zeros(len(rows), np.int64)
    return Uses(zeros, groups, rows, zeros, zeros, zeros.astype(np.uint64))
