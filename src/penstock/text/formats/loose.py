"""JSON as it is found in columns of text. Nothing is executed."""

import ast
import json
from typing import Any


def parsed(text: str) -> Any:
    """Return the value that a text stands for: JSON, or a Python literal such as ``{'name': 'f'}``.

    Raises:
        ValueError: If the text is neither.
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("neither JSON nor a Python literal") from None


def parsed_all(text: str) -> list[Any]:
    """Return the concatenated JSON values of a text.

    Raises:
        ValueError: If the text has anything else between them.
    """
    decoder = json.JSONDecoder()
    values = []
    rest = text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip(" \t\r\n,")
    return values


def without_nulls(value: Any) -> Any:
    """Return a value without null keys: Arrow adds the keys of other records."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
