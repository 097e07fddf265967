"""The columns of a record by name. Knows no shape."""

from collections.abc import Iterable, Mapping
from typing import Any

Columns = dict[str, Any]


def columns_of(record: Mapping[str, Any]) -> Columns:
    """Return a record with the names of its columns in lower case: datasets write ``Prompt`` and ``TEXT``, too.

    The keys of a ``json`` column count as columns: so are the labels of media in tar files kept.
    """
    columns = {name.lower(): value for name, value in record.items()}
    labels = columns.get("json")
    return {**columns_of(labels), **columns} if isinstance(labels, Mapping) else columns


def first(columns: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first of the named columns that has a value. A null and an empty text are none."""
    for name in names:
        value = columns.get(name)
        if value is not None and not (isinstance(value, str) and not value):
            return value
    return None


def first_text(columns: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of the named columns that holds a text which is not empty, else an empty text."""
    for name in names:
        value = columns.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
