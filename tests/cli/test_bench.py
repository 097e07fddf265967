"""``penstock bench``: that it measures the run it is given."""

from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import Result

import penstock
from tests.cli.commands import complaint, config_of, run
from tests.pipelines.chat_sources import KINDS, TOKENIZER, records, run_keys


def rates(result: Result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    return {
        cells[0]: cells[1]
        for line in result.stdout.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("│┃ ").split("│")]) == 2
    }


@pytest.mark.parametrize("engine", [[], ["--threads", "0"], ["--workers", "1"]])
def test_it_reports_rates_and_bad_samples(tmp_path: Path, engine: list[str]) -> None:
    config = config_of(tmp_path)
    result = run("bench", config, "--steps", "20", *engine)
    told = rates(result)
    assert told["bad samples"] == "0"
    assert float(told["samples/s"].replace(",", "")) > 0


def test_a_finite_run_shorter_than_what_is_asked_for_is_measured_whole(tmp_path: Path) -> None:
    result = run("bench", config_of(tmp_path, passes=1), "--threads", "0")
    assert result.exit_code == 0, result.output


def test_a_run_without_a_batch_is_told_so(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=1, drop_last=True, global_batch_size=100)
    assert "no batch" in complaint(run("bench", config))


def test_the_ledger_of_the_run_stays_as_it_is(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 1})
    result = run("bench", config, "--steps", "3", "--threads", "0")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "usage.jsonl").exists()


def test_batches_of_packs_are_counted_as_batches(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(KINDS["rows.jsonl"](records(400)))
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    chat = {"pack": True, "tokenizer": str(tmp_path / "tokenizer")}
    keys = run_keys(tmp_path, tmp_path / "rows.jsonl", shuffle=True, chat=chat)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(keys))
    told = rates(run("bench", tmp_path / "run.yaml", "--steps", "10", "--threads", "0"))
    with closing(penstock.open(tmp_path / "run.yaml")) as feed:
        samples = sum(len(each) for step in range(1, 11) for each in feed.batch(step)["ids"])
    assert samples > 80
    batches = float(told["batches/s"].replace(",", ""))
    assert float(told["samples/s"].replace(",", "")) / batches == pytest.approx(samples / 10, rel=0.3)
