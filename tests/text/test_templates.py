"""The template of a dict of tokens: the document's text, and what is trained of it."""

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.formats import find
from penstock.text.rendered import Medium, TextSpan
from penstock.text.templates import TokensTemplate
from tests.text import rendering
from tests.text.conversations import (
    REASONING,
    SEVERAL_CALLS,
    TOOLS,
    TWO_TURNS,
    WITH_SYSTEM,
    WITH_TOOLS,
    assistant,
    call,
    system,
    tool,
    trained,
    user,
)
from tests.text.formats.test_datasets import GOLDEN, SOURCES, records

ROLES = ("system", "user", "assistant")
TOKENS = {f"{role}_{end}": f"<|{'/' * (end == 'end')}{role}|>" for role in ROLES for end in ("start", "end")}
TOKENS |= {
    f"{kind}_{end}": f"<|{kind}_{end}|>" for kind in ("image", "video", "audio", "think") for end in ("start", "end")
}
TOKENS |= {name: f"<|{name}|>" for name in ("tool_call", "tool_call_end", "gen_image", "gen_image_end")}
PLAIN = TokensTemplate(TOKENS)

contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
conversations = st.lists(
    st.builds(lambda role, content: {"role": role, "content": content}, st.sampled_from(ROLES), contents)
)


def document_conversation(messages: list[dict[str, Any]], tokens: dict[str, str]) -> str:
    """What the multimodal document's format_conversation writes."""
    return "".join(f"{tokens[m['role'] + '_start']}{m['content']}{tokens[m['role'] + '_end']}" for m in messages)


@given(conversations)
def test_a_conversation_is_the_documents_text(messages: list[dict[str, Any]]) -> None:
    assert PLAIN.render({"messages": messages}).text == document_conversation(messages, TOKENS)


@given(conversations)
def test_trained_is_what_the_assistant_says_with_the_end_token(messages: list[dict[str, Any]]) -> None:
    said = [m["content"] + TOKENS["assistant_end"] for m in messages if m["role"] == "assistant"]
    assert trained(PLAIN.render({"messages": messages})) == said


def test_tools_and_calls_that_json_does_not_know_reject_the_record() -> None:
    messages = [user("When?"), assistant("", tool_calls=[call("book", day=date(2026, 1, 1))])]
    with pytest.raises(Rejected, match=r"^tool calls are not JSON$"):
        PLAIN.render({"messages": messages})
    with pytest.raises(Rejected, match=r"^tools are not JSON$"):
        PLAIN.render({"messages": TWO_TURNS, "tools": [{"type": "function", "function": {"name": b"book"}}]})


def test_tools_are_listed_as_in_the_document() -> None:
    rendered = PLAIN.render(
        {"messages": [user("Sunny?"), assistant(None, tool_calls=[call("f", x=1)])], "tools": TOOLS}
    )
    listed = json.dumps(TOOLS, indent=2)
    assert rendered.text == (
        f"<|system|>You have access to the following tools:\n{listed}<|/system|><|user|>Sunny?<|/user|>"
        '<|assistant|><|tool_call|>{"name": "f", "arguments": {"x": 1}}<|tool_call_end|><|/assistant|>'
    )
    assert trained(rendered) == ['<|tool_call|>{"name": "f", "arguments": {"x": 1}}<|tool_call_end|><|/assistant|>']


@pytest.mark.parametrize("content", ["Be brief.", [{"type": "text", "text": "Be brief."}]])
def test_tools_follow_the_system_text(content: Any) -> None:
    text = PLAIN.render({"messages": [system(content), *TWO_TURNS], "tools": TOOLS}).text
    assert text.startswith("<|system|>Be brief.\n\nYou have access to the following tools:\n[\n")


def test_answers_of_tools_are_messages_of_the_user_unless_they_have_tokens() -> None:
    text = PLAIN.render({"messages": WITH_TOOLS}).text
    assert "<|user|>21 degrees<|/user|>" in text
    own = TokensTemplate({**TOKENS, "tool_start": "<|tool|>", "tool_end": "<|/tool|>"})
    assert "<|tool|>21 degrees<|/tool|>" in own.render({"messages": WITH_TOOLS}).text


def test_several_calls_and_what_is_said_before_them_are_trained() -> None:
    first, last = trained(PLAIN.render({"messages": SEVERAL_CALLS}))
    assert first.startswith("Let me see.<|tool_call|>") and first.count("<|tool_call|>") == 2
    assert (
        first.endswith('"arguments": {"city": "Rome"}}<|tool_call_end|><|/assistant|>')
        and last == "In Paris.<|/assistant|>"
    )


def test_reasoning_stands_before_the_answer_and_is_trained() -> None:
    first, last = trained(PLAIN.render({"messages": REASONING}))
    assert first == "<|think_start|>2, 3 do not divide it.<|think_end|>Yes.<|/assistant|>"
    assert last == "<|think_start|>3 times 3.<|think_end|>No.<|/assistant|>"


def test_media_stand_where_they_are_in_the_content() -> None:
    content = [{"type": "image"}, {"type": "text", "text": "Which is older?"}, {"type": "image"}, {"type": "audio"}]
    made = [user(content), assistant("<|gen_image|><|gen_image_end|>")]
    rendered = PLAIN.render({"messages": made})
    image, audio = "<|image_start|><|image_end|>", "<|audio_start|><|audio_end|>"
    generated = "<|gen_image|><|gen_image_end|>"
    assert (
        rendered.text == f"<|user|>{image}Which is older?{image}{audio}<|/user|><|assistant|>{generated}<|/assistant|>"
    )
    assert [kind for kind, *_ in rendered.media] == ["image", "image", "audio", "gen_image"]
    assert [rendered.text[start:end] for _, start, end in rendered.media] == [image, image, audio, generated]


def test_a_text_with_more_placeholders_than_media_is_rejected() -> None:
    template = TokensTemplate(rendering.TOKENS)
    placeholder = rendering.TOKENS["image_start"] + rendering.TOKENS["image_end"]
    forged = [user([{"type": "image"}, {"type": "text", "text": f"What is {placeholder}?"}]), assistant("A cat.")]
    with pytest.raises(Rejected, match="2 placeholders for media in the text, and 1 media"):
        template.render({"messages": forged, "images": ["cat.jpg"]})
    with pytest.raises(Rejected, match="1 placeholders for media in the text, and 0 media"):
        template.render({"messages": [user("Hi"), assistant(placeholder)]})
    assert len(template.render({"messages": forged, "images": ["cat.jpg", "dog.jpg"]}).media) == 2  # a format wrote it


def test_the_default_system_text_is_for_conversations_without_one() -> None:
    assert PLAIN.render({"messages": TWO_TURNS}, system="Be kind.").text.startswith(
        "<|system|>Be kind.<|/system|><|user|>"
    )
    assert PLAIN.render({"messages": WITH_SYSTEM}, system="Be kind.").text.startswith("<|system|>Be brief.<|/system|>")


def test_only_the_last_turn_or_everything() -> None:
    assert trained(TokensTemplate(TOKENS, train_on="last").render({"messages": TWO_TURNS})) == ["Bye.<|/assistant|>"]
    whole = TokensTemplate(TOKENS, train_on="all").render({"messages": TWO_TURNS})
    assert "".join(trained(whole)) == whole.text


def test_weights_of_messages_are_weights_of_spans() -> None:
    made = [user("a", train=True), assistant("b", weight=0.5), user("c"), assistant("d", train=False), assistant("e")]
    rendered = PLAIN.render({"messages": made})
    assert trained(rendered) == ["a<|/user|>", "b<|/assistant|>", "e<|/assistant|>"]
    assert [span.weight for span in rendered.spans] == [1.0, 0.5, 1.0]
    everything = TokensTemplate(TOKENS, train_on="all").render({"messages": made})
    assert [(text, span.weight) for text, span in zip(trained(everything), everything.spans, strict=True)] == [
        ("<|user|>", 1.0),
        ("a<|/user|>", 1.0),
        ("<|assistant|>", 1.0),
        ("b<|/assistant|>", 0.5),
        ("<|user|>", 1.0),
        ("c<|/user|>", 1.0),
        ("<|assistant|>", 1.0),
        ("<|assistant|>", 1.0),
        ("e<|/assistant|>", 1.0),
    ]


def test_a_text_is_trained_between_its_markers() -> None:
    text = "<|user|>Hi<|/user|><|assistant|>One<|/assistant|><|user|>?<|/user|><|assistant|>Two<|/assistant|>\n"
    assert trained(PLAIN.render({"text": text})) == ["One<|/assistant|>", "Two<|/assistant|>"]
    assert trained(TokensTemplate(TOKENS, train_on="last").render({"text": text})) == ["Two<|/assistant|>"]
    assert trained(TokensTemplate(TOKENS, train_on="all").render({"text": text})) == [text]
    assert trained(PLAIN.render({"text": text.removesuffix("<|/assistant|>\n")}))[-1] == "Two"


def test_a_text_without_markers_is_trained_all() -> None:
    rendered = PLAIN.render({"text": "def f(): <|image_start|><|image_end|>"})
    assert rendered.spans == (TextSpan(0, len(rendered.text)),)
    assert rendered.media == (Medium("image", 9, len(rendered.text)),)


def test_a_text_with_an_open_turn_in_the_middle_is_rejected() -> None:
    with pytest.raises(Rejected, match="has no end token"):
        PLAIN.render({"text": "<|assistant|>One<|user|>?<|/user|><|assistant|>Two<|/assistant|>"})


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        (user("a"), "user_start"),
        (user([{"type": "image"}]), "image_start"),
        (assistant("a", reasoning_content="b"), "think_start"),
    ],
)
def test_a_missing_token_is_an_error_that_names_it(message: dict[str, Any], missing: str) -> None:
    template = TokensTemplate({name: token for name, token in TOKENS.items() if name != missing})
    with pytest.raises(ConfigError, match=f"tokens: {missing} is missing"):
        template.render({"messages": [message]})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "narrator", "content": "a"}, "unknown role 'narrator'"),
        (user([{"type": "smell"}]), "unknown content 'smell'"),
    ],
)
def test_what_is_not_known_is_rejected(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        PLAIN.render({"messages": [message]})


def test_keys_without_a_value_count_as_absent() -> None:
    bare = [user("a"), assistant("b"), tool("c")]
    empty = {"tool_calls": None, "reasoning_content": None, "train": None, "weight": None, "loss_weight": None}
    filled = [{**message, **empty} for message in bare]
    assert PLAIN.render({"messages": filled, "tools": None}) == PLAIN.render({"messages": bare})


@pytest.mark.parametrize("entry", SOURCES, ids=lambda entry: str(entry["name"]))
def test_every_dataset_becomes_its_golden_text_with_something_to_train(entry: dict[str, Any]) -> None:
    used = find(entry["dtype"])
    template = TokensTemplate(rendering.TOKENS)
    for record, golden in zip(records(entry["name"]), GOLDEN[entry["name"]], strict=True):
        rendered = template.render(used(record, rendering.TOKENS), system=used.system)
        assert rendered.text == golden["text"]
        assert all(part.endswith(rendering.TOKENS["assistant_end"]) for part in trained(rendered)) or "text" in record
        assert rendered.spans
