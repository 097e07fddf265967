"""Runs whose training loop reports losses: of one item always a high one."""

from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
from tests.observe.ledgers import opened

HARD = "bengali_0_3"


def train(feed: Feed, start: int, steps: int, *, hard: str = HARD, micro: int = 0) -> None:
    """Walk over a feed and report a loss of 9 for one item, and of about 1 for all others."""
    with feed.loader(start=start, threads=0) as loader:
        for _ in range(steps):
            batch = next(loader)
            losses = losses_of(batch, hard)
            if not micro:
                feed.report(batch["step"], losses, grad_norm=float(losses.max()))
                continue
            for low in range(0, len(losses), micro):
                rows = range(low, min(len(losses), low + micro))
                feed.report(batch["step"], losses[rows.start : rows.stop], rows=rows)


def losses_of(batch: dict[str, Any], hard: str = HARD) -> Any:
    noise = np.random.default_rng(batch["step"]).uniform(0.9, 1.1, len(batch["ids"]))
    return np.array([9.0 if id == hard else float(each) for id, each in zip(batch["ids"], noise, strict=True)])


def trained(folder: Path, log: Path, steps: int = 40, **options: Any) -> Feed:
    keys = {"global_batch_size": 9, "usage": {"log": log, "every": 10}, **options}
    feed = opened(folder, **keys)
    train(feed, 0, steps)
    feed.close()
    return feed
