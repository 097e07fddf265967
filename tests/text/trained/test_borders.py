"""Where turns begin and end in what a template writes, for templates that differ from what their prompt shows."""

import pytest

from penstock.text.chattemplate import ChatTemplate
from penstock.text.trained import SpansNotFound
from penstock.text.trained.borders import Borders, common_length, common_pieces
from penstock.text.trained.jinja import Jinja
from tests.text.chat_templates import CHATML, PLAIN
from tests.text.conversations import TWICE_IN_A_ROW, TWO_TURNS, assistant, trained, user
from tests.text.made_tokenizers import byte_level
from tests.text.trained.small_templates import ENDLESS, SPECIAL_TOKENS, TAGS

BLOCKS = CHATML.replace(
    "message['content'] + '<|im_end|>'",
    "'' }}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ ''",
)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(byte_level(chat_template=source))


# As Nemotron 3: the prompt opens the reasoning, and a turn without any closes it at once.
CLOSED_THINKING = CHATML.replace(
    "message['content'] + '<|im_end|>'",
    "('<think></think>' if message.role == 'assistant' else '') + message['content'] + '<|im_end|>'",
).replace("{{ '<|im_start|>assistant\n' }}", "{{ '<|im_start|>assistant\n<think>\n' }}")


def test_a_turn_begins_where_it_differs_from_the_generation_prompt() -> None:
    messages = [user("Hi"), assistant("Yes."), assistant("No."), user("So?"), assistant("Bye.")]
    spans = trained(template(CLOSED_THINKING).render({"messages": messages}))
    assert spans == [f"</think>{said}<|im_end|>" for said in ("Yes.", "No.", "Bye.")]
    only_last = CLOSED_THINKING.replace("message.role == 'assistant'", "loop.last")
    assert trained(template(only_last).render({"messages": messages}))[:2] == ["Yes.<|im_end|>", "No.<|im_end|>"]


def test_the_header_of_an_answer_after_an_answer_is_not_trained() -> None:
    no_prompt_there = CHATML.replace(
        "{% if add_generation_prompt %}", "{% if add_generation_prompt and messages[-1].role != 'assistant' %}"
    )
    found = trained(template(no_prompt_there).render({"messages": TWICE_IN_A_ROW}))
    assert found == ["One.<|im_end|>", "Two.<|im_end|>", "Bye.<|im_end|>"]


def test_a_prompt_that_nobody_asked_for_is_not_trained() -> None:
    always = CHATML.replace("{% if add_generation_prompt %}", "{% if true %}").replace("assistant\n' }}", "bot\n' }}")
    with pytest.raises(SpansNotFound, match="ends a conversation with more than the end of the last turn"):
        template(always).render({"messages": TWO_TURNS})


def test_instructions_after_the_last_answer_are_never_trained() -> None:
    # As Command R+ with tools: without a generation prompt, a message of the system follows.
    instructed = (
        CHATML + "{% if not add_generation_prompt %}{{ '<|im_start|>system\nWrite a call.<|im_end|>' }}{% endif %}"
    )
    with pytest.raises(SpansNotFound, match="ends a conversation with more than the end of the last turn"):
        template(instructed).render({"messages": TWO_TURNS})
    closed = CHATML + "{% if not add_generation_prompt %}{{ '</s>' }}{% endif %}"
    assert trained(template(closed).render({"messages": TWO_TURNS}))[-1].startswith("Bye.<|im_end|>")


OPEN = """{% for message in messages %}{{ '<|' + message.role + '|>' + message.content }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""


def open_ended(*tokens: str) -> ChatTemplate:
    tokenizer = byte_level(chat_template=OPEN)
    tokenizer.add_tokens(list(tokens), special_tokens=True)
    return ChatTemplate(tokenizer)


def test_where_a_template_ends_no_turn_the_next_special_token_does() -> None:
    made = open_ended("<|user|>", "<|assistant|>")
    rendered = made.render({"messages": TWO_TURNS})
    assert trained(rendered) == [" An assistant.\n<|user|>", "Bye.<|user|>"] and not rendered.losses


def test_a_template_by_which_no_model_learns_to_stop_is_named() -> None:
    stop = ("the chat template ends the assistant's turns with nothing, so that a model does not learn to stop",)
    assert open_ended().render({"messages": TWO_TURNS}).losses == stop
    outside = BLOCKS.replace(
        "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}",
        "{{ message['content'] }}{% endgeneration %}{{ '<|im_end|>' }}",
    )
    assert template(outside).render({"messages": TWO_TURNS}).losses == stop
    assert not template(BLOCKS).render({"messages": TWO_TURNS}).losses
    assert not template(CHATML).render({"messages": TWO_TURNS}).losses
    assert not template(PLAIN).render({"messages": TWO_TURNS}).losses  # a newline ends its turns


def test_the_header_of_a_text_ends_with_a_whole_tag() -> None:
    # As DeepSeek-V3.2: the prompt opens the reasoning, and an answer without any begins with its end.
    closing = CHATML.replace(
        "message['content'] + '<|im_end|>'",
        "('</think>' if message.role == 'assistant' else '') + message['content'] + '<|im_end|>'",
    ).replace("{{ '<|im_start|>assistant\n' }}", "{{ '<|im_start|>assistant\n<think>' }}")
    made = template(closing)
    written = made.render({"messages": TWO_TURNS})
    assert trained(written)[-1] == "</think>Bye.<|im_end|>"
    assert made.render({"text": written.text}).spans == written.spans


def test_what_stands_around_an_answer() -> None:
    borders = Borders(Jinja(TAGS, {}), SPECIAL_TOKENS)
    assert borders.generation_prompt == "<bot>"
    assert borders.around == ("<bot>", "</s>")
    assert borders.header_end("</s><bot>") == len("</s><bot>")
    assert borders.header_end("</s><user>") is None


def test_the_stop_of_a_template_that_ends_no_turn_is_the_token_after_it() -> None:
    borders = Borders(Jinja(ENDLESS, {}), SPECIAL_TOKENS)
    assert borders.stop == "<user>"
    assert list(borders.stops) == ["<user>"]
    assert Borders(Jinja(TAGS, {}), SPECIAL_TOKENS).stop == ""


def test_what_the_prompt_adds_to_the_header_of_earlier_turns() -> None:
    reasoning_last = TAGS.replace("'<bot>' if", "('<bot><think>' if loop.last else '<bot>') if")
    borders = Borders(Jinja(reasoning_last.replace("{{ '<bot>' }}", "{{ '<bot><think>' }}"), {}), SPECIAL_TOKENS)
    assert borders.opening == "<think>"
    assert borders.around[0] == "<bot>"


def test_what_two_texts_begin_with_in_characters_and_in_whole_pieces() -> None:
    assert common_length("<bot>Yes", "<bot>Yet") == len("<bot>Ye")
    assert common_pieces("<bot>Yes", "<bot>Yet") == len("<bot>")
    assert common_pieces("<bot>", "<both>") == 0
