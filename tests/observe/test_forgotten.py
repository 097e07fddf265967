"""Training on from a clean checkpoint with ``exclude`` is, bit for bit, training without the items from the start."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import penstock
from penstock.curate.robot.writer import write_dataset
from tests.cli.commands import run
from tests.observe.page.runs import write_config
from tests.robots import FPS, ROWS, edit_table, episode

pytestmark = pytest.mark.long  # three runs of every recipe

STEPS = 30


def train(config: Path, folder: Path, checkpoint: Path | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train a small model that depends on every tensor of a batch, and save a checkpoint at every step.

    Returns:
        The state of model and optimizer, and the batches.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    feed = penstock.open(config, rank=0, world=1)
    batches = []
    folder.mkdir()
    with feed.loader(threads=2) as loader:
        start = 0
        if checkpoint is not None:
            saved = torch.load(checkpoint, weights_only=True)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(saved["data"])
            start = saved["data"]["step"]
        for step in range(start, STEPS):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": loader.state_dict()}
            torch.save(state, folder / f"step-{step}.pt")
            units = loader.next_step()
            assert {batch["step"] for batch in units} == {step}
            batches.append({name: list(chain(*(batch[name] for batch in units))) for name in ("ids", "rows", "bad")})
            for values in chain(*map(tensors, units)):
                optimizer.zero_grad()
                (model(values) - values).square().mean().backward()
                optimizer.step()
    feed.close()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, batches


def tensors(batch: dict[str, Any]) -> list[torch.Tensor]:
    """Every tensor of a batch, its values summed up in 64 numbers. Files count by their bytes."""
    found = [value for value in batch.values() if isinstance(value, torch.Tensor)]
    files = [file for sample in batch.get("records", []) for file in sample.values()]
    found += [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]
    flat = [each.double().flatten() for each in found if each.numel()]
    return [torch.nn.functional.adaptive_avg_pool1d(each[None], 64)[0].float().sin() for each in flat]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def latest(config: Path, batches: list[dict[str, Any]]) -> tuple[str, int]:
    """Return ``group:id`` of the item, or the episode, that was first used last, and that step."""
    feed = penstock.open(config, rank=0, world=1, usage=None)
    first: dict[str, int] = {}
    for step, batch in enumerate(batches):
        lost = {(bad.group, bad.id) for bad in batch["bad"] if bad.member is not None}
        for row, ids in zip(batch["rows"], batch["ids"], strict=True):
            [group] = feed.catalog.group_names([int(row)]) if row >= 0 else [""]  # padding
            for id in ids if isinstance(ids, list) else [ids]:
                name = group if "episode" in group else f"{group}:{id}"
                if group and (group, id) not in lost:
                    first.setdefault(name, step)
    return max(first.items(), key=lambda pair: pair[1])


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("raw", {}),
        ("speech", {"speech": {"features": True}}),
        ("chat", {}),
        ("packs", {"chat": {"pack": True, "max_length": 1024}}),
        ("robot", {}),
        ("speech", {"speech": {"crop": "full"}, "batch": {"seconds": 4, "window": 6}}),
        ("chat", {"batch": {"tokens": 1024, "window": 6}}),
    ],
    ids=["raw", "speech", "chat", "packs", "robot", "seconds", "tokens"],
)
def test_a_clean_checkpoint_and_exclude_give_the_model_that_never_saw_them(
    recipe: str, options: dict[str, Any], tmp_path: Path
) -> None:
    log = tmp_path / "usage.jsonl"
    kind = "chat" if recipe == "packs" else recipe
    usage = {"log": str(log), "every": 7}
    if recipe == "robot":
        episodes = [episode(number, 6, ["top"]) for number in range(8)]
        write_dataset(tmp_path / "arm", episodes, fps=FPS)
        edit_table(tmp_path / "arm", ROWS, {"observation.state": {4: None}})  # bad, so that there are substitutes
        options = {"sources": [{"name": "arm", "store": str(tmp_path / "arm")}]}
    if "batch" not in options:
        options = {"global_batch_size": 1 if recipe == "packs" else 2, **options}
    config = write_config(tmp_path, [kind], usage=usage, **options)
    original, batches = train(config, tmp_path / "first")
    name, step = latest(config, batches)
    if "batch" in options:  # a checkpoint is clean up to the start of the window
        step = penstock.open(config, rank=0, world=1, usage=None).timeline(1).window(step).first
    assert step > 0

    result = run("forget", config, name, "--ledger", log, "--checkpoints", tmp_path / "first")
    assert result.exit_code == 0, result.output
    assert f"newest clean checkpoint: {tmp_path / f'first/step-{step}.pt'} (step {step})" in result.stdout
    clean = tmp_path / f"first/step-{step}.pt"
    continued, later = train(config.with_suffix(".forget.yaml"), tmp_path / "second", clean)

    anew = yaml.safe_load(config.read_text())
    never = tmp_path / "never.yaml"
    never.write_text(yaml.safe_dump({**anew, "exclude": [{"items": [name]}], "usage": None}))
    without, all_of_it = train(never, tmp_path / "third")
    assert same(continued, without)
    assert not same(continued, original)
    assert [batch["ids"] for batch in later] == [batch["ids"] for batch in all_of_it[step:]]
    assert [batch["ids"] for batch in batches[:step]] == [batch["ids"] for batch in all_of_it[:step]]

    checked = run("usage", log, "--check", config.with_suffix(".forget.yaml"))
    assert checked.exit_code == 0, checked.output
    assert "episode" in name or run("where", config.with_suffix(".forget.yaml"), name, "--epochs", 3).stdout == ""
