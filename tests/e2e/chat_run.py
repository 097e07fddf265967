"""Runs over the demo files of tests/data/chat, from a folder or from a bucket."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import torch

from tests.e2e.chat_golden import FRAMES, MEDIA, NAMED, SIZE
from tests.text.formats.test_demo_files import DATA, FILES
from tests.text.made_tokenizers import byte_level
from tests.text.rendering import TOKENS

MODALITIES = {"mllm_demo.json": "image", "mllm_video_demo.json": "video", "mllm_audio_demo.json": "audio"}
BATCH_KEYS = {"image": "images", "video": "videos", "audio": "audio"}


def copy_files(folder: Path) -> None:
    """Lay the files out as their authors did, and a tokenizer beside them."""
    for name in FILES:
        shutil.copy(DATA / name, folder / name)
    shutil.copytree(MEDIA, folder / NAMED)
    tokenizer = byte_level()
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS.values())})
    tokenizer.save_pretrained(folder / "tokenizer")


def source(name: str, where: object, **keys: Any) -> dict[str, Any]:
    return {"name": Path(name).stem, "dtype": FILES[name][0], "path": f"{where}/{name}", **keys}


def chat_run(folder: Path, sources: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """The keys of a run."""
    keys = {"recipe": "chat", "global_batch_size": 4, "seed": 5, "sources": sources}
    cache = {"dir": str(folder / "cache"), "size": "1GB"}
    section = {
        "tokenizer": str(folder / "tokenizer"),
        "tokens": TOKENS,
        "max_length": 8192,
        "image_size": SIZE,
        "video_size": SIZE,
        "max_video_frames": FRAMES,
    }
    return {**keys, "cache": cache, **options, "chat": {**section, **options.get("chat", {})}}


def digest(batch: dict[str, Any]) -> str:
    """A digest of all that reaches a trainer."""
    found = hashlib.sha256()
    for key in sorted(batch):
        value = batch[key]
        found.update(key.encode())
        found.update(value.numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode())
    return found.hexdigest()
