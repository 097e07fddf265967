"""Losses of any type come back from the ledger as they were reported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock.feed import Feed
from penstock.observe.lines import grad_norms, loss_values, parse_line
from tests.observe.ledgers import opened


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on a device: there is none here."""

    is_cpu = property(lambda _: False)  # type: ignore[assignment]


def on_device(*values: float) -> torch.Tensor:
    return torch.tensor(values).as_subclass(DeviceTensor)


def written(log: Path) -> tuple[list[float], list[float]]:
    [text] = log.read_text().splitlines()
    line: Any = parse_line(text)
    return loss_values(line).tolist(), grad_norms(line).tolist()


@pytest.mark.parametrize("count", [1, 9, 64, 65, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_tensors_of_any_type_are_copied(damaged: Path, tmp_path: Path, count: int, dtype: torch.dtype) -> None:
    feed = opened(damaged, global_batch_size=9, usage={"log": tmp_path / "usage.jsonl"})
    losses = torch.arange(count).to(dtype)
    expected = losses.tolist()
    feed.report(0, losses, grad_norm=losses.sum())
    losses.zero_()
    feed.close()
    assert written(tmp_path / "usage.jsonl") == (expected, [pytest.approx(sum(range(count)), rel=0.01)])


def test_tensors_on_a_device_are_read_in_their_places(damaged: Path, tmp_path: Path) -> None:
    feed = opened(damaged, global_batch_size=9, usage={"log": tmp_path / "usage.jsonl"})
    late = on_device(1.0, 2.0)
    feed.report(0, late, grad_norm=on_device(0.5)[0])
    late.fill_(7.0)
    feed.report(1, [3.0, 4.0])
    feed.report(2, on_device(5.0)[0], grad_norm=0.25)
    feed.report(3, np.array([6.0], dtype=np.float16))
    feed.close()
    losses, norms = written(tmp_path / "usage.jsonl")
    assert losses == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(norms, [0.5, np.nan, 0.25, np.nan], equal_nan=True)


def test_of_ranks_that_get_the_same_batches_one_reports(damaged: Path, tmp_path: Path) -> None:
    feed = opened(damaged, global_batch_size=9, usage={"log": tmp_path / "usage.jsonl"})
    copy = Feed(feed.config, feed._opened, rank=0, world=1, recording=False)
    copy.report(0, 1.0)
    copy.close()
    assert not (tmp_path / "usage.jsonl").exists()
    feed.report(0, 1.0)
    feed.close()
    assert json.loads((tmp_path / "usage.jsonl").read_text())["counts"] == [1]
