"""The entry: template text, a conversation and loss weights -> text with trained spans."""

from collections.abc import Sequence

import pytest

from penstock.text.rendered import Rendered
from penstock.text.trained import Message, TemplateWriter
from tests.text.conversations import assistant, trained, user
from tests.text.trained.small_templates import BLOCKS, ENDLESS, SPECIAL_TOKENS, TAGS

MESSAGES = [user("Hi"), assistant("Yes"), user("So?"), assistant("Bye")]


def written(
    source: str, weights: Sequence[float], messages: Sequence[Message] = MESSAGES, *, everything: bool = False
) -> Rendered:
    return TemplateWriter(source, {}, SPECIAL_TOKENS).write(messages, None, weights, everything=everything)


@pytest.mark.parametrize("source", [TAGS, BLOCKS])
def test_with_and_without_blocks_the_same_is_trained(source: str) -> None:
    rendered = written(source, [0, 1, 0, 0.5])
    assert rendered.text == "<user>Hi</s><bot>Yes</s><user>So?</s><bot>Bye</s>"
    assert trained(rendered) == ["Yes</s>", "Bye</s>"]
    assert [span.weight for span in rendered.spans] == [1, 0.5]


@pytest.mark.parametrize("source", [TAGS, BLOCKS])
def test_a_message_of_the_user_is_trained_where_it_has_a_weight(source: str) -> None:
    assert trained(written(source, [1, 0, 0, 1])) == ["Hi</s>", "Bye</s>"]


def test_everything_is_the_whole_text_with_the_weights_of_messages() -> None:
    rendered = written(TAGS, [1, 0, 1, 1], everything=True)
    assert trained(rendered) == ["<user>Hi</s><bot>", "<user>So?</s><bot>Bye</s>"]


def test_the_stop_that_a_template_writes_only_between_turns_is_added_at_the_end() -> None:
    rendered = written(ENDLESS, [0, 1, 0, 1])
    assert rendered.text.endswith("<bot>Bye<user>")
    assert trained(rendered) == ["Yes<user>", "Bye<user>"]


def test_nothing_is_trained_without_weights() -> None:
    assert written(TAGS, [0, 0, 0, 0]).spans == ()


def test_what_stands_for_a_medium_is_never_trained() -> None:
    parts = (
        "{% for m in messages %}{{ '<bot>' if m.role == 'assistant' else '<user>' }}{% for p in m.content %}"
        "{{ p.text if p.type == 'text' else '<image>' }}{% endfor %}{{ '</s>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}"
    )
    answer = [{"type": "text", "text": "See "}, {"type": "image"}, {"type": "text", "text": "!"}]
    rendered = written(parts, [0, 1], [user("Hi"), assistant(answer)])
    assert trained(rendered) == ["See ", "!</s>"]
    assert [(medium.kind, rendered.text[medium.start : medium.end]) for medium in rendered.media] == [
        ("image", "<image>")
    ]


def test_what_a_model_cannot_learn_is_reported() -> None:
    silent = written(TAGS, [0, 1], [user("Hi"), assistant("Yes", reasoning_content="Hm")])
    assert silent.losses == ("the chat template leaves out all reasoning",)
    stopless = TAGS.replace(" + '</s>'", "").replace("'<' + m.role + '>'", "'User: '")
    assert any("does not learn to stop" in each for each in written(stopless, [0, 0, 0, 1]).losses)
