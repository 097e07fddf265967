"""Data of the chat job: conversations in four sources, images with questions in two, and a tokenizer. Made once.

python benchmarks/chat_data.py bench-data/chat
"""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TEXT_SOURCES = ("ask", "code", "story", "tutor")
IMAGE_SOURCES = ("photos", "charts")
FILES = 4  # per source, so that a peer with worker processes has enough of them
RECORDS = 1_500  # per file of text
IMAGES = 100  # per file of images
WORDS = 8_000
VOCABULARY = 16_000
ROLES = ("system", "user", "assistant", "image")
TOKENS = {f"{role}_{end}": f"<|{slash}{role}|>" for role in ROLES for end, slash in (("start", ""), ("end", "/"))}


class Words:
    """Made-up words, as often as those of a language: few of them make up half of a text."""

    def __init__(self, random: np.random.Generator) -> None:
        letters = np.array(list("etaoinshrdlcumwfgypbvk"))
        lengths = np.clip(random.poisson(5, WORDS), 1, 14)
        written = "".join(random.choice(letters, lengths.sum()))
        ends = np.cumsum(lengths)
        self._words = np.array([written[end - length : end] for end, length in zip(ends, lengths, strict=True)])
        odds = 1 / (np.arange(WORDS) + 10)
        self._drawn = random.choice(self._words, 200_000, p=odds / odds.sum())
        self._random = random

    def text(self, count: int) -> str:
        start = int(self._random.integers(len(self._drawn) - count))
        return " ".join(self._drawn[start : start + count]) + "."


def conversations(words: Words, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    """Of 2 to 8 messages, about 1 kB together; lengths differ as those of instruction data do."""
    for _ in range(count):
        messages = []
        for _ in range(int(random.integers(1, 5))):
            messages.append({"role": "user", "content": words.text(int(random.integers(4, 40)))})
            spoken = int(np.clip(random.lognormal(3.7, 0.8), 2, 600))
            messages.append({"role": "assistant", "content": words.text(spoken)})
        yield {"messages": messages}


def photo(random: np.random.Generator) -> bytes:
    """A JPEG file of 512 × 384 pixels, about 40 kB."""
    from PIL import Image

    small = random.integers(0, 256, (24, 32, 3), dtype=np.uint8)
    large = np.asarray(Image.fromarray(small).resize((512, 384), Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = np.clip(large + random.normal(0, 8, large.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).save(file, "JPEG", quality=85)
    return file.getvalue()


def make_texts(folder: Path) -> None:
    random = np.random.default_rng(1)
    words = Words(random)
    for name in TEXT_SOURCES:
        for number in range(FILES):
            lines = [json.dumps(record) for record in conversations(words, random, RECORDS)]
            (folder / f"{name}-{number}.jsonl").write_text("\n".join(lines) + "\n")


def make_images(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(2)
    words = Words(random)
    for name in IMAGE_SOURCES:
        for number in range(FILES):
            images = [{"bytes": photo(random), "path": f"{row}.jpg"} for row in range(IMAGES)]
            questions = [words.text(12) for _ in images]
            answers = [words.text(30) for _ in images]
            table = pa.table({"image": images, "question": questions, "answer": answers})
            pq.write_table(table, folder / f"{name}-{number}.parquet", row_group_size=IMAGES)


def make_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|end|>", *TOKENS.values()]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train([str(folder / "ask-0.jsonl"), str(folder / "code-0.jsonl")], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.save_pretrained(folder / "tokenizer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/chat"))
    folder = parser.parse_args().folder
    if (folder / "tokenizer").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    make_texts(folder)
    make_images(folder)
    make_tokenizer(folder)


if __name__ == "__main__":
    main()
