"""Lazy exports load a module when one of its names is used, once, and say which package lacks a name."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that exports ``Thing`` of a module lazily."""
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "heavy.py").write_text("class Thing: ...\n")
    (folder / "__init__.py").write_text(
        dedent("""
        from penstock.runtime.exports import lazy_exports
        __getattr__, __dir__ = lazy_exports(__name__, {"lazily.heavy": ["Thing"]})
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lazily", "lazily.heavy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "lazily"


def test_a_module_is_imported_when_its_name_is_used(package: str) -> None:
    found = __import__(package)
    assert "Thing" in dir(found) and "lazily.heavy" not in sys.modules
    assert found.Thing is sys.modules["lazily.heavy"].Thing
    assert vars(found)["Thing"] is found.Thing  # kept: looked up once


def test_what_a_package_imports_for_itself_is_not_listed(package: str) -> None:
    found = __import__(package)
    assert [name for name in dir(found) if not name.startswith("__")] == ["Thing"]
    _ = found.Thing
    assert [name for name in dir(found) if not name.startswith("__")] == ["Thing", "heavy"]


def test_an_unknown_name_is_an_attribute_error_of_the_package(package: str) -> None:
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'Nothing'"):
        _ = __import__(package).Nothing
