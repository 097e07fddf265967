"""Small datasets of invented records, real media, and what a ``TrueStreamingDataset`` needs beside them."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from penstock.compat.multimodal import TrueStreamingDataset

MEDIA = Path(__file__).parents[2] / "data/chat/media"
PAIRS = ("system", "user", "assistant", "image", "video", "audio")
GENERATED = ("tool_call", "gen_image", "gen_video", "gen_audio")
TOKENS = {
    **{f"{name}_start": f"<|{name}|>" for name in PAIRS},
    **{f"{name}_end": f"<|/{name}|>" for name in PAIRS},
    **{name: f"<|{name}|>" for name in GENERATED},
    **{f"{name}_end": f"<|/{name}|>" for name in GENERATED},
}


class Letters:
    """A tokenizer that is called as in the document: a token per byte. The pad token is also the end of a text."""

    pad_token_id = 3

    def __call__(self, text: str, *, max_length: int, truncation: bool, padding: str, return_tensors: str) -> Any:
        assert (truncation, padding, return_tensors) == (True, "max_length", "pt")
        ids = [*text.encode(), self.pad_token_id][:max_length]
        left = max_length - len(ids)
        return SimpleNamespace(
            input_ids=torch.tensor([ids + [self.pad_token_id] * left]),
            attention_mask=torch.tensor([[1] * len(ids) + [0] * left]),
        )


def as_it_is(sample: Mapping[str, Any], tokens: Mapping[str, str]) -> dict[str, Any] | None:
    """A format function: records pass, those that say so are rejected."""
    return None if sample.get("bad") else dict(sample)


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    text = "".join(json.dumps(record) + "\n" for record in records)
    if not path.exists() or path.read_text() != text:  # workers may be reading it: a new file would be another version
        path.write_text(text)
    return str(path)


def entry(path: str, name: str = "", **keys: Any) -> dict[str, Any]:
    return {"name": name or Path(path).stem, "path": path, "local": True, **keys}


def lines(folder: Path, name: str, count: int, bad: Iterable[int] = ()) -> dict[str, Any]:
    """An entry with records ``name-0``, ``name-1``, …, of which some are rejected. The file is written once."""
    path = folder / f"{name}.jsonl"
    if path.exists():  # a file that is written again is another one to a run that reads it
        return entry(str(path))
    rejected = set(bad)
    records = [{"text": f"{name}-{number}", "bad": number in rejected} for number in range(count)]
    return entry(write(path, records))


def opened(
    folder: Path,
    configs: dict[str, list[dict[str, Any]]],
    *,
    kind: type[TrueStreamingDataset] = TrueStreamingDataset,
    functions: dict[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> TrueStreamingDataset:
    """A dataset whose functions let records pass, if no others are given."""
    given = {
        "tokenizer": Letters(),
        "tokens": TOKENS,
        "image_processor": None,
        "max_length": 16,
        "cache": {"dir": str(folder / "cache"), "size": "1GB"},
        "rank": 0,
        "world_size": 1,
    }
    return kind(configs, functions or dict.fromkeys(configs, as_it_is), **{**given, **options})


def texts(samples: Iterable[dict[str, Any]]) -> list[str]:
    return [sample["text"] for sample in samples]
