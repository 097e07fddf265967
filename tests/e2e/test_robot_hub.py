"""A robot run straight from the hub: a dataset at a revision, and a bucket. Files are read by ranges there, too."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock
from tests.e2e.robots import CAMERA, Robots, robot_run
from tests.servers.hub import COMMIT, Hub

pytestmark = pytest.mark.long

STEPS = (0, 1, 50)


@pytest.fixture
def robots(robots_with: Callable[[str], Robots]) -> Robots:
    return robots_with("in front")


@pytest.fixture
def hub(robots: Robots) -> Iterator[Hub]:
    files = {path: (robots.folder / path).read_bytes() for path in robots.sizes}
    with Hub("org/name", files | {"sets/a/" + path: data for path, data in files.items()}, page=100) as running:
        yield running


@pytest.mark.parametrize(
    "url",
    [
        "hf://datasets/org/name",
        "hf://datasets/org/name@feature%2Fx",
        f"hf://datasets/org/name@{COMMIT}/sets/a",
        "hf://buckets/org/name",
        "hf://buckets/org/name/sets/a",
    ],
)
def test_batches_from_the_hub_are_those_of_the_folder(url: str, hub: Hub, robots: Robots, tmp_path: Path) -> None:
    near = penstock.open(robot_run(tmp_path / "near", robots.folder, pool=4), rank=0, world=1)
    feed = penstock.open(robot_run(tmp_path, url, remote={"endpoint": hub.url}, pool=4), rank=0, world=1)
    for step in STEPS:
        batch = feed.batch(step)
        own = near.batch(step)
        assert batch["ids"] == own["ids"] and batch["task"] == own["task"]
        for key in (CAMERA, "observation.state", "index"):
            assert np.array_equal(np.asarray(batch[key]), np.asarray(own[key]))
    feed.close()


def test_a_worker_process_neither_lists_the_hub_again_nor_resolves_the_revision(hub: Hub, tmp_path: Path) -> None:
    url = "hf://datasets/org/name@main"
    feed = penstock.open(robot_run(tmp_path, url, remote={"endpoint": hub.url}, pool=4), rank=0, world=1)
    with feed.loader(workers=2) as loader:
        batches = [batch for _, batch in zip(range(3), loader, strict=False)]
    assert [batch["step"] for batch in batches] == [0, 1, 2]
    assert hub.count("/revision/") == 1 and hub.count("/tree/") == 1


def test_a_revision_that_does_not_exist_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="hf://datasets/org/name@v9"):
        penstock.open(robot_run(tmp_path, "hf://datasets/org/name@v9", remote={"endpoint": hub.url}), rank=0, world=1)
