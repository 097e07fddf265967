"""One chat template: what it takes, and what it writes. Nothing is trained here."""

import pytest

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.trained.jinja import TODAY, Jinja
from tests.text.conversations import assistant, call, user
from tests.text.trained.small_templates import BLOCKS, TAGS

PARTS = (  # content is a list, as in templates of multimodal models
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% for p in m.content %}"
    "{{ p.text if p.type == 'text' else '<image>' }}{% endfor %}{% endfor %}"
)
CALLS = (
    "{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.arguments FILTER }}{% endfor %}{% endfor %}"
)


def test_a_conversation_with_and_without_a_generation_prompt() -> None:
    jinja = Jinja(TAGS, {})
    assert jinja.text([user("Hi")]) == "<user>Hi</s>"
    assert jinja.text([user("Hi")], prompt=True) == "<user>Hi</s><bot>"


def test_special_tokens_may_be_named() -> None:
    assert Jinja("{{ bos_token }}!", {"bos_token": "<s>"}).text([user("Hi")]) == "<s>!"


def test_characters_in_generation_blocks() -> None:
    text, blocks = Jinja(BLOCKS, {}).text_and_blocks([user("Hi"), assistant("Yes")], None)
    assert [text[start:end] for start, end in blocks] == ["Yes</s>"]
    assert Jinja(BLOCKS, {}).has_generation and not Jinja(TAGS, {}).has_generation


def test_the_date_is_always_the_same() -> None:
    assert Jinja("{{ strftime_now('%Y') }}", {}).text([user("Hi")]) == str(TODAY.year)
    with pytest.raises(ConfigError, match="would depend on the day"):
        Jinja("{{ strftime_now(form) }}", {})


def test_keys_of_ours_and_keys_without_a_value_are_not_for_the_template() -> None:
    given = assistant("Yes", train=True, weight=2.0, name=None, tool_calls=[])
    assert Jinja(TAGS, {}).message(given) == assistant("Yes")


def test_content_is_handed_over_as_the_template_takes_it() -> None:
    text = [{"type": "text", "text": "Hi"}]
    assert Jinja(TAGS, {}).message(user(text)) == user("Hi")
    assert Jinja(PARTS, {}).message(user("Hi")) == user(text)
    with pytest.raises(ConfigError, match="takes text only, and a sample has image"):
        Jinja(TAGS, {}).message(user([{"type": "image"}, *text]))


def test_what_stands_for_a_medium() -> None:
    assert Jinja(PARTS, {}).placeholder("image") == "<image>"
    with pytest.raises(Rejected, match="writes nothing for a medium of kind image"):
        Jinja(TAGS, {}).placeholder("image")


def test_arguments_of_calls_are_a_dict_or_json_as_the_template_takes_them() -> None:
    messages = [user("Hi"), assistant("", tool_calls=[call("look", far=True)])]
    assert Jinja(CALLS.replace("FILTER", "| tojson"), {}).text(messages) == 'Hi{"far": true}'
    assert Jinja(CALLS.replace("FILTER", "+ ''"), {}).text(messages) == 'Hi{"far": true}'


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ("{{ raise_exception('No.') }}", Rejected, "refused by the chat template: No."),
        ("{{ messages[7].content }}", Rejected, "refused by the chat template"),
        ("{% if %}", ConfigError, "the chat template of the tokenizer, line 1"),
    ],
)
def test_what_is_refused(source: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        Jinja(source, {}).text([user("Hi")])
