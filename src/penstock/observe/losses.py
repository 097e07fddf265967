"""Records the losses that a trainer reports, and appends them to the ledger as lines of their own.

The loader is ahead of the trainer, so the line of a step is often written before its losses are known. Knows tensors
and files; knows nothing of samples.
"""

import atexit
import json
import os
import socket
import sys
import threading
import time
import weakref
from array import array
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.feed import Feed
from penstock.feed.state import listed_segments
from penstock.observe.appending import LineFile
from penstock.runtime.forking import reset_in_children

LOSSES = "losses"
"""``kind`` of a line with losses."""

VERSION = 1
"""Version of these lines."""

Floats = npt.NDArray[np.float32]

_NO_NORM = float("nan")
_FEW = 64  # numbers of a tensor that are faster to read one by one


class LossLedger:
    """Collects the losses of a rank, and appends a line after every ``every`` steps.

    Tensors are copied when they are reported, on their device, and read when a line is written: a report does not wait
    for the device.

    Args:
        feed: Feed of the run.
        path: File to append to. It and its folder are created if necessary.
        every: Number of steps per line.
    """

    def __init__(self, feed: Feed, path: Path, *, every: int = 100) -> None:
        self._feed = feed
        self._path = path
        self._every = every
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.reset_after_fork()
        reset_in_children(self)
        _at_exit.add(self)

    def reset_after_fork(self) -> None:
        """Start without reports, also in a forked child: the parent writes its own."""
        self._lock = threading.RLock()
        self._file = LineFile(self._path)
        self._begin()

    def _begin(self) -> None:
        self._steps: list[int] = []  # of each report
        self._counts: list[int] = []
        self._rows: list[list[int] | None] = []
        self._losses = _Numbers()
        self._norms = _Numbers()
        self._different_steps = 0
        self._has_rows = False
        self._has_norms = False

    def add(self, step: int, losses: Any, rows: Sequence[int] | None, grad_norm: Any) -> None:
        """Add a report; see ``Feed.report``.

        Raises:
            ValueError: If losses have two dimensions or more, or not one loss per row.
        """
        if not hasattr(losses, "detach"):
            losses = np.asarray(losses, dtype=np.float32)
        count = _count(losses)
        listed = None if rows is None else [int(row) for row in rows]
        if listed is not None and losses.ndim and count != len(listed):
            raise ValueError(f"{count} losses for {len(listed)} rows: expected one loss per row, or a scalar")
        step = int(step)
        with self._lock:
            if not self._steps or self._steps[-1] != step:
                if self._different_steps >= self._every:  # a line holds all micro-batches of its steps
                    self._flush()
                self._different_steps += 1
            self._steps.append(step)
            self._counts.append(count)
            self._rows.append(listed)
            self._losses.add(losses, count)
            self._norms.add(_NO_NORM if grad_norm is None else grad_norm, 1)
            self._has_rows |= listed is not None
            self._has_norms |= grad_norm is not None

    def flush(self) -> None:
        """Write a line with the reports since the last one, and lines that could not be written before."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if not self._steps:
            self._file.write()
            return
        steps = self._steps
        first = min(steps)
        last = max(steps)
        line = {
            "kind": LOSSES,
            "version": VERSION,
            **self._origin(last),
            "steps": steps,
            "counts": self._counts,
            "losses": self._losses.encoded(),
        }
        if self._has_rows:
            line["rows"] = self._rows
        if self._has_norms:
            line["grad_norms"] = self._norms.encoded()
        self._file.add((first, last + 1), json.dumps(line).encode())
        self._begin()

    def close(self) -> None:
        """Flush, and log steps that could not be written."""
        with self._lock:
            self._flush()
            self._file.close()

    def _origin(self, last: int) -> dict[str, Any]:
        """Return the keys that say which run wrote a line, as in other lines of the ledger."""
        feed = self._feed
        timeline = feed.timeline(feed.world)
        found = {
            "time": round(time.time(), 3),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "rank": feed.rank,
            "world": feed.world,
            "segments": listed_segments(timeline),
            "fingerprint": feed.identity.fingerprint(timeline.end_slot(last)),
        }
        return found if timeline.epoch is None else {**found, "epoch": timeline.epoch}

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self.close()


_at_exit: "weakref.WeakSet[LossLedger]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Write what a script that ends without ``feed.close()`` has reported."""
    for each in list(_at_exit):
        each.close()


def _count(losses: Any) -> int:
    """Return the number of losses, of a tensor or an array.

    Raises:
        ValueError: If they have two dimensions or more.
    """
    dimensions = losses.ndim
    if dimensions > 1:
        raise ValueError(
            f"losses of shape {list(losses.shape)}: expected one per sample, [B], or a scalar; "
            "penstock.per_sample_loss makes them of the losses of tokens"
        )
    return int(losses.shape[0]) if dimensions else 1


class _Numbers:
    """Numbers as float32. Tensors on a device are copied there, and read all at once."""

    def __init__(self) -> None:
        self._values = array("f")
        self._on_device: list[tuple[int, Any]] = []  # with their place among the values

    def add(self, value: Any, count: int) -> None:
        """Add a number, an array or a tensor of ``count`` numbers."""
        if type(value) is float:
            self._values.append(value)
        elif not hasattr(value, "detach"):
            self._values.frombytes(np.asarray(value, dtype=np.float32).tobytes())
        elif not value.is_cpu:
            # The caller may change it in place, or a CUDA graph may reuse its memory.
            self._on_device.append((len(self._values), value.detach().clone()))
            self._values.frombytes(bytes(4 * count))
        elif not value.ndim:
            self._values.append(value.item())
        elif count <= _FEW:
            self._values.fromlist(value.tolist())  # 16 numbers in 0.7 µs instead of 1.5
        else:
            self._values.frombytes(value.float().numpy(force=True).tobytes())

    def encoded(self) -> str:
        """Return the numbers as text: base64 of little-endian float32. JSON numbers have no NaN and take longer."""
        values = np.frombuffer(self._values, dtype=np.float32)
        if self._on_device:
            import torch

            device = self._on_device[0][1].device
            tensors = [tensor.to(device, torch.float32).reshape(-1) for _, tensor in self._on_device]
            places = [np.arange(start, start + tensor.numel()) for start, tensor in self._on_device]
            values[np.concatenate(places)] = torch.cat(tensors).cpu().numpy()
        return b64encode(values.astype("<f4", copy=False).tobytes()).decode()
