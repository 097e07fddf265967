"""Where messages stand in a text: found by marks, whatever the template does with the messages."""

import pickle

import pytest

from penstock.text.errors import Rejected
from penstock.text.trained import Message, SpansNotFound
from penstock.text.trained.jinja import Jinja
from penstock.text.trained.spots import Conversation, locate
from tests.text.conversations import assistant, call, system, user
from tests.text.trained.small_templates import TAGS


def found(source: str, messages: list[Message], wanted: list[int]) -> Conversation:
    render = Jinja(source, {}).text
    return locate(messages, render, render(messages), wanted)


def said(conversation: Conversation) -> dict[int, str]:
    return {spot.message: conversation.text[spot.start : spot.end] for spot in conversation.spots}


def test_every_message_is_found_without_its_whitespace() -> None:
    assert said(found(TAGS, [user(" Hi "), assistant("Hi")], [1])) == {0: "Hi", 1: "Hi"}


def test_messages_are_found_where_the_template_moves_them() -> None:
    last_first = TAGS.replace("in messages", "in messages|reverse")
    conversation = found(last_first, [system("Be brief."), user("Hi"), assistant("Yes")], [2])
    assert [spot.message for spot in conversation.spots] == [2, 1, 0]
    assert said(conversation) == {0: "Be brief.", 1: "Hi", 2: "Yes"}


def test_a_template_that_looks_at_how_other_messages_begin_is_rendered_with_fewer_marks() -> None:
    polite = TAGS.replace("'<' + m.role + '>'", "('<hi>' if m.content.startswith('Hi') else '<user>')")
    assert said(found(polite, [user("Hi"), assistant("Yes")], [1])) == {1: "Yes"}


def test_what_the_template_writes_after_some_of_the_messages() -> None:
    conversation = found(TAGS, [user("Hi"), assistant("Yes")], [1])
    assert conversation.tail(1, prompt=True) == "</s><bot>"
    assert conversation.tail(1, prompt=False) == "</s>"


def test_whitespace_of_a_message_belongs_to_it_where_the_template_keeps_it() -> None:
    conversation = found(TAGS, [user(" Hi\n"), assistant("Yes")], [1])
    [first, _] = conversation.spots
    assert conversation.text[conversation.begin(first) : conversation.finish(first)] == " Hi\n"
    stripped = found(TAGS.replace("m.content", "m.content|trim"), [user(" Hi\n"), assistant("Yes")], [1])
    [first, _] = stripped.spots
    assert stripped.text[stripped.begin(first) : stripped.finish(first)] == "Hi"


@pytest.mark.parametrize(
    ("source", "message", "error", "reason"),
    [
        (TAGS.replace("m.content", "m.content[:2]"), assistant("Yes"), SpansNotFound, "how a message begins or ends"),
        (TAGS.replace("m.content", "''"), assistant("Yes"), SpansNotFound, "leaves out a message"),
        (TAGS, assistant("", tool_calls=[call("look")]), Rejected, "the chat template leaves out tool calls"),
        (TAGS.replace("m.content", "''"), assistant(" "), Rejected, "the chat template writes no text for a turn"),
        (TAGS, assistant("zqo0x0oqz"), Rejected, "the text contains a mark"),
    ],
)
def test_what_is_refused(source: str, message: Message, error: type[Rejected], reason: str) -> None:
    with pytest.raises(error, match=reason):
        found(source, [user("Hi"), message], [1])


def test_the_reason_names_the_template_and_survives_pickling() -> None:
    error = SpansNotFound("it leaves out a message that is to be trained", "message 2")
    assert "put {% generation %} and {% endgeneration %}" in str(error)
    assert pickle.loads(pickle.dumps(error)).where == "message 2"
