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
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.feed import Feed
from penstock.observe.appending import LineFile
from penstock.runtime.forking import reset_in_children

LOSSES = "losses"
"""``kind`` of a line with losses."""

VERSION = 1
"""Version of these lines."""

Floats = npt.NDArray[np.float32]


class _PendingReport(NamedTuple):
    step: int
    losses: Any  # a tensor of one dimension or none, an array, or a number
    rows: list[int] | None
    grad_norm: Any


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
        self._reports: list[_PendingReport] = []
        self._steps = 0

    def add(self, step: int, losses: Any, rows: Sequence[int] | None, grad_norm: Any) -> None:
        """Add a report; see ``Feed.report``.

        Raises:
            ValueError: If losses have two dimensions or more, or not one loss per row.
        """
        kept = _kept(losses)
        if getattr(kept, "ndim", 0) > 1:
            raise ValueError(
                f"losses of shape {list(kept.shape)}: expected one per sample, [B], or a scalar; "
                "penstock.per_sample_loss makes them of the losses of tokens"
            )
        listed = None if rows is None else [int(row) for row in rows]
        if listed is not None and _count(kept) not in (None, len(listed)):
            raise ValueError(f"{_count(kept)} losses for {len(listed)} rows: expected one loss per row, or a scalar")
        with self._lock:
            if not self._reports or self._reports[-1].step != step:
                if self._steps >= self._every:  # a line holds all micro-batches of its steps
                    self._flush()
                self._steps += 1
            self._reports.append(
                _PendingReport(int(step), kept, listed, None if grad_norm is None else _kept(grad_norm))
            )

    def flush(self) -> None:
        """Write a line with the reports since the last one, and lines that could not be written before."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if not self._reports:
            self._file.write()
            return
        reports = self._reports
        steps = [report.step for report in reports]
        losses = [report.losses for report in reports]
        line = {
            "kind": LOSSES,
            "version": VERSION,
            **self._origin(max(steps)),
            "steps": steps,
            "counts": [1 if (count := _count(each)) is None else count for each in losses],
            "losses": encoded(_read(losses)),
        }
        if any(report.rows is not None for report in reports):
            line["rows"] = [report.rows for report in reports]
        norms = [np.nan if report.grad_norm is None else report.grad_norm for report in reports]
        if any(report.grad_norm is not None for report in reports):
            line["grad_norms"] = encoded(_read(norms))
        self._file.add((min(steps), max(steps) + 1), json.dumps(line).encode())
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
            "segments": [list(segment) for segment in timeline.segments],
            "fingerprint": feed.identity.fingerprint(timeline.batch(last + 1)[0]),
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


def _kept(value: Any) -> Any:
    """Return a copy of a tensor without its graph, on its device; a number or an array of anything else."""
    if not hasattr(value, "detach"):
        return np.array(value, dtype=np.float32)
    if not value.is_cpu:
        return value.detach().clone()  # the caller may change it in place, or a CUDA graph may reuse its memory
    if not value.ndim:
        return value.item()
    try:
        return value.numpy(force=True).copy()
    except TypeError:  # bfloat16, which numpy does not have
        return value.float().numpy(force=True)


def _count(kept: Any) -> int | None:
    """Return the number of losses; None for a scalar."""
    return kept.shape[0] if getattr(kept, "ndim", 0) else None


def _read(values: Sequence[Any]) -> Floats:
    """Return all numbers as one array. Waits for the device of tensors, once."""
    if any(hasattr(value, "detach") for value in values):
        import torch

        device = next(value.device for value in values if hasattr(value, "detach"))
        tensors = [torch.as_tensor(value).to(device, torch.float32).reshape(-1) for value in values]
        read: Floats = torch.cat(tensors).cpu().numpy()
        return read
    if any(getattr(value, "ndim", 0) for value in values):
        return np.concatenate([value if getattr(value, "ndim", 0) else np.atleast_1d(value) for value in values])
    return np.array(values, dtype=np.float32)


def encoded(values: Floats) -> str:
    """Return numbers as text: base64 of little-endian float32. Not JSON numbers, which have no NaN and take longer."""
    return b64encode(values.astype("<f4", copy=False).tobytes()).decode()
