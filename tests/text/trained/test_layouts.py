"""Layouts: turns of a conversation of a known shape are found without marks, or not at all."""

import pytest

from penstock.text.trained import Message
from penstock.text.trained.layouts import TurnLayout, TurnSpan, plain_shape
from penstock.text.trained.marks import Spot
from tests.text.conversations import assistant, call, user

# <user>Hi</s><bot>Yes</s>
#       6  8       17 20
LAYOUT = TurnLayout.of("<user>Hi</s><bot>Yes</s>", [Spot(0, 6, 8), Spot(1, 17, 20)], [TurnSpan(1, 17, 24)])


def test_a_layout_is_the_text_around_messages() -> None:
    assert LAYOUT.gaps == ("<user>", "</s><bot>", "</s>")


def test_turns_of_other_messages_are_found() -> None:
    text = "<user>Who?</s><bot>Nobody.</s>"
    [turn] = LAYOUT.find([user("Who?"), assistant("Nobody.")], text) or []
    assert turn.message == 1
    assert text[turn.start : turn.end] == "Nobody.</s>"


def test_a_text_that_is_laid_out_otherwise_is_not_found() -> None:
    assert LAYOUT.find([user("Who?"), assistant("Nobody.")], "<user>Who?</s><bot> Nobody.</s>") is None


def test_the_shape_of_a_conversation_is_its_roles() -> None:
    assert plain_shape([user("Hi"), assistant("Yes")]) == ("user", "assistant")


@pytest.mark.parametrize(
    "message",
    [
        assistant(""),
        assistant(" Yes"),
        assistant("Yes\n"),
        assistant("<think>Hm</think>Yes"),
        assistant("Yes", reasoning_content="Hm"),
        assistant("Yes", tool_calls=[call("look")]),
        assistant([{"type": "text", "text": "Yes"}]),
    ],
)
def test_a_text_that_may_depend_on_more_than_roles_has_no_shape(message: Message) -> None:
    assert plain_shape([user("Hi"), message]) is None
