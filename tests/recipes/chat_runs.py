"""Small runs of chat data: one file of questions about images, and whatever else a test writes."""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image

import penstock
from penstock.feed import Feed
from tests.text.made_tokenizers import byte_level
from tests.text.rendering import TOKENS

RECORDS = 24
MAX_LENGTH = 96


def tokenizer(*more: str) -> Any:
    made = byte_level()
    made.add_special_tokens({"additional_special_tokens": [*TOKENS.values(), *more]})
    return made


TOKENIZER = tokenizer()


def question(number: int, **keys: Any) -> dict[str, Any]:
    """A record whose image has a size and a colour of its own."""
    asked = f"<image>What is number {number}? " + "So? " * (number % 5)
    answer = f"It is {number}." + " Really." * (number % 4)
    return {
        "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer, **keys}],
        "images": [f"{number}.png"],
    }


def write_records(folder: Path, records: Iterable[Mapping[str, Any]], name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def write_questions(folder: Path, count: int = RECORDS) -> Path:
    for number in range(count):
        Image.new("RGB", (20 + 7 * number, 30 + 3 * (number % 4)), (number * 9 % 256, 77, 5)).save(
            folder / f"{number}.png"
        )
    return write_records(folder, map(question, range(count)))


def source(path: Path, dtype: str = "vision", **keys: Any) -> dict[str, Any]:
    return {"name": path.stem, "dtype": dtype, "path": str(path), **keys}


def run(path: Path | list[dict[str, Any]], **options: Any) -> Feed:
    """A feed with its cache beside the data, so that no test sees the index of another."""
    sources = [source(path)] if isinstance(path, Path) else path
    folder = Path(sources[0]["path"]).parent
    world = {key: options.pop(key) for key in ("rank", "world") if key in options}
    if "processor" not in options:
        options = {"tokenizer": TOKENIZER, "tokens": TOKENS, **options}
    keys = {
        "batch_size": 4,
        "max_length": MAX_LENGTH,
        "image_size": 8,
        "cache": {"dir": folder / "cache", "size": "1GB"},
        "sources": sources,
        **options,
    }
    return penstock.chat(keys.pop("config", None), **world, **keys)


def spans(batch: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The text and the trained text of every sample of a batch, whatever its rows are."""
    ids = batch["input_ids"]
    labels = batch["labels"]
    if "sequence_ids" in batch:
        bounds = batch["cu_seqlens"].tolist()
        real = [(a, b) for a, b in pairwise(bounds) if batch["sequence_ids"].reshape(-1)[a]]
        parts = [(ids.reshape(-1)[a:b], labels.reshape(-1)[a:b]) for a, b in real]
    else:
        lengths = batch["attention_mask"].sum(1).tolist()
        parts = [(ids[n, :end], labels[n, :end]) for n, end in enumerate(lengths) if end]
    return [(TOKENIZER.decode(own), TOKENIZER.decode(own[trained != -100])) for own, trained in parts]
