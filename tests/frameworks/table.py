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


def replaced(page: str, made: str) -> str:
    """Return the page with its table replaced."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}{made}{_END}{after}"
