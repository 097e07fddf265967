"""``penstock mix``: shares, quotas and epochs of a config, without reading a byte of its data."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.cli.commands import complaint, config_of, run
from tests.clips import clip_run, write_clips
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level


def mixes(config: Path, *options: object) -> dict[str, dict[str, Any]]:
    result = run("mix", config, "--json", *options)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {row["source"]: row for row in rows}


def test_quotas_are_what_the_plan_draws_within_one_sample(tmp_path: Path) -> None:
    config = config_of(tmp_path, mixture={"weights": {"assamese": 1, "bengali": 2, "gujarati": 4}})
    for shard in tmp_path.glob("*.tar"):
        shard.unlink()
    found = mixes(config, "--steps", "3:9")
    feed = penstock.open(config, rank=0, world=1)
    drawn = Counter(line.source for step in range(3, 9) for line in feed.lines(step))
    assert all(abs(drawn[name] - row["samples"]) < 2 for name, row in found.items())
    assert sum(row["samples"] for row in found.values()) == pytest.approx(6 * 12)
    assert found["gujarati"]["share"] == pytest.approx(4 / 7)
    assert found["gujarati"]["per_batch"] == pytest.approx(12 * 4 / 7)
    assert found["gujarati"]["epochs"] == pytest.approx(9 * 12 * 4 / 7 / found["gujarati"]["items"])
    assert 0 < found["gujarati"]["hours"] < 1


def test_the_table_shows_every_source_and_where_the_mixture_changes(tmp_path: Path) -> None:
    config = config_of(tmp_path, mixture=[{"weights": "equal"}, {"at": 120, "weights": "items"}])
    result = run("mix", config, "--steps", "5")
    assert result.exit_code == 0, result.output
    for word in (
        "assamese",
        "seconds",
        "33.33%",
        "4.00",
        "steps 0 to 4",
        "batches of 12",
        "another mixture applies from step 10",
    ):
        assert word in result.stdout
    later = mixes(config, "--steps", "10:20")
    items = sum(row["items"] for row in later.values())
    assert all(row["share"] == pytest.approx(row["items"] / items) for row in later.values())


def test_a_finite_run_has_its_passes_as_epochs(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=2, global_batch_size=10)
    found = mixes(config)
    assert all(row["epochs"] == pytest.approx(2) for row in found.values())
    assert all(row["samples"] == pytest.approx(2 * row["items"]) for row in found.values())
    assert complaint(run("mix", config, "--steps", "100:101")) == "--steps 100:101: the run has 8 steps"


def test_a_limit_is_said_and_durations_are_shown_only_where_they_are_known(tmp_path: Path) -> None:
    rows = "".join(f'{{"prompt": "{number}", "completion": "b"}}\n' for number in range(9))
    (tmp_path / "rows.jsonl").write_text(rows)
    byte_level(chat_template=CHATML).save_pretrained(tmp_path / "tokenizer")
    source = {"name": "rows", "dtype": "conversation", "path": "rows.jsonl", "limit": 4}
    keys = {"recipe": "chat", "global_batch_size": 2, "sources": [source], "chat": {"tokenizer": "./tokenizer"}}
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps({**keys, "cache": {"dir": "cache", "size": "1GB"}}))
    result = run("mix", config, "--steps", "2")
    assert result.exit_code == 0, result.output
    assert "an epoch of rows has at most 4 of its items" in result.stdout
    assert "duration" not in result.stdout


def test_batches_by_length_show_their_padding_steps_and_largest_batch(tmp_path: Path) -> None:
    write_clips(tmp_path, rate=1_000)
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps(clip_run(tmp_path), default=str))
    shown = run("mix", config, "--steps", "24").stdout
    for word in (
        "4 units over all ranks",
        "windows of 48 samples in 6 steps",
        "of a padded batch is data",
        "largest batch",
        "the budget is never exceeded",
    ):
        assert word in shown
    lengths = json.loads(run("mix", config, "--steps", "24", "--json").stdout.splitlines()[-1])
    assert 0.8 < lengths["useful"] <= 1 and lengths["largest_seconds"] <= 12 and lengths["steps_per_epoch"] > 10
    finite = clip_run(tmp_path, passes=2)
    config.write_text(json.dumps(finite, default=str))
    lengths = json.loads(run("mix", config, "--json").stdout.splitlines()[-1])
    assert 2 * lengths["steps_per_epoch"] == penstock.open(finite, rank=0, world=1).remaining().stop
    alone = clip_run(tmp_path, batch={"seconds": 3, "units": 4, "window": 48, "too_long": "alone"})
    config.write_text(json.dumps(alone, default=str))
    assert "the budget is exceeded only by longer samples" in run("mix", config, "--steps", "24").stdout
