"""``plain`` and ``filmed``: makers of datasets. ``plain(seed=1)`` is a dataset over the same folder in every test."""

import warnings
from functools import partial
from typing import Any

import pytest

from penstock.compat.lerobot import StreamingLeRobotDataset
from tests.compat.lerobot.datasets import Make, write_filmed, write_plain


def _make(**options: Any) -> StreamingLeRobotDataset:
    return StreamingLeRobotDataset("someone/something", **{"episode_pool_size": 3, **options})


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return partial(_make, root=write_plain(tmp_path_factory.mktemp("plain")))


@pytest.fixture(scope="session")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return partial(_make, root=write_filmed(tmp_path_factory.mktemp("filmed")))


@pytest.fixture(autouse=True)
def more_workers_than_cores() -> None:
    warnings.filterwarnings("ignore", "This DataLoader will create")
