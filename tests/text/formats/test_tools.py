"""Schemas of tools in all the forms that datasets have. Calls are tested with the turns that hold them."""

import json
from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats.tools import described_in, tools_of

SCHEMA = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string", "enum": [None, "x"]}}}}
WRAPPED = {"type": "function", "function": SCHEMA}


@pytest.mark.parametrize(
    "value",
    [
        [WRAPPED],
        [SCHEMA],
        SCHEMA,
        json.dumps([SCHEMA]),
        json.dumps(SCHEMA, indent=4),
        [json.dumps(SCHEMA)],
        str([SCHEMA]),
        [{**SCHEMA, "strict": None}],
        [{"type": "function", "function": {**SCHEMA, "description": None}}, None],
    ],
)
def test_schemas_get_one_form(value: Any) -> None:
    assert tools_of(value) == [WRAPPED]


def test_several_objects_may_follow_each_other_in_a_text() -> None:
    other = {"name": "g"}
    text = f"{json.dumps(SCHEMA, indent=4)}\n\n{json.dumps(other, indent=4)}\n\n"
    assert tools_of(text) == [WRAPPED, {"type": "function", "function": other}]


@pytest.mark.parametrize("value", [None, "", [], "[]", ()])
def test_no_tools_are_no_tools(value: Any) -> None:
    assert tools_of(value) == []


def test_nulls_of_a_text_are_kept_for_they_are_not_arrows() -> None:
    assert tools_of('{"name": "f", "default": null}')[0]["function"] == {"name": "f", "default": None}


@pytest.mark.parametrize(
    ("value", "reason"),
    [("look_up(x)", "tools are not JSON"), ([1], "a tool is not a JSON object"), (7, "tools are not a list")],
)
def test_other_values_have_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(Rejected, match=f"^{reason}$"):
        tools_of(value)


def test_a_text_that_would_do_something_is_not_executed(tmp_path: Any) -> None:
    trap = tmp_path / "trap"
    with pytest.raises(Rejected, match="tools are not JSON"):
        tools_of(f"[open({str(trap)!r}, 'w')]")
    assert not trap.exists()


def test_tools_that_the_system_prompt_lists_are_seen() -> None:
    assert described_in('You have: {"name": "f"}', [WRAPPED])
    assert described_in("You have: {'name': 'f'}", [WRAPPED])
    assert not described_in("Use f.", [WRAPPED])
    assert not described_in('{"name": "f"}', [WRAPPED, {"type": "function", "function": {"name": "g"}}])
