"""One comparison on a field of a sample's .json, in a grammar of its own. No code is evaluated.

    dnsmos >= 3.2        speaker != 'S 07'        meta.source in radio, "tv"        ==  !=  <  <=  >  >=  in

A dot accesses a field of an object, unless a field has the whole name. Values are bare or quoted; quotes protect commas
and make a number a text. ``==``, ``!=`` and ``in`` compare numbers as numbers and texts as texts, so that
``speaker == 1088`` finds both 1088 and "1088". ``<``, ``<=``, ``>`` and ``>=`` compare numbers with a number and texts
with a text. A clip fails if it does not have the field, or if the field cannot be compared.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARISON = re.compile(r"\s*([\w.\-]+?)\s*(==|!=|<=|>=|<|>|\s+in\s)\s*([^\s<=>!].*?)\s*", re.DOTALL)
_VALUE = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|([^\s,'"][^,'"]*?))\s*(?:,|$)""")


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it was typed. ``number`` is None if it is not a number or was quoted."""

    text: str
    number: int | float | None

    def equals(self, field: bool | int | float | str) -> bool:
        if isinstance(field, str):
            return field == self.text
        if isinstance(field, bool):
            return self.text == ("true" if field else "false")
        return self.number is not None and field == self.number


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison. Made by :func:`parse_condition`; ``str`` returns it as it was typed."""

    text: str
    field: str
    operator: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return self.text

    def failure(self, fields: Mapping[str, object]) -> str | None:
        """Return why a clip with these fields fails, in a few words; None if it passes."""
        found = _lookup(fields, self.field)
        if found is None:
            return "no such field"
        if not isinstance(found, bool | int | float | str):
            return "not a number or a text"
        if self.operator in _ORDERS:
            return self._order_failure(found, self.values[0])
        equal = any(value.equals(found) for value in self.values)
        return None if equal == (self.operator != "!=") else f"is {found!r}"

    def _order_failure(self, found: bool | int | float | str, value: Value) -> str | None:
        than: float | str = value.text if value.number is None else value.number
        if isinstance(found, bool) or isinstance(found, str) != isinstance(than, str):
            return f"is {found!r}: not comparable"
        return None if _ORDERS[self.operator](found, than) else f"is {found!r}"


def parse_condition(text: str) -> Condition:
    """Parse a comparison such as ``dnsmos >= 3.2``.

    Raises:
        ValueError: If it is not a comparison; the message says what was expected.
    """
    match = _COMPARISON.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a comparison: write FIELD ==, !=, <, <=, >, >= or in VALUE, as in dnsmos >= 3.2"
        )
    field = match[1]
    symbol = match[2].strip()
    values = _values(match[3], text)
    if len(values) > 1 and symbol != "in":
        raise ValueError(f"{text!r}: {symbol} takes one value; quote it if it contains a comma, or use in")
    return Condition(text.strip(), field, symbol, values)


def _values(typed: str, text: str) -> tuple[Value, ...]:
    values = []
    at = 0
    while at < len(typed):
        match = _VALUE.match(typed, at)
        if not match:
            raise ValueError(
                f"{text!r}: cannot read {typed[at:]!r}; values are words, numbers or quoted texts, separated by commas"
            )
        bare = match[3]
        quoted = match[1] if match[1] is not None else match[2]
        values.append(Value(quoted, None) if bare is None else Value(bare, _number(bare)))
        at = match.end()
    return tuple(values)


def _number(text: str) -> int | float | None:
    for kind in (int, float):  # int first: a long id must not be rounded
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _lookup(fields: Mapping[str, object], name: str) -> object:
    """The value of a field; None if there is none, or if it is null."""
    if name in fields:
        return fields[name]
    head, dot, rest = name.partition(".")
    inner = fields.get(head)
    return _lookup(inner, rest) if dot and isinstance(inner, dict) else None
