"""The table of docs/frameworks.md: framework by capability."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
CAPABILITIES = (
    "two processes",
    "mixture",
    "evaluation",
    "checkpoint and resume",
    "resume on another world",
    "kill -9",
    "accumulation",
    "same weights",
    "endless run",
)
# A row of tests that run in another environment, beside a complete run of the folder.
ELSEWHERE = {"lerobot-train": "tests/frameworks/test_lerobot.py"}
_BEGIN = "<!-- made by the tests: pytest tests/frameworks --write-table -->\n"
_END = "<!-- end -->\n"

Shown = dict[str, dict[str, bool]]
"""Whether all tests that show a capability passed, by framework and capability."""


def table(shown: Shown) -> str:
    """Return the table in Markdown.

    Raises:
        ValueError: If a test shows an unknown capability.
    """
    for framework, cells in shown.items():
        if unknown := cells.keys() - set(CAPABILITIES):
            raise ValueError(f"{framework}: {', '.join(unknown)} is not one of {', '.join(CAPABILITIES)}")
    rows = [("framework", *CAPABILITIES), ("---", *[":-:"] * len(CAPABILITIES))]
    for framework in sorted(shown, key=str.lower):
        rows.append((framework, *("✓" if shown[framework].get(each) else "" for each in CAPABILITIES)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def shown_by(page: str) -> Shown:
    """Return what the table of the page shows."""
    rows = page.split(_BEGIN)[1].split(_END)[0].splitlines()[2:]
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {framework: dict(zip(CAPABILITIES, map(bool, ticks), strict=True)) for framework, *ticks in cells}


def kept(page: str, arguments: list[str]) -> Shown | None:
    """Return the rows of the page that a run of the tests leaves as they are; None if it is not complete.

    Args:
        page: Text of the page.
        arguments: Files and folders of the run.
    """
    shown = shown_by(page)
    if arguments == ["tests/frameworks"]:
        return {name: cells for name, cells in shown.items() if name in ELSEWHERE}
    run = [name for name, file in ELSEWHERE.items() if arguments == [file]]
    return {name: cells for name, cells in shown.items() if name not in run} if run else None


def replaced(page: str, made: str) -> str:
    """Return the page with its table replaced."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}{made}{_END}{after}"
