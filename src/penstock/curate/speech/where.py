"""One comparison on a field of a sample's .json. A grammar of its own, a line long: nothing is evaluated.

    dnsmos >= 3.2        speaker != 'S 07'        meta.source in radio, "tv"        ==  !=  <  <=  >  >=  in

A dot goes into an object, unless a field has that whole name. Values are bare or quoted; quotes keep commas and make a
number a text. ``==``, ``!=`` and ``in`` compare a number with numbers and a text by its letters, so that
``speaker == 1088`` finds 1088 and "1088" alike. ``<`` and its kin compare numbers with a number, texts with a text.
A clip without the field, or with one that cannot be compared, fails: what is not known is not known to be good.
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
    """What was typed; ``number`` where it is one and was not quoted."""

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
    """Made by :func:`parse_condition`; ``str`` gives it as it was typed."""

    text: str
    field: str
    operator: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return self.text

    def failure(self, fields: Mapping[str, Any]) -> str | None:
        """Why a clip with these fields fails, in a few words; None if it passes."""
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
    """Raises ValueError with what was expected."""
    match = _COMPARISON.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is no comparison: write FIELD ==, !=, <, <=, >, >= or in VALUE, as in dnsmos >= 3.2"
        )
    field, symbol, typed = match[1], match[2].strip(), match[3]
    values = _values(typed, text)
    if len(values) > 1 and symbol != "in":
        raise ValueError(f"{text!r}: {symbol} takes one value; quote it if it holds a comma, or use in")
    return Condition(text.strip(), field, symbol, values)


def _values(typed: str, text: str) -> tuple[Value, ...]:
    values = []
    at = 0
    while at < len(typed):
        match = _VALUE.match(typed, at)
        if not match:
            raise ValueError(f"{text!r}: cannot read {typed[at:]!r}; values are words, numbers or quoted, by commas")
        bare = match[3]
        quoted = match[1] if match[1] is not None else match[2]
        values.append(Value(quoted, None) if bare is None else Value(bare, _number(bare)))
        at = match.end()
    return tuple(values)


def _number(text: str) -> int | float | None:
    for kind in (int, float):  # a long id is a number too, and not a rounded one
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _lookup(fields: Mapping[str, Any], name: str) -> Any:
    """The value of a field, None where there is none: JSON's null is no value either."""
    if name in fields:
        return fields[name]
    head, dot, rest = name.partition(".")
    inner = fields.get(head)
    return _lookup(inner, rest) if dot and isinstance(inner, dict) else None
