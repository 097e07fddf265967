"""The chat job by Penstock in each of its modes, and by no loader at all: the limits."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from chat_data import IMAGE_SOURCES, TEXT_SOURCES, TOKENS
from chat_peers import BATCH, IMAGE_SIZE, LENGTH, conversation_text, load_tokenizer

Batches = Iterator[dict[str, Any]]
KEPT = "cache-with-tokens"  # indexes are kept in the cache folder: one run has tokens with its index


def run(folder: Path, job: str, cache: str = "cache") -> dict[str, Any]:
    """The keys of the run: sources in equal shares, rows padded to 1,024 tokens."""
    names = TEXT_SOURCES if job == "text" else IMAGE_SOURCES
    dtype = "conversation" if job == "text" else "vision"
    ending = "jsonl" if job == "text" else "parquet"
    return {
        "recipe": "chat",
        "batch_size": BATCH,
        "mixture": {"weights": "equal"},
        "cache": {"dir": str(folder / cache), "size": "4GB"},
        "sources": [{"name": name, "dtype": dtype, "path": f"{folder}/{name}-*.{ending}"} for name in names],
        "chat": {
            "tokenizer": str(folder / "tokenizer"),
            "tokens": TOKENS,
            "max_length": LENGTH,
            "padding": "max_length",
            "image_size": IMAGE_SIZE,
        },
    }


def open_feed(folder: Path, job: str, cache: str = "cache") -> Any:
    import penstock

    return penstock.open(run(folder, job, cache), rank=0, world=1)


def threads(folder: Path, workers: int, job: str) -> Batches:
    if workers:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as docs/chat.md recommends
    return open_feed(folder, job).loader(threads=workers)


def kept(folder: Path, workers: int) -> Batches:
    return open_feed(folder, "text", KEPT).loader(threads=workers)


def processes(folder: Path, workers: int, job: str) -> Batches:
    return open_feed(folder, job).loader(workers=workers)


def tokenizer_alone(folder: Path, workers: int) -> Batches:
    """Texts that are in memory, 16 per call, on one core or on all; no labels, no padding, no tensors."""
    import json

    os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers else "false"
    lines = [line for name in TEXT_SOURCES for line in (folder / f"{name}-0.jsonl").read_text().splitlines()]
    texts = [conversation_text(json.loads(line)["messages"]) for line in lines]
    backend = load_tokenizer(folder).backend_tokenizer
    for start in cycle(range(0, len(texts), BATCH)):
        yield {"input_ids": backend.encode_batch_fast(texts[start : start + BATCH], add_special_tokens=False)}


def decoder_alone(folder: Path, workers: int) -> Batches:
    """JPEG files that are in memory: decoded, resized and normalised as a batch has them, in threads."""
    import pyarrow.parquet as pq

    from penstock.media.image.pixels import image_pixels
    from penstock.media.image.processor import ImageProcessor, pixel_values

    column = pq.read_table(folder / f"{IMAGE_SOURCES[0]}-0.parquet")["image"].to_pylist()
    files = [image["bytes"] for image in column]
    processor = ImageProcessor()

    def make(file: bytes) -> Any:
        return pixel_values(processor, image_pixels(file), IMAGE_SIZE, IMAGE_SIZE)

    pool = ThreadPoolExecutor(max(1, workers))
    each: Callable[..., Iterator[Any]] = pool.map if workers else map
    for start in cycle(range(0, len(files) - BATCH + 1, BATCH)):
        yield {"input_ids": list(each(make, files[start : start + BATCH]))}


LOADERS = {
    job: {"threads": partial(threads, job=job), "processes": partial(processes, job=job)} for job in ("text", "image")
}
LOADERS["text"] |= {"tokenizer alone": tokenizer_alone, "kept tokens": kept}
LOADERS["image"] |= {"decoder alone": decoder_alone}
