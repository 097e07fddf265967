"""``penstock spikes``: what has high losses, and how to look at it."""

from pathlib import Path

import pytest

import penstock
from tests.cli.commands import config_of, run
from tests.observe.trained import HARD, train


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 5})
    feed = penstock.open(path, rank=0, world=1)
    train(feed, 0, 20)
    feed.close()
    return path


def test_steps_are_ranked_from_the_ledger_alone(config: Path) -> None:
    result = run("spikes", config.parent / "usage.jsonl", "--top", 2)
    assert result.exit_code == 0 and HARD not in result.output
    assert "240 losses" in result.output and "add --config CONFIG" in result.output
    assert "penstock replay CONFIG --steps" in " ".join(result.output.split())


def test_samples_sources_and_shards_are_ranked_with_the_config(config: Path) -> None:
    result = run("spikes", config.parent / "usage.jsonl", "--config", config)
    text = "".join(result.output.split())
    assert result.exit_code == 0 and f"bengali-0.tar:{HARD}" in text
    heads = [line.split()[0] for line in result.output.splitlines() if "look at it" in line]
    assert heads == ["step", "sample", "source", "shard"]
    feed = penstock.open(config, rank=0, world=1)
    steps = {use.step for _, use in feed.where(HARD, range(9))}
    assert any(f"penstockreplay{config}--steps{step}--rank0--world1--htmlstep-{step}.html" in text for step in steps)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "not a usage ledger"), ("{}\n", "not a usage ledger"), (None, "no such file")],
)
def test_what_is_no_ledger_is_one_sentence(tmp_path: Path, text: str | None, said: str) -> None:
    log = tmp_path / "log.jsonl"
    if text is not None:
        log.write_text(text)
    result = run("spikes", log)
    assert result.exit_code == 2 and said in result.output and len(result.output.splitlines()) == 1


def test_a_config_that_has_changed_and_a_ledger_without_losses_are_one_sentence(config: Path, tmp_path: Path) -> None:
    log = config.parent / "usage.jsonl"
    config.write_text(config.read_text() + "\nseed: 77\n")
    result = run("spikes", log, "--config", config)
    assert result.exit_code == 2 and "written by another run" in result.output
    used = [line for line in log.read_text().splitlines() if "kind" not in line]
    log.write_text("\n".join(used) + "\n")
    result = run("spikes", log)
    assert result.exit_code == 2 and "call feed.report(step, losses)" in result.output
