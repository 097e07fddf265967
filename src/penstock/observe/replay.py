"""Writes a batch as files to look at and listen to. Knows nothing of their content: the recipe makes them."""

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NotRequired, TypedDict

from penstock.feed import Feed
from penstock.feed.batches import Batch, names_in, placed_in_step
from penstock.manifest.publish import errors_naming, publish

_ID_CHARACTERS = 60  # of an id in a file name: in any script fewer bytes than a file system allows
# Characters that some file systems refuse, such as ":"; slashes, control characters, marks of the writing direction,
# line separators, and bytes that are not UTF-8.
_NOT_IN_A_NAME = re.compile('[<>:"|?*\\\\/\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')


class ReplayedSample(TypedDict):
    """A sample in ``batch.json``.

    Attributes:
        slot: Place in the rank's batch.
        source: Name of the source.
        item: ``group:id`` of the item.
        files: Names of the files that show the sample.
        members: Ids of the samples of a pack.
    """

    slot: int
    source: str
    item: str
    files: list[str]
    members: NotRequired[list[str]]


def replay(feed: Feed, step: int, rank: int, world: int, folder: Path) -> list[ReplayedSample]:
    """Write one rank's batch into a folder: one or more files per sample, and ``batch.json``, which describes them.

    Args:
        feed: Feed of the run.
        step: Step of the batch.
        rank: Rank of the batch.
        world: Number of ranks.
        folder: Folder to create. It appears whole, and replaces that of an earlier replay.

    Returns:
        The samples in ``batch.json``.
    """
    units = placed_in_step(feed.units(step, rank, world))
    samples: list[ReplayedSample] = []
    where = {"step": step, "rank": rank, "world": world}
    publish(folder, partial(_write_batch, feed, units, where, samples))
    return samples


def _write_batch(
    feed: Feed, units: list[Batch], where: Mapping[str, int], samples: list[ReplayedSample], folder: Path
) -> None:
    """Write the files of the batches of a step and ``batch.json``, and add the samples to ``samples``."""
    bad = []
    for batch in units:
        for recipe, own in feed.by_recipe(batch).items():
            samples += _write_samples(feed, recipe, own, folder)
            bad += [each._asdict() for each in own["bad"]]
    samples.sort(key=lambda sample: sample["slot"])
    about = {**where, "samples": samples, "bad": bad}
    _write(folder / "batch.json", json.dumps(about, ensure_ascii=False, indent=1).encode())


def _write_samples(feed: Feed, recipe: str, batch: Batch, folder: Path) -> list[ReplayedSample]:
    """Write the files of one recipe's samples. Returns their entries in ``batch.json``."""
    rows = batch["rows"].tolist()
    real = [index for index, row in enumerate(rows) if row >= 0]
    slots = batch["slots"].tolist() if "slots" in batch else range(len(rows))
    groups = feed.catalog.group_names(rows[index] for index in real)
    names = names_in(batch)
    samples: list[ReplayedSample] = []
    for index, group in zip(real, groups, strict=True):
        slot = slots[index]
        name = f"{slot:04d}-{names[index][-_ID_CHARACTERS:]}"
        files = []
        for ending, data in feed.preview(recipe, batch, index):
            files.append(_NOT_IN_A_NAME.sub("_", f"{name}.{ending}"))
            _write(folder / files[-1], data)
        item = f"{group}:{names[index]}"
        sample: ReplayedSample = {"slot": slot, "source": batch["sources"][index], "item": item, "files": files}
        if isinstance(batch["ids"][index], list):  # a pack
            sample["members"] = batch["ids"][index]
        samples.append(sample)
    return samples


def _write(path: Path, data: bytes) -> None:
    with errors_naming(path):
        path.write_bytes(data)
