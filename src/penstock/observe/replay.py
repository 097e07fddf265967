"""A batch made again, as files to look at and to listen to. Knows nothing of their content: the recipe makes them."""

import json
import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from penstock.feed import Feed
from penstock.feed.batches import names_in
from penstock.manifest.publish import errors_naming, publish

_ID_CHARACTERS = 60  # of an id, in the name of a file: in any script fewer bytes than a file system allows
# What some file systems refuse, such as the ":" of frames; slashes, control characters, marks that turn the direction
# of writing, line separators, and bytes that are no UTF-8.
_NOT_IN_A_NAME = re.compile('[<>:"|?*\\\\/\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')


def replay(feed: Feed, step: int, rank: int, world: int, folder: Path) -> list[dict[str, Any]]:
    """Write one rank's batch into a folder: one or more files per sample, and ``batch.json``, which describes them.

    Args:
        feed: the feed of the run.
        step: the step of the batch.
        rank: the rank.
        world: the number of ranks.
        folder: the folder to make. It appears whole, and replaces that of an earlier replay.

    Returns:
        The samples, as ``batch.json`` has them: slot, source, item and names of files; of a pack also ``members``, the
        ids of its samples.
    """
    batch = feed.batch(step, rank, world)
    about: dict[str, Any] = {"step": step, "rank": rank, "world": world, "samples": [], "bad": []}
    publish(folder, partial(_write_batch, feed, batch, about))
    samples: list[dict[str, Any]] = about["samples"]
    return samples


def _write_batch(feed: Feed, batch: dict[str, Any], about: dict[str, Any], folder: Path) -> None:
    """Write the files of a batch, and ``about``, to which the samples and the bad ones are added."""
    for recipe, own in feed.by_recipe(batch).items():
        about["samples"] += _write_samples(feed, recipe, own, folder)
        about["bad"] += map(asdict, own["bad"])
    about["samples"].sort(key=lambda sample: sample["slot"])
    _write(folder / "batch.json", json.dumps(about, ensure_ascii=False, indent=1).encode())


def _write_samples(feed: Feed, recipe: str, batch: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Write the files of one recipe's samples. Returns their entries of ``batch.json``."""
    rows = batch["rows"].tolist()
    real = [index for index, row in enumerate(rows) if row >= 0]
    slots = batch["slots"].tolist() if "slots" in batch else range(len(rows))
    groups = feed.catalog.group_names(rows[index] for index in real)
    names = names_in(batch)
    samples = []
    for index, group in zip(real, groups, strict=True):
        slot = slots[index]
        name = f"{slot:04d}-{names[index][-_ID_CHARACTERS:]}"
        files = []
        for ending, data in feed.preview(recipe, batch, index):
            files.append(_NOT_IN_A_NAME.sub("_", f"{name}.{ending}"))
            _write(folder / files[-1], data)
        item = f"{group}:{names[index]}"
        sample = {"slot": slot, "source": batch["sources"][index], "item": item, "files": files}
        if isinstance(batch["ids"][index], list):  # a pack
            sample["members"] = batch["ids"][index]
        samples.append(sample)
    return samples


def _write(path: Path, data: bytes) -> None:
    with errors_naming(path):
        path.write_bytes(data)
