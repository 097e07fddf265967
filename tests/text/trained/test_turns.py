"""Turns: from the end of the generation prompt to the end token, in a text without generation blocks."""

from collections.abc import Sequence

import pytest

from penstock.text.errors import Rejected
from penstock.text.trained import Message, SpansNotFound
from penstock.text.trained.borders import Borders
from penstock.text.trained.jinja import Jinja
from penstock.text.trained.turns import TurnFinder
from tests.text.conversations import assistant, user
from tests.text.trained.small_templates import ENDLESS, SPECIAL_TOKENS, TAGS

MESSAGES = [user("Hi"), assistant("Yes"), user("So?"), assistant("Bye")]


def found(source: str, messages: Sequence[Message], wanted: Sequence[int]) -> list[str]:
    jinja = Jinja(source, {})
    text = jinja.text(messages)
    turns = TurnFinder(Borders(jinja, SPECIAL_TOKENS)).find(messages, jinja.text, text, wanted)
    return [text[turn.start : turn.end] for turn in turns]


def test_a_turn_is_what_is_said_with_the_end_token_and_without_the_header() -> None:
    assert found(TAGS, MESSAGES, [1, 3]) == ["Yes</s>", "Bye</s>"]
    assert found(TAGS, MESSAGES, [3]) == ["Bye</s>"]


def test_a_turn_of_the_user_is_found_as_well() -> None:
    assert found(TAGS, MESSAGES, [0]) == ["Hi</s>"]


def test_whitespace_of_an_answer_belongs_to_its_turn() -> None:
    assert found(TAGS, [user("Hi"), assistant(" Yes ")], [1]) == [" Yes </s>"]


def test_whitespace_after_the_end_token_does_not() -> None:
    assert found(TAGS.replace("'</s>'", "'</s>\n'"), MESSAGES, [1, 3]) == ["Yes</s>", "Bye</s>"]


def test_what_a_template_writes_before_the_answer_is_part_of_the_turn_unless_the_prompt_has_it() -> None:
    thinking = TAGS.replace("'<bot>' if", "'<bot><think></think>' if")
    assert found(thinking, MESSAGES, [1]) == ["<think></think>Yes</s>"]
    prompted = thinking.replace("{{ '<bot>' }}", "{{ '<bot><think>' }}")
    assert found(prompted, MESSAGES, [1]) == ["</think>Yes</s>"]


def test_a_turn_may_end_with_the_token_that_opens_the_next_one() -> None:
    assert found(ENDLESS, MESSAGES, [1])[0] == "Yes<user>"


def test_the_same_turns_are_found_with_a_kept_layout() -> None:
    jinja = Jinja(TAGS, {})
    finder = TurnFinder(Borders(jinja, SPECIAL_TOKENS))
    rendered: list[Sequence[Message]] = []

    def render(messages: Sequence[Message], *, prompt: bool = False) -> str:
        rendered.append(messages)
        return jinja.text(messages, prompt=prompt)

    for answer in ("Yes", "No"):
        messages = [user("Hi"), assistant(answer)]
        text = jinja.text(messages)
        [turn] = finder.find(messages, render, text, [1])
        assert text[turn.start : turn.end] == f"{answer}</s>"
    assert not any(messages[-1]["content"].count("No") for messages in rendered)


def test_a_conversation_that_begins_with_the_assistant_has_a_header_if_the_prompt_shows_it() -> None:
    assert found(TAGS, [assistant("Yes"), user("Hi")], [0]) == ["Yes</s>"]
    with pytest.raises(Rejected, match="begins with the assistant"):
        found(TAGS.replace("'<bot>' if", "'<bot>' if not loop.first and"), [assistant("Yes"), user("Hi")], [0])


def test_a_template_that_adds_text_after_the_last_turn_is_refused() -> None:
    with pytest.raises(SpansNotFound, match="ends a conversation with more than the end of the last turn"):
        found(TAGS.replace("{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}", "Go on!"), MESSAGES, [1])
