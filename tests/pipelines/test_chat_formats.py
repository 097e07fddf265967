"""Formats of the user's own: modules that the config names, imported in every process of a run."""

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.text.formats import registry
from tests.cli.commands import run
from tests.pipelines.chat_sources import TOKENIZER, run_keys

POEMS = """
from penstock.text import formats

@formats.register("verse")
def verse(record, tokens):
    return {"messages": [
        {"role": "user", "content": record["topic"]},
        {"role": "assistant", "content": record["lines"]},
    ]}
"""


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no module and no format of a test behind."""
    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name in ("own_poems", "own_broken"):
            del sys.modules[name]


@pytest.fixture
def config(tmp_path: Path, clean: None) -> Path:
    (tmp_path / "own_poems.py").write_text(POEMS)
    rows = [{"topic": f"Number {number}", "lines": "one\ntwo"} for number in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    return write(tmp_path, ["own_poems"])


def write(folder: Path, formats: Any) -> Path:
    source = {"name": "poems", "dtype": "verse", "path": "rows.jsonl"}
    options = run_keys(folder, source)
    options["chat"]["tokenizer"] = "tokenizer"
    options["chat"]["formats"] = formats
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(options))
    return path


def test_commands_find_a_format_by_the_module_that_the_config_names(config: Path) -> None:
    done = run("index", config)
    assert "poems: 40 items of 40 records" in done.stdout, done.output


def test_another_process_that_gets_a_format_imports_its_module(config: Path) -> None:
    feed = penstock.open(config)
    pickled = pickle.dumps(registry.find("verse"))
    feed.close()
    there = f"import pickle, sys; sys.path[:] = {sys.path!r}; made = pickle.loads({pickled!r}); "
    there += "print(made({'topic': 'rain', 'lines': 'falls'}, {})['messages'][0]['content'])"
    assert subprocess.run([sys.executable, "-c", there], capture_output=True, check=True).stdout == b"rain\n"


def test_a_module_that_cannot_be_imported_is_one_sentence(config: Path) -> None:
    (config.parent / "own_broken.py").write_text("first = 1\nsecond = frist\n")
    for formats, message in (
        (["own_missing"], "chat.formats: 'own_missing' cannot be imported: No module named 'own_missing'"),
        (["own_broken"], "NameError: name 'frist' is not defined (own_broken.py, line 2)"),
        ([".own_poems"], "chat.formats: '.own_poems' cannot be imported: TypeError"),
        ("own_poems", "chat.formats: expected a list, not 'own_poems'"),
    ):
        assert message in run("plan", write(config.parent, formats), "--steps", "0:1").stderr


def test_the_order_depends_on_the_text_of_the_function(config: Path) -> None:
    first = penstock.open(config)
    before = first.state(1)["fingerprint"]
    first.close()
    del sys.modules["own_poems"]
    (config.parent / "own_poems.py").write_text(POEMS.replace("tokens):", "tokens):\n    # as it is"))
    second = penstock.open(config)
    assert second.state(1)["fingerprint"] != before
    second.close()
