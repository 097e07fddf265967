"""Feeds without data, for what a loader does with batches of any kind. Worker processes import them from here."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed.steps import Steps


@dataclass(frozen=True)
class Arrays:
    """Batches of one array whose every value is the step, and the pid of who made it."""

    values: int = 10_000

    def __getitem__(self, step: int) -> dict[str, Any]:
        return {"step": step, "wav": np.full(self.values, step, dtype=np.float32), "pid": os.getpid()}


@dataclass(frozen=True)
class Growing:
    """Batches whose arrays have another size at every step, up and down."""

    def __getitem__(self, step: int) -> dict[str, Any]:
        return {"step": step, "tokens": np.full(1 + (step * 7919) % 50_000, step, dtype=np.int64)}


@dataclass(frozen=True)
class Tensors:
    """Batches of torch tensors of every kind that a recipe may make, beside numpy arrays."""

    def __getitem__(self, step: int) -> dict[str, Any]:
        import torch

        table = torch.arange(24, dtype=torch.int64).reshape(4, 6) + step
        return {
            "step": step,
            "float": torch.full((3, 5), float(step)),
            "half": torch.full((7,), float(step), dtype=torch.bfloat16),
            "bool": table % 2 == 0,
            "transposed": table.T,
            "scalar": torch.tensor(step),
            "empty": torch.zeros((0, 4)),
            "nested": {"numpy": np.full((2, 2), step), "list": [table, "text"]},
        }


@dataclass(frozen=True)
class Nested:
    """Batches of tensors and arrays within lists and dicts, and of torch's nested tensors."""

    def __getitem__(self, step: int) -> dict[str, Any]:
        import torch

        rows = [np.full(1 + size, step) for size in range(3)]
        tensors = list(map(torch.from_numpy, rows))
        return {
            "jagged": torch.nested.nested_tensor(tensors, layout=torch.jagged),
            "strided": torch.nested.nested_tensor(tensors, layout=torch.strided),
            "media": {"images": tensors, "clips": rows, "files": (b"a" * step, {"rate": step})},
        }


class Empty:
    """Batches whose only array is empty."""

    def __getitem__(self, step: int) -> dict[str, Any]:
        return {"step": step, "images": np.zeros((0, 3), dtype=np.uint8)}


@dataclass(frozen=True)
class Bytes:
    """Batches of many bytes, which are no array."""

    size: int = 4_000_000

    def __getitem__(self, step: int) -> dict[str, Any]:
        return {"step": step, "pid": os.getpid(), "bytes": step.to_bytes(8, "little") * (self.size // 8)}


class OddError(Exception):
    """An exception that can't be pickled back: its arguments are not those of its constructor."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"step {step}: {reason}")


@dataclass(frozen=True)
class Failing:
    """Fails at step 3 in the given way, as long as the file is there."""

    how: str
    while_there: Path

    def __getitem__(self, step: int) -> dict[str, Any]:
        if step == 3 and self.while_there.exists():
            if self.how == "raise":
                raise LookupError("no such thing at step 3")
            if self.how == "odd":
                raise OddError(step, "an odd one")
            if self.how == "unpicklable batch":
                return {"step": step, "made": lambda: None}
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(7)
        return {"step": step, "pid": os.getpid()}


class Unopenable:
    """Can't be opened in a worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_nothing, ()

    def __getitem__(self, step: int) -> dict[str, Any]:
        raise AssertionError("never reached")


def open_nothing() -> None:
    raise FileNotFoundError("the filelist is gone")


@dataclass(frozen=True)
class Slow:
    """Takes its time, so that what is asked for is being made when something happens."""

    def __getitem__(self, step: int) -> dict[str, Any]:
        time.sleep(0.05)
        return {"step": step, "pid": os.getpid()}


class Walked:
    """What an engine walks: the steps of a feed, or of a function."""

    def __init__(self, make: Callable[[int], Any], steps: Steps) -> None:
        self.units = make
        self.steps = steps
        self.closed = False

    def close(self) -> None:
        self.closed = True


def walking(make: Any) -> Callable[[Steps], Walked]:
    """What opens walks over a feed, or over a function of the step."""
    return partial(Walked, make if callable(make) else make.__getitem__)
