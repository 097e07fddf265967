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
    assert result.exit_code == 0, result.output
    heads = [line.split()[0] for line in result.output.splitlines() if "command for this page" in line]
    assert heads == ["step", "sample", "source", "shard"]


def test_the_link_of_a_sample_leads_to_it_on_the_page_that_the_command_makes(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)
    found = run("spikes", "usage.jsonl", "--config", config.name, "--top", 1).output.splitlines()
    [line] = [line for line in found if line.startswith(f"bengali-0.tar:{HARD} ")]
    link, program, *command = line.split()[4:]
    page, anchor = link.split("#")
    assert program == "penstock" and run(*command).exit_code == 0
    card = Path(page).read_text().partition(f'id="{anchor}"')[2].partition("</article>")[0]
    assert HARD in card and "loss 9" in card


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
