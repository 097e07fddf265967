"""One word, one thing: no two classes of the package have the same name."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"


def shared_names(modules: dict[str, str]) -> dict[str, list[str]]:
    """Return the modules of each class name that is defined more than once, by name without leading underscores."""
    homes = defaultdict(list)
    for module, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(module)
    return {name: found for name, found in homes.items() if len(found) > 1}


def test_no_two_classes_have_the_same_name() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    found = shared_names(files)
    assert len(files) > 200
    assert found == {}


def test_the_check_would_see_one() -> None:
    modules = {"a": "class _Line: ...", "b": "def f():\n    class Line: ...", "c": "class Lines: ..."}
    assert shared_names(modules) == {"Line": ["a", "b"]}
