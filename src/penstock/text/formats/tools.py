"""Tools and tool calls, from the forms of datasets to OpenAI's form."""

import json
from collections.abc import Iterable
from typing import Any

from penstock.text.errors import Rejected
from penstock.text.formats.loose import parsed, parsed_all, without_nulls
from penstock.text.formats.sample import Message, ToolCall


def tools_of(value: Any) -> list[dict[str, Any]]:
    """Return the schemas of tools.

    Args:
        value: List of schemas, one schema, or either as text; None or empty if there are none.

    Raises:
        Rejected: If it is something else.
    """
    schemas = _listed(value, "tools")
    if not all(isinstance(each, dict) for each in schemas):
        raise Rejected("a tool is not a JSON object")
    return [_wrapped(each) for each in schemas]


def calls_of(value: Any) -> list[ToolCall]:
    """Return the calls of tools.

    Args:
        value: List of calls, one call, or either as text. A call has ``name`` and ``arguments``, or these in
            ``function``. Arguments are a dict, or its JSON.

    Raises:
        Rejected: If it is something else.
    """
    return [_call(each) for each in _listed(value, "tool calls")]


def described_in(system: str, tools: Iterable[dict[str, Any]]) -> bool:
    """Return whether a system prompt lists all tools already, each with its name in quotes."""
    names = [str(tool["function"].get("name")) for tool in tools]
    return all(f'"{name}"' in system or f"'{name}'" in system for name in names)


def system_text(messages: Iterable[Message]) -> str:
    """Return the text of all system turns."""
    return "\n".join(str(each["content"]) for each in messages if each["role"] == "system")


def as_text(value: Any) -> str:
    """Return the answer of a tool as text: itself, or its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _listed(value: Any, what: str) -> list[Any]:
    """Return the elements of a value. Nulls in texts stay: they are not Arrow's."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = _decoded(value, what)
    elif isinstance(value, dict):
        value = without_nulls(value)
    elif isinstance(value, list | tuple):
        value = [_decoded(each, what) if isinstance(each, str) else without_nulls(each) for each in value]
    else:
        raise Rejected(f"{what} are not a list")
    return [each for each in value if each is not None] if isinstance(value, list) else [value]


def _decoded(text: str, what: str) -> Any:
    for decode in (parsed, parsed_all):
        try:
            return decode(text)
        except ValueError:
            continue
    raise Rejected(f"{what} are not JSON")


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Chat templates expect ``{"type": "function", "function": {…}}``; many datasets have only the inner part."""
    return schema if isinstance(schema.get("function"), dict) else {"type": "function", "function": schema}


def _call(value: Any) -> ToolCall:
    if not isinstance(value, dict):
        raise Rejected("a tool call is not a JSON object")
    inner = value.get("function")
    function = inner if isinstance(inner, dict) else value
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise Rejected("a tool call without a name")
    call: ToolCall = {"type": "function", "function": {"name": name, "arguments": _arguments(function)}}
    if isinstance(value.get("id"), str):
        call["id"] = value["id"]
    return call


def _arguments(function: dict[str, Any]) -> dict[str, Any]:
    value = function.get("arguments", function.get("parameters"))
    if isinstance(value, str) and value:
        try:
            value = parsed(value)
        except ValueError:
            raise Rejected("the arguments of a tool call are not JSON") from None
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise Rejected("the arguments of a tool call are not a JSON object")
    return value
