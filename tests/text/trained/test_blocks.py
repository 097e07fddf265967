"""Generation blocks: to which message each belongs."""

from collections.abc import Sequence

import pytest

from penstock.text.errors import Rejected
from penstock.text.trained import Message, SpansNotFound
from penstock.text.trained.blocks import block_turns
from penstock.text.trained.jinja import Jinja
from tests.text.conversations import assistant, call, user
from tests.text.trained.small_templates import BLOCKS

MESSAGES = [user("Hi"), assistant("Yes"), user("So?"), assistant("Bye")]


def found(messages: Sequence[Message], weights: Sequence[float], source: str = BLOCKS) -> list[tuple[int, str]]:
    jinja = Jinja(source, {})
    text, blocks = jinja.text_and_blocks(messages, None)
    turns = block_turns(messages, jinja.text, text, blocks, weights)
    return [(turn.message, text[turn.start : turn.end]) for turn in turns]


def test_with_equal_weights_all_blocks_count_as_the_first_message_of_the_assistant() -> None:
    assert found(MESSAGES, [0, 1, 0, 1]) == [(1, "Yes</s>"), (1, "Bye</s>")]


def test_with_other_weights_each_block_gets_its_message() -> None:
    assert found(MESSAGES, [0, 1, 0, 0.5]) == [(1, "Yes</s>"), (3, "Bye</s>")]
    assert found(MESSAGES, [0, 0, 0, 1]) == [(3, "Bye</s>")]


def test_a_trained_message_without_a_block_is_refused() -> None:
    only_last = BLOCKS.replace("m.role == 'assistant'", "loop.last")
    with pytest.raises(SpansNotFound, match="its generation blocks hold nothing of a message"):
        found(MESSAGES, [0, 1, 0, 0.5], only_last)


def test_a_template_that_leaves_out_tool_calls_is_refused() -> None:
    with pytest.raises(Rejected, match="leaves out tool calls"):
        found([user("Hi"), assistant("I look.", tool_calls=[call("look")])], [0, 1])
