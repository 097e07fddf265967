"""The columns of a record by name. Knows no shape."""

from collections.abc import Iterable, Mapping
from typing import Any

Columns = dict[str, Any]


def columns_of(record: Mapping[str, Any]) -> Columns:
    """Return a record with its column names in lower case: datasets also write ``Prompt`` and ``TEXT``.

    The keys of a ``json`` column count as columns: tar files keep the labels of media there.
    """
    columns = {name.lower(): value for name, value in record.items()}
    labels = columns.get("json")
    return {**columns_of(labels), **columns} if isinstance(labels, Mapping) else columns


def first(columns: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first value of the named columns that is neither null nor an empty text."""
    for name in names:
        value = columns.get(name)
        if value is not None and not (isinstance(value, str) and not value):
            return value
    return None


def first_text(columns: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first non-empty text of the named columns, else an empty text."""
    for name in names:
        value = columns.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
