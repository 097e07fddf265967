"""``penstock report``: one page, and one sentence for what is no ledger of the run."""

from pathlib import Path

import pytest

import penstock
from tests.cli.commands import config_of, run
from tests.observe.trained import train


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 5})
    feed = penstock.open(path, rank=0, world=1)
    train(feed, 0, 20)
    feed.close()
    return path


def test_a_report_is_a_page_and_replaces_only_a_report(config: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    page = tmp_path / "out" / "report.html"
    for _ in range(2):
        result = run("report", log, "-o", page, "--config", config)
        assert result.exit_code == 0 and str(page) in result.output.replace("\n", "")
    assert "Throughput" in page.read_text() and [path.name for path in page.parent.iterdir()] == ["report.html"]
    (tmp_path / "mine.html").write_text("my own")
    result = run("report", log, "-o", tmp_path / "mine.html")
    assert result.exit_code == 2 and "is not a page of penstock report" in result.output.replace("\n", " ")
    assert (tmp_path / "mine.html").read_text() == "my own"


def test_a_run_of_one_step_is_told_in_the_singular(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl"})
    log = tmp_path / "usage.jsonl"
    feed = penstock.open(config, rank=0, world=1)
    train(feed, 0, 1)
    feed.close()
    assert run("report", log, "-o", tmp_path / "report.html", "--config", config).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "<b>1</b>step, number 0<" in page and "<b>1</b>rank on 1 node<" in page
    assert "2 lines of the ledger" in page and "at 1 step where" in page
    assert "figures of step 0\n" in run("top", log).stdout
    checked = run("usage", log, "--check", config).stdout
    assert "(1 rank), step 0\n" in checked and "proven: step 0 of the only rank\n" in checked
    assert run("receipt", config, "--steps", 1, "-o", tmp_path / "run.receipt").exit_code == 0
    assert "✓ the step agrees with the plan" in run("verify", tmp_path / "run.receipt").stdout


def test_what_is_no_ledger_of_this_run_is_one_sentence_and_writes_nothing(config: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    log = tmp_path / "usage.jsonl"
    (tmp_path / "no.jsonl").write_text('{"time": 3, "ho')
    config.write_text(config.read_text() + "\nseed: 77\n")
    for arguments, said in (
        ([tmp_path / "no.jsonl"], "not a usage ledger"),
        ([tmp_path / "missing.jsonl"], "no such file"),
        ([log, "--config", config], "written by another run"),
    ):
        result = run("report", *arguments, "-o", page)
        assert result.exit_code == 2 and said in result.output and len(result.output.splitlines()) == 1
        assert not page.exists()
    log.write_text(log.read_text()[:-40])
    assert run("report", log, "-o", page).exit_code == 0
    assert "lines that could not be read: 1" in page.read_text()
