"""Adds the page of changes to the site. Called by mkdocs, named in mkdocs.yml."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``changes.md``: the changelog, with links as they are inside of docs/."""
    text = CHANGELOG.read_text().replace("](docs/", "](")
    files.append(File.generated(config, "changes.md", content=text))
    return files
