"""Receipts of runs that change: resumed on other worlds, with substitutes, other mixtures, ends and orders."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.feed import Feed
from penstock.observe.receipt import Receipt, read_receipt, subtree_steps, tree_root
from tests.cli.commands import complaint, config_of, run
from tests.observe.page.runs import write_config

CHANGE = 42  # sample from which on the other mixture is used: in step 10


def made(config: Path, steps: str, *options: object) -> Receipt:
    """A receipt that agrees with its run."""
    out = config.with_name("run.receipt")
    out.unlink(missing_ok=True)
    for command in (("receipt", config, "--steps", steps, "-o", out, *options), ("verify", out)):
        result = run(*command)
        assert result.exit_code == 0, result.output
    return read_receipt(out)


def root_by_hand(feed: Feed, steps: range) -> str:
    """The root of a receipt without content, computed as the documentation says and from what ``plan`` prints."""

    def tree(nodes: list[bytes]) -> bytes:  # RFC 6962
        if len(nodes) == 1:
            return nodes[0]
        half = 1 << (len(nodes) - 1).bit_length() - 1
        return hashlib.sha256(b"\1" + tree(nodes[:half]) + tree(nodes[half:])).digest()

    leaves = []
    for step in steps:
        samples: list[list[str] | None] = [None] * feed.plan.rows(step, 0, 1, feed.timeline(1))
        for line in feed.lines(step, 0, 1):
            samples[line.slot] = [line.source, f"{line.group}:{line.item}", ""]
        text = json.dumps([step, samples], separators=(",", ":"))
        leaves.append(hashlib.sha256(b"\0" + text.encode()).digest())
    count = min(128, len(leaves))
    bounds = [number * len(leaves) // count for number in range(count + 1)]
    return tree([tree(leaves[bounds[n] : bounds[n + 1]]) for n in range(count)]).hex()


@pytest.mark.parametrize("steps", [1, 7, 131])
def test_the_root_is_that_of_the_documentation(tmp_path: Path, steps: int) -> None:
    config = config_of(tmp_path)
    found = made(config, f"3:{3 + steps}")
    assert found.root == root_by_hand(penstock.open(config), range(3, 3 + steps))
    assert tree_root(map(base64.b64decode, found.subtrees)).hex() == found.root
    assert sum(map(len, subtree_steps(range(3, 3 + steps)))) == steps


def walk(config: Path, state: dict[str, Any] | None, world: int, steps: int) -> dict[str, Any]:
    """Take batches on all ranks. Returns the state after them."""
    for rank in range(world):
        feed = penstock.open(config, rank=rank, world=world)
        with feed.loader(threads=0) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for _ in range(steps):
                next(loader)
            after = loader.state_dict()
        feed.close()
    found: dict[str, Any] = json.loads(json.dumps(after))
    return found


RUNS: dict[str, tuple[str, tuple[str, str], dict[str, Any]]] = {
    "raw": ("raw", ("files/files0", "files/files1"), {}),
    "speech": ("speech", ("voices/voice0", "voices/voice1"), {"speech": {"features": False}}),
    "chat": ("chat", ("talk", "more<script>"), {}),
    "packs": ("chat", ("talk", "more<script>"), {"chat": {"pack": True, "max_length": 1024}}),
    "robot": ("robot", ("left", "right"), {}),
}


@pytest.mark.parametrize("name", ["raw", *(pytest.param(name, marks=pytest.mark.long) for name in list(RUNS)[1:])])
def test_a_run_that_resumed_on_other_worlds_with_another_mixture_has_one_receipt(name: str, tmp_path: Path) -> None:
    recipe, (first, second), options = RUNS[name]
    mixture = [{"weights": {first: 1, second: 1}}, {"at": CHANGE, "weights": {first: 9, second: 1}}]
    usage = {"log": "usage.jsonl", "every": 4, "ids": True}
    config = write_config(tmp_path, [recipe], mixture=mixture, usage=usage, **options)
    state = walk(config, None, 2, 8)
    walk(config, state, 2, 5)  # steps 8 to 12, which are repeated
    config.write_text(config.read_text().replace("global_batch_size: 4", "global_batch_size: 6"))
    after = walk(config, state, 3, 8)
    found = made(config, "0:16", "--ledger", tmp_path / "usage.jsonl")
    assert found.state["segments"] == [[0, 0, 4], [8, 32, 6]] and found.samples == 8 * 4 + 8 * 6
    assert found.ledger is not None and found.ledger.bad
    assert found.ledger.covers == ["steps 0 to 7 of all 2 ranks", "steps 8 to 15 of all 3 ranks"]
    saved = tmp_path / "state.json"
    saved.write_text(json.dumps(after))
    assert made(config, "0:16", "--state", saved).root == found.root, "the state has the same batch sizes"
    assert made(config, "8:16", "--ledger", tmp_path / "usage.jsonl").samples == 48
    out = tmp_path / "plain.receipt"
    assert run("receipt", config, "--steps", "0:16", "-o", out).exit_code == 0
    assert read_receipt(out).root != found.root, "without either, the batch size of the config counts from step 0 on"


def test_a_finite_run_ends_with_padding(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=2, global_batch_size=7)
    feed = penstock.open(config, rank=0, world=1)
    steps = len(feed.steps())
    found = made(config, f"0:{steps}")
    assert found.samples == 2 * sum(feed.catalog.amounts["items"]) < 7 * steps
    assert found.root == root_by_hand(feed, range(steps))
    out = tmp_path / "long.receipt"
    said = complaint(run("receipt", config, "--steps", f"0:{steps + 1}", "-o", out))
    assert said == f"step {steps}: the run has {steps} steps" and not out.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"mixture": {"rounds": {"max_per_epoch": 20, "repeat": 2}}, "global_batch_size": 3},
        {"shuffle": False, "mixture": {"rounds": {}}, "global_batch_size": 3},
        {"lanes": 2, "mixture": {"weights": "hours"}, "global_batch_size": 4},
    ],
    ids=["rounds", "file order", "lanes"],
)
def test_other_orders_have_receipts(tmp_path: Path, options: dict[str, Any]) -> None:
    config = config_of(tmp_path, **options)
    assert made(config, "0:40").root == root_by_hand(penstock.open(config, rank=0, world=1), range(40))


def test_batches_per_rank_count_with_the_number_of_ranks(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    options = yaml.safe_load(config.read_text())
    del options["global_batch_size"]
    config.write_text(yaml.safe_dump({**options, "batch_size": 3}))
    assert made(config, "0:10", "--world", 4).samples == 120


def test_the_sum_of_several_ledgers_is_checked(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    options = yaml.safe_load(config.read_text())
    for rank in range(2):
        config.write_text(yaml.safe_dump({**options, "usage": {"log": f"node-{rank}.jsonl", "every": 5}}))
        with penstock.open(config, rank=rank, world=2).loader(threads=0) as loader:
            for _ in range(10):
                next(loader)
    logs = [tmp_path / f"node-{rank}.jsonl" for rank in range(2)]
    found = made(config, "0:10", "--ledger", logs[0], "--ledger", logs[1])
    assert found.ledger is not None and found.ledger.covers == ["steps 0 to 9 of all 2 ranks"]
    said = complaint(run("receipt", config, "--steps", "0:10", "--ledger", logs[0], "-o", tmp_path / "one.receipt"))
    assert said.endswith("is not complete: rank 1 of 2: no line covers steps 0:10")
