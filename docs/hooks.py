"""What the site has beside the pages as they are: called by mkdocs, named in mkdocs.yml."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``changes.md``: the changelog, with links as they are inside of docs/."""
    text = CHANGELOG.read_text().replace("](docs/", "](")
    files.append(File.generated(config, "changes.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Drop the backslash of ``\\|`` in code in tables: GitHub needs it, mkdocs shows it."""
    return re.sub(r"^\|.*$", _plain_row, markdown, flags=re.MULTILINE)


def _plain_row(row: re.Match[str]) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row[0])
