"""The table of docs/frameworks.md."""

import pytest

from tests.frameworks.table import CAPABILITIES, ELSEWHERE, PAGE, kept, replaced, shown_by, table


def test_a_cell_is_ticked_if_every_test_of_it_passed() -> None:
    made = table({"torch": {"mixture": True, "evaluation": False}, "Accelerate": {}})
    head, _, accelerate, torch = made.splitlines()
    assert head.split(" | ")[1:3] == list(CAPABILITIES[:2])
    assert accelerate.startswith("| Accelerate |") and "✓" not in accelerate
    assert torch.split("|")[2:5] == ["  ", " ✓ ", "  "]


def test_an_unknown_capability_is_an_error() -> None:
    with pytest.raises(ValueError, match="torch: speed is not one of two processes"):
        table({"torch": {"speed": True}})


def test_only_the_table_of_the_page_is_replaced() -> None:
    page = PAGE.read_text()
    made = replaced(page, "| other |\n")
    assert "| other |" in made and replaced(made, table({})) == replaced(page, table({}))


def test_a_run_keeps_the_rows_of_other_environments() -> None:
    shown = {name: dict.fromkeys(CAPABILITIES, name == "torch") for name in ("torch", *ELSEWHERE)}
    page = replaced(PAGE.read_text(), table(shown))
    assert shown_by(page) == shown
    assert kept(page, ["tests/frameworks"]) == {name: shown[name] for name in ELSEWHERE}
    assert kept(page, ["tests/frameworks/test_lerobot.py"]) == {"torch": shown["torch"]}
    assert kept(page, ["tests/frameworks/test_table.py"]) is None
