"""A batch made again, as files to look at and to listen to. Knows what the recipes put into batches."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
from penstock.media.waveform import RATE
from penstock.media.wavwriter import wav_bytes
from penstock.observe.ledger import item_names

_NAME = 60  # characters of an id in a file's name: in any script fewer bytes than a file system allows


def replay(feed: Feed, step: int, rank: int, world: int, folder: Path) -> int:
    """Write one rank's batch into a folder: a file or more a sample, and ``batch.json``, which says what they are.

    Returns how many samples there were.
    """
    batch = feed.batch(step, rank, world)
    folder.mkdir(parents=True, exist_ok=True)
    samples = []
    for slot, item in enumerate(item_names(feed.manifest, batch["rows"].tolist())):
        if item:
            name, files = f"{slot:04d}-{batch['ids'][slot].replace('/', '_')[-_NAME:]}", list[str]()
            for ending, data in _files(batch, slot):
                files.append(f"{name}.{ending}")
                (folder / files[-1]).write_bytes(data)
            samples.append({"slot": slot, "source": batch["sources"][slot], "item": item, "files": files})
    about = {"step": step, "rank": rank, "world": world, "samples": samples, "bad": list(map(asdict, batch["bad"]))}
    (folder / "batch.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
    return len(samples)


def _files(batch: dict[str, Any], slot: int) -> Iterator[tuple[str, bytes]]:
    """The files of a sample, by ending: its record's as they are stored, or its wave as it was fed, without padding."""
    yield from batch.get("records", {slot: {}})[slot].items()
    if "wav" in batch:
        yield "wav", wav_bytes(np.asarray(batch["wav"][slot][: int(batch["length"][slot])]), RATE)
