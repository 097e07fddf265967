"""The chat job by Hugging Face ``datasets``, as its documentation recommends: streaming, interleaved, a batched map.

Labels are on everything but padding, which is less work than ours: we find the assistant's turns.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from chat_data import IMAGE_SOURCES, TEXT_SOURCES, TOKENS

BATCH = 16
LENGTH = 1_024
IMAGE_SIZE = 256
BUFFER = 1_000
Batches = Iterator[dict[str, Any]]


def forever(loader: Any) -> Batches:
    while True:
        yield from loader


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder / "tokenizer")


def conversation_text(messages: list[dict[str, str]]) -> str:
    return "".join(TOKENS[f"{m['role']}_start"] + m["content"] + TOKENS[f"{m['role']}_end"] for m in messages)


def question_text(question: str, answer: str) -> str:
    image = TOKENS["image_start"] + TOKENS["image_end"]
    asked = TOKENS["user_start"] + image + question + TOKENS["user_end"]
    return asked + TOKENS["assistant_start"] + answer + TOKENS["assistant_end"]


def encoded(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """Tokens as arrays: of lists, ``with_format("torch")`` made 13 times fewer samples per second."""
    made = tokenizer(texts, max_length=LENGTH, truncation=True, padding="max_length", return_tensors="np")
    labels = made["input_ids"].copy()
    labels[made["attention_mask"] == 0] = -100
    return {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"], "labels": labels}


def tokenized(records: dict[str, list[Any]], tokenizer: Any) -> dict[str, Any]:
    return encoded(tokenizer, [conversation_text(messages) for messages in records["messages"]])


def pictured(records: dict[str, list[Any]], tokenizer: Any, processor: Any) -> dict[str, Any]:
    texts = [question_text(*pair) for pair in zip(records["question"], records["answer"], strict=True)]
    size = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    images = [image.convert("RGB") for image in records["image"]]
    pixels = processor(images, return_tensors="np", size=size)["pixel_values"]
    return {**encoded(tokenizer, texts), "images": list(pixels)}


def loaded(mixed: Any, workers: int) -> Batches:
    from torch.utils.data import DataLoader

    return forever(DataLoader(mixed.with_format("torch"), batch_size=BATCH, num_workers=workers))


def datasets_text(folder: Path, workers: int) -> Batches:
    from datasets import interleave_datasets, load_dataset

    def source(name: str) -> Any:
        files = sorted(map(str, folder.glob(f"{name}-*.jsonl")))
        data = load_dataset("json", data_files=files, split="train", streaming=True)
        return data.shuffle(seed=0, buffer_size=BUFFER)

    mixed = interleave_datasets([source(name) for name in TEXT_SOURCES])
    make = partial(tokenized, tokenizer=load_tokenizer(folder))
    return loaded(mixed.map(make, batched=True, batch_size=BATCH, remove_columns=["messages"]), workers)


def datasets_image(folder: Path, workers: int, ours: bool = False) -> Batches:
    """With CLIP's processor of transformers, or with our own, which is faster."""
    from datasets import Features, Image, Value, interleave_datasets, load_dataset
    from transformers import CLIPImageProcessorPil

    columns = Features({"image": Image(), "question": Value("string"), "answer": Value("string")})

    def source(name: str) -> Any:
        files = sorted(map(str, folder.glob(f"{name}-*.parquet")))
        data = load_dataset("parquet", data_files=files, split="train", streaming=True, features=columns)
        return data.shuffle(seed=0, buffer_size=100)

    processor: Any = CLIPImageProcessorPil(do_center_crop=False)
    if ours:
        processor = _our_processor
    mixed = interleave_datasets([source(name) for name in IMAGE_SOURCES])
    make = partial(pictured, tokenizer=load_tokenizer(folder), processor=processor)
    return loaded(mixed.map(make, batched=True, batch_size=BATCH, remove_columns=list(columns)), workers)


def _our_processor(images: list[Any], *, size: dict[str, int], return_tensors: str) -> dict[str, Any]:  # noqa: ARG001
    from penstock.media.image.processor import ImageProcessor

    return {"pixel_values": ImageProcessor()(images, size=size).pixel_values.numpy()}


LOADERS = {
    "text": {"datasets": datasets_text},
    "image": {"datasets": datasets_image, "datasets, our processor": partial(datasets_image, ours=True)},
}
