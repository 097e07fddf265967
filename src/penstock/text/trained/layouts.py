"""The kept layout of conversations of one shape, by which most turns are found without marks.

Only for speed: a conversation of two turns takes 130 µs with marks, which render it twice, and 55 µs with a layout. The
tokenizer takes about 350 µs for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

from penstock.text.trained.marks import Spot
from penstock.text.trained.weights import Message

Shape = tuple[str, ...]


class TurnSpan(NamedTuple):
    """Characters start … end - 1 of a text: what a message says, with the end of its turn."""

    message: int
    start: int
    end: int


def plain_shape(messages: Sequence[Message]) -> Shape | None:
    """Return the roles of a conversation whose messages are all plain texts.

    None if there are tool calls, reasoning, parts or whitespace around a text, or no text: the text that the template
    writes may then depend on more than the roles.
    """
    for message in messages:
        content = message["content"]
        if not isinstance(content, str) or not content or content[0].isspace() or content[-1].isspace():
            return None
        if "tool_calls" in message or "reasoning_content" in message or "think>" in content:
            return None
    return tuple(message["role"] for message in messages)


@dataclass(frozen=True, slots=True)
class TurnLayout:
    """The text around the messages of a conversation, and where turns begin and end in it.

    Attributes:
        messages: Message numbers, in the order of the text.
        gaps: Text before each of them, and after the last.
        turns: For each turn: its message, the index of that message in ``messages``, the distance of its start from the
            end of the message before, and of its end from the end of the message.
    """

    messages: tuple[int, ...]
    gaps: tuple[str, ...]
    turns: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def of(cls, text: str, spots: Sequence[Spot], turns: Sequence[TurnSpan]) -> "TurnLayout":
        """Return the layout of a text whose messages and turns are known."""
        order = [spot.message for spot in spots]
        begins = [0, *(spot.end for spot in spots)]
        ends = [*(spot.start for spot in spots), len(text)]
        gaps = tuple(text[begin:end] for begin, end in zip(begins, ends, strict=True))
        found = []
        for message, start, end in turns:
            index = order.index(message)
            found.append((message, index, start - begins[index], end - begins[index + 1]))
        return cls(tuple(order), gaps, tuple(found))

    def find(self, messages: Sequence[Message], text: str) -> list[TurnSpan] | None:
        """Return the turns of another conversation of the same shape; None if its layout differs."""
        said = [messages[number]["content"] for number in self.messages]
        expected = "".join(chain.from_iterable(zip(self.gaps, (*said, ""), strict=True)))
        if expected != text:
            return None
        lengths = (len(gap) + len(each) for gap, each in zip(self.gaps, said, strict=False))
        ends = [0, *accumulate(lengths)]
        return [
            TurnSpan(message, ends[index] + start, ends[index + 1] + end) for message, index, start, end in self.turns
        ]
