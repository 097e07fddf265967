"""The digest of a format changes with what the format does."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from penstock.text.formats import find
from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.format import Format
from penstock.text.formats.identity import identity
from tests.text.formats.outputs import FORMATS, changed, made, read


def digest(function: Any) -> str:
    return identity(Format("mine", "text", function))


def first(record: Any, tokens: Any) -> dict[str, Any]:
    return {"text": record["a"]}


def second(record: Any, tokens: Any) -> dict[str, Any]:
    return {"text": record["b"]}


def typed(source: str) -> Any:
    """A function without a source text, as one that is typed into an interpreter."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names["f"]


class Column:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, record: Any, tokens: Any) -> dict[str, Any]:
        return {"text": record[self.name]}


def test_functions_differ_by_their_source() -> None:
    assert digest(first) == digest(first) != digest(second)
    assert digest(lambda record, tokens: {"text": "a"}) != digest(lambda record, tokens: {"text": "b"})


def test_functions_without_a_source_differ_by_code_names_and_constants() -> None:
    texts = ("{'text': 'a'}", "{'text': 'b'}", "{'text': r['a']}", "{'text': [each for each in r]}", "other(r)")
    texts += ("{'text': [each + 1 for each in r]}", "another(r)")
    digests = [digest(typed(f"def f(r, t):\n    return {text}")) for text in texts]
    assert len(set(digests)) == len(texts)
    assert digests[0] == digest(typed(f"def f(r, t):\n    return {texts[0]}"))


def test_what_a_partial_is_given_counts() -> None:
    assert digest(partial(first, tokens={})) == digest(partial(first, tokens={}))
    assert digest(partial(first, tokens={})) != digest(partial(first, tokens={"a": "b"})) != digest(first)


def test_an_object_is_known_by_its_class_and_values() -> None:
    assert digest(Column("a")) == digest(Column("a")) != digest(Column("b"))


class Columns(Column):
    def named(self, record: Any, tokens: Any) -> dict[str, Any]:
        return {"text": record[self.name]}

    def other(self, record: Any, tokens: Any) -> dict[str, Any]:
        return {"text": record["other"]}


def test_a_method_is_known_by_its_text_and_its_object() -> None:
    assert digest(Columns("a").named) == digest(Columns("a").named) != digest(Columns("b").named)
    assert digest(Columns("a").named) != digest(Columns("a").other)


def test_objects_and_functions_that_a_function_closes_over_count_by_what_they_hold() -> None:
    def closed(name: str) -> Any:
        column = Column(name)
        read = lambda record: record[column.name]  # noqa: E731
        return lambda record, tokens: {"text": read(record)}

    assert digest(closed("a")) == digest(closed("a")) != digest(closed("b"))


def test_what_a_function_closes_over_and_its_defaults_count() -> None:
    def closed(column: str) -> Any:
        def read(record: Any, tokens: Any) -> dict[str, Any]:
            return {"text": record[column]}

        return read

    def defaulted(column: str) -> Any:
        def read(record: Any, tokens: Any, name: str = column) -> dict[str, Any]:
            return {"text": record[name]}

        return read

    for make in (closed, defaulted):
        assert digest(make("a")) == digest(make("a")) != digest(make("b"))


def test_a_set_has_the_same_digest_in_every_process() -> None:
    code = "from tests.text.formats.test_identity import digest, typed; "
    code += "print(digest(typed(\"def f(r, t):\\n    return r in {'a', 'b', 'c'}\")))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    made = [
        subprocess.run(
            [sys.executable, "-c", code], env={**environment, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE
        )
        for seed in "12"
    ]
    assert made[0].stdout == made[1].stdout != b""


def test_a_built_in_format_is_known_by_its_name_and_version_and_not_by_its_source() -> None:
    """Digests as fingerprints have them: a comment in the library must not change one."""
    assert identity(find("code")) == "652b3d5cd2685128"
    assert identity(replace(find("code"), version=2)) != identity(find("code"))
    assert len({identity(each) for each in BUILTIN}) == len(BUILTIN)
    assert identity(DOCUMENT["code"]) not in {identity(each) for each in BUILTIN}


def test_every_built_in_format_has_a_version() -> None:
    assert all(each.version for each in (*BUILTIN, *DOCUMENT.values()))


def test_a_built_in_function_under_another_name_is_known_by_its_version_too() -> None:
    mine = Format("mine", "text", find("code").function)
    assert identity(mine) == "6435fbc256849e31"


def test_the_system_prompt_and_the_media_of_an_own_format_count() -> None:
    mine = Format("mine", "text", first)
    assert len({identity(each) for each in (mine, replace(mine, system="A"), replace(mine, media=("a",)))}) == 3


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_whose_samples_change_has_another_version(name: str) -> None:
    """If this fails, raise the format's ``version`` and run ``python -m tests.text.formats.outputs --write``."""
    pinned, found = read()[name], made(FORMATS[name])
    assert (found["version"], changed(pinned, found)) == (pinned["version"], [])


def test_all_formats_are_pinned_and_a_sample_that_changes_is_noticed() -> None:
    assert list(read()) == list(FORMATS)
    code = replace(FORMATS["code"], function=first)
    assert {"alpaca", "code"} <= set(changed(read()["code"], made(code)))
