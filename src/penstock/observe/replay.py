"""A batch made again, as files to look at and to listen to. Knows nothing of their content: the recipe makes them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.feed import Feed

_ID_CHARACTERS = 60  # of an id, in the name of a file: in any script fewer bytes than a file system allows


def replay(feed: Feed, step: int, rank: int, world: int, folder: Path) -> int:
    """Write one rank's batch into a folder: one or more files per sample, and ``batch.json``, which describes them.

    Args:
        feed: the feed of the run.
        step: the step of the batch.
        rank: the rank.
        world: the number of ranks.
        folder: where to write; created if necessary.

    Returns:
        The number of samples.
    """
    batch = feed.batch(step, rank, world)
    folder.mkdir(parents=True, exist_ok=True)
    samples: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for recipe, own in feed.by_recipe(batch).items():
        samples += _write_samples(feed, recipe, own, folder)
        bad += map(asdict, own["bad"])
    samples.sort(key=lambda sample: sample["slot"])
    about = {"step": step, "rank": rank, "world": world, "samples": samples, "bad": bad}
    (folder / "batch.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
    return len(samples)


def _write_samples(feed: Feed, recipe: str, batch: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Write the files of one recipe's samples. Returns their entries of ``batch.json``."""
    rows = batch["rows"].tolist()
    real = [index for index, row in enumerate(rows) if row >= 0]
    slots = batch["slots"].tolist() if "slots" in batch else range(len(rows))
    groups = feed.catalog.group_names(rows[index] for index in real)
    samples = []
    for index, group in zip(real, groups, strict=True):
        slot = slots[index]
        name = f"{slot:04d}-{batch['ids'][index].replace('/', '_')[-_ID_CHARACTERS:]}"
        files = []
        for ending, data in feed.preview(recipe, batch, index):
            files.append(f"{name}.{ending}")
            (folder / files[-1]).write_bytes(data)
        item = f"{group}:{batch['ids'][index]}"
        samples.append({"slot": slot, "source": batch["sources"][index], "item": item, "files": files})
    return samples
