"""Marks around what messages say, by which it is found again in the text of a template.

A mark is a word such as ``zqo2x0oqz``: it opens (o) or closes (c) fragment 0 of message 2. Letters and digits come
through every filter of a template. Marks stand inside of leading and trailing whitespace, so that a template that
strips it still does.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.text.trained.weights import Message

MARK = re.compile(r"zq([oc])(\d+)x(f?)\d+\1qz")
ALONE = "zqo0x0oqz"
# Templates split content at these tags: the reasoning is written apart, or left out.
_THINKING = re.compile(r"(</?think>)")


class Spot(NamedTuple):
    """Where a message stands in a text: from its first mark to its last.

    Attributes:
        message: Message number.
        start: First character.
        end: Character after the last.
        calls: Number of its tool calls in the text.
    """

    message: int
    start: int
    end: int
    calls: int = 0


class Marking(NamedTuple):
    """Messages that get marks, and whether empty fragments beside thinking tags get them, too."""

    messages: Collection[int]
    empty: bool


def marked(messages: Sequence[Message], marking: Marking) -> list[Message]:
    """Return the messages with marks around reasoning, content and names of tool calls of the chosen ones."""
    return [
        _Marker(number, marking.empty).message(each) if number in marking.messages else each
        for number, each in enumerate(messages)
    ]


class _Marker:
    """Puts marks into one message."""

    def __init__(self, number: int, empty: bool) -> None:
        self._number = number
        self._empty = empty
        self._count = 0

    def message(self, message: Message) -> Message:
        made = dict(message)
        if made.get("reasoning_content"):
            made["reasoning_content"] = self._text(made["reasoning_content"])
        content = made["content"]
        made["content"] = self._text(content) if isinstance(content, str) else [self._part(part) for part in content]
        if made.get("tool_calls"):
            made["tool_calls"] = [self._call(call) for call in made["tool_calls"]]
        if not self._count and isinstance(content, str):
            made["content"] = self._around(content)  # nothing is said: the spot where it would be
        return made

    def _part(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**part, "text": self._text(part["text"])} if part["type"] == "text" else part

    def _call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        function = call["function"]
        return {**call, "function": {**function, "name": self._around(function["name"], "f")}}

    def _text(self, text: str) -> str:
        """Return a text with marks around each fragment between thinking tags."""
        fragments = _THINKING.split(text) if "think>" in text else [text]
        empty = self._empty and len(fragments) > 1
        fragments[::2] = [self._around(each) if empty or each.strip() else each for each in fragments[::2]]
        return "".join(fragments)

    def _around(self, text: str, kind: str = "") -> str:
        name = f"{self._number}x{kind}{self._count}"
        self._count += 1
        said = text.strip()
        before, _, after = text.partition(said) if said else (text, "", "")
        return f"{before}zqo{name}oqz{said}zqc{name}cqz{after}"


def mark_alone(message: Message) -> Message:
    """Return a message that says nothing but the mark ``ALONE``."""
    return {**message, "content": ALONE if isinstance(message["content"], str) else [{"type": "text", "text": ALONE}]}


def begins_with_mark(message: Message) -> bool:
    """Return whether no whitespace or tag stands before the first mark of a message."""
    content = message["content"]
    return isinstance(content, str) and bool(content) and not content[0].isspace() and not _THINKING.match(content)


def ends_with_mark(message: Message) -> bool:
    """Return whether no whitespace or tag stands after the last mark of a message."""
    content = message["content"]
    if not isinstance(content, str) or not content:
        return False
    return not content[-1].isspace() and not content.endswith(("<think>", "</think>"))


def unmarked(text: str) -> tuple[str, list[Spot]]:
    """Return a text without its marks, and the place of each message, in the order of the text.

    A template may write a fragment again later, such as the name of a tool in the header of its answer: only the first
    time counts.
    """
    seen = set()
    fragments = []
    length = 0
    at = 0
    spots: dict[int, Spot] = {}
    for mark in MARK.finditer(text):
        fragments.append(text[at : mark.start()])
        length += mark.start() - at
        at = mark.end()
        if mark[0] not in seen:
            seen.add(mark[0])
            number = int(mark[2])
            spot = spots.get(number) or Spot(number, length, length)
            call = mark[1] == "o" and mark[3] == "f"
            spots[number] = Spot(number, spot.start, length, spot.calls + call)
    fragments.append(text[at:])
    return "".join(fragments), sorted(spots.values(), key=lambda spot: spot.start)
