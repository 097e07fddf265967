"""What is replayed is what the loader gave, bit for bit: with substitutes, a change of mixture and of the world."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock
from penstock.cli.offline import open_offline
from tests.observe.page.runs import write_config

pytestmark = pytest.mark.long  # 50 steps of every recipe

STEPS = 60
STOP = 30
REPLAYED = 50
CHANGE = 130  # sample from which on the other mixture is used: in step 32
SOURCES = {
    "raw": ("files/files0", "files/files1"),
    "speech": ("voices/voice0", "voices/voice1"),
    "chat": ("talk", "more<script>"),
    "robot": ("left", "right"),
}


def is_same(first: Any, second: Any) -> bool:
    """Whether two values of batches are equal, with their types, shapes and bits."""
    if type(first) is not type(second):
        return False
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and first.shape == second.shape and is_same(first.numpy(), second.numpy())
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(is_same(value, second[key]) for key, value in first.items())
    if isinstance(first, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    return bool(first == second)


def walk(config: Path, state: dict[str, Any] | None, world: int, steps: int) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Take the batches of all ranks. Returns them by step, rank and world, and the state after them."""
    seen = {}
    for rank in range(world):
        feed = penstock.open(config, rank=rank, world=world)
        with feed.loader(threads=2) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for _ in range(steps):
                batch = next(loader)
                seen[batch["step"], rank, world] = {**batch, **_copied(batch)}  # buffers are used again
            after = loader.state_dict()
        feed.close()
    return seen, json.loads(json.dumps(after))


def _copied(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() for key, value in batch.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("raw", {}),
        ("speech", {"speech": {"features": True}}),
        ("chat", {}),
        ("chat", {"chat": {"pack": True, "max_length": 1024}}),
        ("robot", {}),
    ],
    ids=["raw", "speech", "chat", "packs", "robot"],
)
def test_replay_equals_what_the_loader_gave(recipe: str, options: dict[str, Any], tmp_path: Path) -> None:
    first, second = SOURCES[recipe]
    mixture = [{"weights": {first: 1, second: 1}}, {"at": CHANGE, "weights": {first: 9, second: 1}}]
    config = write_config(tmp_path, [recipe], mixture=mixture, **options)
    seen, state = walk(config, None, 2, STOP)
    config.write_text(config.read_text().replace("global_batch_size: 4", "global_batch_size: 6"))
    later, state = walk(config, state, 3, STEPS - STOP)
    seen |= later
    assert {step for step, _, _ in seen} == set(range(STEPS))
    bad = [each for batch in seen.values() for each in batch["bad"]]
    assert {each.outcome for each in bad} == {"padded" if recipe == "chat" and "chat" in options else "replaced"}
    shares = [_share(seen, first, steps) for steps in (range(STOP), range(STOP + 5, STEPS))]
    assert abs(shares[0] - 0.5) < 0.1 and abs(shares[1] - 0.9) < 0.1

    saved = tmp_path / "state.json"
    saved.write_text(json.dumps(state))
    feed = open_offline(config, None, None, saved)
    steps = random.Random(3).sample(range(STEPS), REPLAYED)
    places = [place for place in seen if place[0] in steps]
    assert {world for _, _, world in places} == {2, 3}
    assert [place for place in places if not is_same(feed.batch(*place), seen[place])] == []
    feed.close()


def _share(seen: dict[Any, Any], source: str, steps: range) -> float:
    drawn = [name for (step, _, _), batch in seen.items() if step in steps for name in batch["sources"]]
    return drawn.count(source) / len(drawn)


def test_the_check_would_see_one_bit() -> None:
    batch = {"wav": torch.zeros(2, 3), "ids": ["a", ["b", "c"]]}
    assert is_same(batch, {"wav": torch.zeros(2, 3), "ids": ["a", ["b", "c"]]})
    assert not is_same(batch, {**batch, "wav": -torch.zeros(2, 3)})
    assert not is_same(batch, {**batch, "wav": torch.zeros(3, 2)})
    assert not is_same(batch, {**batch, "ids": ["a", ["b", "d"]]})
