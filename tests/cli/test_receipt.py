"""``penstock receipt`` and ``penstock verify``: what a run was planned to use, checked by anybody with its config."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.observe.receipt import Receipt, read_receipt, write_receipt
from tests.cli.commands import complaint, config_of, run

STEPS = 300

Run = tuple[Path, Path]
"""Config and ledger."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of 30 steps, with its ledger."""
    folder = tmp_path_factory.mktemp("run")
    config = config_of(folder)
    options: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**options, "usage": {"log": "usage.jsonl", "every": 10, "ids": True}}))
    with penstock.open(config, rank=0, world=1).loader(threads=2) as loader:
        for _ in range(30):
            next(loader)
    return config, folder / "usage.jsonl"


@pytest.fixture(scope="module")
def receipt(recorded: Run) -> Path:
    """A receipt of 300 steps, without a ledger."""
    path = recorded[0].with_name("run.receipt")
    result = run("receipt", recorded[0], "--steps", f"0:{STEPS}", "-o", path)
    assert result.exit_code == 0, result.output
    return path


def changed(receipt: Path, to: Path, change: Callable[[dict[str, Any]], None], *, sealed: bool = True) -> Path:
    """A receipt that somebody has altered; if ``sealed``, with a root and a seal that agree with it."""
    values = json.loads(receipt.read_text())
    change(values)
    made = Receipt.model_validate(values)
    write_receipt(made.sealed() if sealed else made, to)
    return to


def test_a_receipt_agrees_with_its_run_wholly_and_at_random_steps(receipt: Path, recorded: Run) -> None:
    result = run("verify", receipt)
    assert result.exit_code == 0, result.output
    assert f"✓ all {STEPS} steps agree with the plan" in result.output
    assert "ids only: assamese, bengali, gujarati\nledger: none was checked\n" in result.output
    assert "It cannot prove that training happened." in result.output
    result = run("verify", receipt, recorded[0], "--random", 2)
    assert result.exit_code == 0, result.output
    assert f"of {STEPS} steps agree with the plan" in result.output


def test_a_receipt_is_readable_json_of_some_kilobytes(receipt: Path) -> None:
    values = json.loads(receipt.read_text())
    assert values["steps"] == [0, STEPS] and values["samples"] == 12 * STEPS
    assert len(values["subtrees"]) == 128 and receipt.stat().st_size < 8_000
    assert values["config"] == "run.yaml"


def test_one_other_id_in_one_step_is_found_and_its_steps_are_named(
    receipt: Path, tmp_path: Path, recorded: Run
) -> None:
    def alter(values: dict[str, Any]) -> None:
        values["subtrees"][7] = base64.b64encode(bytes(32)).decode()

    other = changed(receipt, tmp_path / "other.receipt", alter)
    result = run("verify", other, recorded[0])
    assert result.exit_code == 1
    assert "✗ steps 16 to 17: not the samples of the plan, or other content" in result.output
    assert "its root is not that of its subtrees" in result.output and "seal" not in result.output


@pytest.mark.parametrize("key", ["says", "samples", "config"])
def test_altered_words_and_numbers_are_found(receipt: Path, recorded: Run, tmp_path: Path, key: str) -> None:
    def alter(values: dict[str, Any]) -> None:
        values[key] = values[key] * 2

    other = changed(receipt, tmp_path / "other.receipt", alter, sealed=False)
    result = run("verify", other, recorded[0])
    assert result.exit_code == 1 and "altered after it was made: its seal is wrong" in result.output


def test_numbers_of_samples_are_counted_again(receipt: Path, recorded: Run, tmp_path: Path) -> None:
    def alter(values: dict[str, Any]) -> None:
        values["sources"][0]["samples"] -= 1

    result = run("verify", changed(receipt, tmp_path / "other.receipt", alter), recorded[0])
    assert result.exit_code == 1 and "✗ the numbers of samples are not those of the plan" in result.output


def test_a_ledger_that_agrees_is_recorded(recorded: Run, tmp_path: Path, receipt: Path) -> None:
    config, log = recorded
    out = tmp_path / "ledger.receipt"
    result = run("receipt", config, "--steps", "0:30", "--ledger", log, "-o", out)
    assert result.exit_code == 0, result.output
    assert "ledger: steps 0 to 29 of the only rank; bad samples: none" in result.output
    found = read_receipt(out)
    assert found.ledger is not None and found.ledger.files[0].size == log.stat().st_size
    assert "the usage ledger agreed" in found.says and found.root != read_receipt(receipt).root
    assert run("verify", out, config).exit_code == 0
    assert run("receipt", config, "--steps", "0:30", "-o", tmp_path / "plain.receipt").exit_code == 0
    assert read_receipt(tmp_path / "plain.receipt").root == found.root, "the root is that of the plan alone"


def test_another_id_in_the_ledger_is_named_with_its_step(recorded: Run, tmp_path: Path) -> None:
    config, log = recorded
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["ids"][4][0] = "bengali-0.tar:other"
    (tmp_path / "usage.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "run.receipt"
    said = complaint(run("receipt", config, "--steps", "0:30", "--ledger", tmp_path / "usage.jsonl", "-o", out))
    assert "does not agree with the plan: rank 0, steps 10:20: step 14 planned" in said
    assert said.endswith("used bengali-0.tar:other") and not out.exists()


def test_half_a_line_and_missing_lines_are_named(recorded: Run, tmp_path: Path) -> None:
    config, log = recorded
    torn = tmp_path / "usage.jsonl"
    torn.write_text(log.read_text()[:-2_000])
    make = ("receipt", config, "--ledger", torn, "-o", tmp_path / "run.receipt", "--steps")
    assert complaint(run(*make, "0:30")).endswith("is not complete: no line covers steps 20:30")
    assert run(*make, "5:20").exit_code == 0
    assert complaint(run(*make, "5:20")).endswith("exists; remove it, or name another file")


def test_a_ledger_of_another_run_is_refused(recorded: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(recorded[0].read_text() + "seed: 7\n")
    options = yaml.safe_load(other.read_text())
    for key in ("filelist", "store"):
        options[key] = str(recorded[0].parent / options[key])
    other.write_text(yaml.safe_dump(options))
    out = tmp_path / "run.receipt"
    said = complaint(run("receipt", other, "--steps", "0:30", "--ledger", recorded[1], "-o", out))
    assert "written by another run (seed, data, mixture or exclude differ from the config)" in said
    (tmp_path / "empty.jsonl").write_text("")
    said = complaint(run("receipt", recorded[0], "--steps", "0:30", "--ledger", tmp_path / "empty.jsonl", "-o", out))
    assert "not a usage ledger, or no step was recorded yet" in said


def test_a_config_that_changed_since_is_named(receipt: Path, recorded: Run, tmp_path: Path) -> None:
    options = yaml.safe_load(recorded[0].read_text())
    other = recorded[0].with_name("other.yaml")
    other.write_text(yaml.safe_dump({**options, "seed": 7}))
    said = complaint(run("verify", receipt, other))
    assert said == "the config or the data have changed since the receipt was made: seed (0 then, 7 now)"
    copied = tmp_path / "run.receipt"
    copied.write_bytes(receipt.read_bytes())
    assert "there is no such config; name it: penstock verify" in complaint(run("verify", copied))


@pytest.mark.parametrize("content", ["", "{", '{"penstock_receipt": 2}', "[]", "\udcff", '{"step": 3}'])
def test_what_is_not_a_receipt_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.receipt"
    path.write_text(content, errors="surrogateescape")
    assert "not a receipt of `penstock receipt`" in complaint(run("verify", path))


def test_half_a_receipt_is_refused(receipt: Path, tmp_path: Path) -> None:
    def shorten(values: dict[str, Any]) -> None:
        values["subtrees"] = values["subtrees"][:100]

    assert "incomplete" in complaint(run("verify", changed(receipt, tmp_path / "half.receipt", shorten)))
