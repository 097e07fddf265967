"""HTML elements as text. Everything that is not an element is escaped. Knows nothing of what a page shows."""

import re
from collections.abc import Iterable
from html import escape

# C0 and C1 controls but tabs and newlines, marks of the writing direction, line separators, and bytes that are not
# UTF-8. Joiners are kept: Indic scripts and emoji need them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_VOID = frozenset(("br", "img", "input", "meta", "link"))


class Markup(str):
    """HTML that is complete: it is not escaped again."""


Child = str | None | Iterable["Child"]


def text(value: str) -> Markup:
    r"""Return a text as HTML. Control characters are shown as escapes, such as ``\x1b``."""
    return Markup(escape(_CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), value)))


def element(tag: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        tag: Name of the element.
        *children: Content: elements, texts, which are escaped, None for nothing, or iterables of these.
        **attributes: Attributes; underscores become hyphens, a last one is dropped (``class_``). True stands for an
            attribute without a value, None and False for none.
    """
    pairs = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{pairs}>")
    return Markup(f"<{tag}{pairs}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return elements and texts in a row."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(text(child))
        elif child is not None:
            parts.append(joined(*child))
    return Markup("".join(parts))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
