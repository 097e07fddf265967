"""Where messages stand in the text that a chat template wrote. Knows no header, and no end of a turn.

Every message gets marks around what it says, and the conversation is rendered once more. Without the marks that must be
the same text; with them it shows where each message stands.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from penstock.text.errors import Rejected
from penstock.text.trained.marks import (
    ALONE,
    MARK,
    Marking,
    Spot,
    begins_with_mark,
    ends_with_mark,
    mark_alone,
    marked,
    unmarked,
)
from penstock.text.trained.weights import Message


class SpansNotFound(Rejected):
    """The text of a chat template does not show which part of it is trained.

    Attributes:
        what: What the template does, in the same words for all such conversations.
        where: Place in this conversation.
    """

    def __init__(self, what: str, where: str = "") -> None:
        self.what = what
        self.where = where
        super().__init__(
            f"the chat template hides what is trained: {what} (put {{% generation %}} and {{% endgeneration %}} "
            "around what the assistant says in the template, or use chat.tokens instead of it)"
        )

    def __reduce__(self) -> tuple[type["SpansNotFound"], tuple[str, str]]:
        return SpansNotFound, (self.what, self.where)


class Render(Protocol):
    """Renders messages, with a generation prompt at the end if asked for."""

    def __call__(self, messages: Sequence[Message], *, prompt: bool = False) -> str: ...


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation whose messages are found in its text.

    Attributes:
        messages: Messages.
        render: Function that renders messages.
        text: All messages, rendered.
        marking: Messages that were marked, and how.
        spots: Places of the marked messages, in the order of the text.
    """

    messages: Sequence[Message]
    render: Render
    text: str
    marking: Marking
    spots: list[Spot]

    def tail(self, count: int, *, prompt: bool) -> str | None:
        """Return the text after the last mark if only the first messages are rendered; None if that fails."""
        try:
            text, spots = unmarked(self.render(marked(self.messages[:count], self.marking), prompt=prompt))
        except Rejected:
            return None
        return text[max((spot.end for spot in spots), default=0) :]

    def begin(self, spot: Spot) -> int:
        """Return where a message begins, which may be before its first mark: marks stand inside of whitespace."""
        if begins_with_mark(self.messages[spot.message]):
            return spot.start
        before, _ = self._around(spot)
        return len(before) if len(before) <= spot.start and self.text.startswith(before) else spot.start

    def finish(self, spot: Spot) -> int:
        """Return where a message ends, which may be after its last mark, without the end of its turn."""
        if ends_with_mark(self.messages[spot.message]):
            return spot.end
        _, after = self._around(spot)
        end = len(self.text) - len(after)
        return end if end >= spot.end and self.text.endswith(after) else spot.end

    def _around(self, spot: Spot) -> tuple[str, str]:
        """Return the text before and after a message, found by rendering a mark in its place."""
        messages = list(self.messages)
        messages[spot.message] = mark_alone(messages[spot.message])
        with suppress(Rejected):
            before, found, after = self.render(messages).partition(ALONE)
            if found:
                return before, after
        return self.text[: spot.start], self.text[spot.end :]

    def role(self, spot: Spot | None) -> str | None:
        """Return the role of a message; None without a message."""
        return None if spot is None else self.messages[spot.message]["role"]


def locate(messages: Sequence[Message], render: Render, text: str, wanted: Sequence[int]) -> Conversation:
    """Return the conversation with the places of its messages.

    Args:
        messages: Conversation.
        render: Function that renders messages.
        text: Conversation, rendered.
        wanted: Messages that must be found.

    Raises:
        SpansNotFound: If a wanted message is not found.
        Rejected: If the template leaves out its tool calls, or its reasoning where it says nothing else.
    """
    # A template may look at how a message begins, or whether there is reasoning: then with fewer marks.
    for marking in (Marking(who, empty) for who in (range(len(messages)), wanted) for empty in (True, False)):
        with suppress(Rejected):
            clean, spots = unmarked(render(marked(messages, marking)))
            if clean == text:
                break
    else:
        if MARK.search(text):
            raise Rejected("the text contains a mark such as zqo0x0oqz")
        raise SpansNotFound("what it writes depends on how a message begins or ends")
    written = {spot.message: spot.calls for spot in spots}
    if any(len(messages[number].get("tool_calls") or ()) > written.get(number, 0) for number in wanted):
        raise Rejected("the chat template leaves out tool calls")
    missing = set(wanted).difference(written)
    if missing and all(map(_is_silent, (messages[number] for number in missing))):
        raise Rejected("the chat template writes no text for a turn")
    if missing:
        raise SpansNotFound("it leaves out a message that is to be trained", f"message {min(missing) + 1}")
    return Conversation(messages, render, text, marking, spots)


def _is_silent(message: Message) -> bool:
    """Return whether a message has no text beside its reasoning."""
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    return not any(map(str.strip, texts))
