"""Small chat runs: two sources by weight to train on, one held out, and the tokenizer that they name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from penstock import Feed
from tests.text.made_tokenizers import byte_level
from tests.text.rendering import TOKENS

RECORDS = {"sums": 60, "words": 31, "held_out": 11}  # the last in batches of 4: one row of padding
WEIGHTS = {"sums": 2, "words": 1}


def write_chats(folder: Path, rows: Mapping[str, Any], **keys: Any) -> tuple[Path, Path]:
    """Write data and two configs.

    Args:
        folder: Folder for all of it.
        rows: Keys of ``chat:`` about rows.
        keys: More keys of the config of the training run.

    Returns:
        Configs of the training run and of the evaluation, which has ``passes: 1``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS.values())})
    tokenizer.save_pretrained(folder / "tokenizer")
    for name, count in RECORDS.items():
        records = (json.dumps(_record(name, number)) for number in range(count))
        (folder / f"{name}.jsonl").write_text("\n".join(records))
    chat = {"tokenizer": "tokenizer", "tokens": TOKENS, "max_length": 96, **rows}
    common = {"recipe": "chat", "seed": 3, "global_batch_size": 4, "cache": {"dir": "cache", "size": "1GB"}}
    runs = {
        "train.yaml": {"sources": [*map(_source, WEIGHTS)], "mixture": {"weights": WEIGHTS}, "chat": chat, **keys},
        "eval.yaml": {"sources": [_source("held_out")], "passes": 1, "chat": chat},
    }
    for name, run in runs.items():
        (folder / name).write_text(yaml.safe_dump({**common, **run}))
    return folder / "train.yaml", folder / "eval.yaml"


def _source(name: str) -> dict[str, str]:
    return {"name": name, "dtype": "conversation", "path": f"{name}.jsonl"}


def _record(source: str, number: int) -> dict[str, Any]:
    asked = f"What is {source} {number}?" + " So?" * (number % 5)
    told = f"It is {number}." + " Really." * (number % 4)
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]}


def ids_in(batch: Mapping[str, Any]) -> list[str]:
    """Return the ids of a batch in order, those of a pack one by one, without padding."""
    rows = [row if isinstance(row, list) else [row] for row in batch["ids"]]
    return [id for row in rows for id in row if id]


def global_batches(feed: Feed, steps: int) -> dict[int, list[str]]:
    return {step: ids_in(feed.batch(step, rank=0, world=1)) for step in range(steps)}
