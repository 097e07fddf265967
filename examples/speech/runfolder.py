"""The folder of a run. What is replaced is replaced whole: ``kill -9`` leaves the old or the new, never half.

- ``checkpoint.pt``: model, optimizers, state of the feed, changes.
- ``changes.json``: what was changed on the way, each with its step.
- ``feed.yaml``: the feed, with every mixture so far. ``penstock plan feed.yaml --steps 40:50`` replays it.
- ``logs/data_usage.jsonl``: what was used. ``penstock usage logs/data_usage.jsonl --check feed.yaml`` proves it.
- ``metrics.jsonl``: losses.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch
import yaml


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def save_checkpoint(self, content: Mapping[str, Any]) -> None:
        with _Replacement(self.path / "checkpoint.pt") as file:
            torch.save(dict(content), file)

    def checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint; None in a new run."""
        path = self.path / "checkpoint.pt"
        return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None

    def save_changes(self, records: Sequence[Mapping[str, Any]]) -> None:
        with _Replacement(self.path / "changes.json") as file:
            file.write(("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n").encode())

    def changes(self) -> list[dict[str, Any]]:
        path = self.path / "changes.json"
        return json.loads(path.read_text()) if path.exists() else []

    def save_feed(self, options: Mapping[str, Any]) -> None:
        with _Replacement(self.path / "feed.yaml") as file:
            file.write(yaml.safe_dump(dict(options), sort_keys=False).encode())

    def note(self, name: str, record: Mapping[str, Any]) -> None:
        """Append a line."""
        with (self.path / name).open("ab", buffering=0) as file:
            file.write(json.dumps(record).encode() + b"\n")


class _Replacement:
    """A file that takes the place of another when it is complete and on disk."""

    def __init__(self, path: Path) -> None:
        self._path, self._beside = path, path.with_name(path.name + ".new")

    def __enter__(self) -> IO[bytes]:
        self._file = self._beside.open("wb")
        return self._file

    def __exit__(self, failure: object, *_: object) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        if failure is None:
            self._beside.replace(self._path)
