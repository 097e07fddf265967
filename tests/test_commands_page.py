"""docs/commands.md is true: it is what the commands themselves say."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("make_commands", DOCS / "make_commands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "commands.md").read_text() == module.page(), "run `make docs` to write the page anew"
