"""Turns in all the forms that datasets have."""

import json
from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats.messages import TurnMedium, turns_of
from penstock.text.trained import message_weights


def read(turns: Any) -> list[dict[str, Any]]:
    """Messages whose content is what was found in the turn."""
    return [{**turn.message, "content": turn.content} for turn in turns_of(turns)]


def one(**keys: Any) -> dict[str, Any]:
    [message] = read([keys])
    return message


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("system", "system"),
        ("developer", "system"),
        ("instruction", "system"),
        ("user", "user"),
        ("human", "user"),
        ("prompter", "user"),
        ("Human", "user"),
        ("assistant", "assistant"),
        ("gpt", "assistant"),
        ("bot", "assistant"),
        ("model", "assistant"),
        ("ai", "assistant"),
        ("tool", "tool"),
        ("observation", "tool"),
        ("function", "tool"),
        ("function-response", "tool"),
        ("tool_response", "tool"),
        ("ipython", "tool"),
    ],
)
def test_names_of_roles_are_known(name: str, role: str) -> None:
    assert one(role=name, content="x") == {"role": role, "content": "x"}
    assert one(**{"from": name, "value": "x"}) == {"role": role, "content": "x"}


def test_a_conversation_may_be_json_or_texts_in_turn_or_pairs() -> None:
    expected = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert read(expected) == expected
    assert read(json.dumps(expected)) == expected
    assert read(["a", "b"]) == expected
    assert read([{"user": "a", "assistant": "b", "source": "x"}]) == expected
    assert read([{"role": "user", "text": "a"}, {"role": "ai", "text": "b"}]) == expected


def test_keys_that_arrow_fills_with_nulls_are_left_out() -> None:
    nulls = {"tool_calls": None, "name": None, "weight": None, "train": None, "reasoning_content": None, "from": None}
    assert one(role="assistant", content="x", value=None, **nulls) == {"role": "assistant", "content": "x"}


def test_options_of_a_turn_are_kept() -> None:
    assert one(role="assistant", content="x", train=False, weight=2)["train"] is False
    assert one(role="assistant", content="x", weight=2)["weight"] == 2.0
    assert one(role="assistant", content="x", loss_weight=0.5)["weight"] == 0.5
    assert one(role="assistant", content="x", loss_weight=0.0)["weight"] == 0.0
    assert one(**{"from": "gpt", "value": "x", "loss": False})["train"] is False
    assert one(**{"from": "gpt", "value": "x", "loss": True, "train": False})["train"] is False
    assert "train" not in one(**{"from": "gpt", "value": "x", "loss": 0.25})
    assert "train" not in one(**{"from": "gpt", "value": "x", "loss": None})


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("train", "false", "message field 'train' must be a boolean"),
        ("train", 0.5, "message field 'train' must be a boolean"),
        ("weight", "little", "the loss weight of a message is not a number"),
        ("loss_weight", [1], "the loss weight of a message is not a number"),
    ],
)
def test_what_is_no_train_or_weight_rejects_the_record_instead_of_being_trained(
    key: str, value: Any, reason: str
) -> None:
    with pytest.raises(Rejected, match=reason):
        message_weights([one(role="assistant", content="x", **{key: value})], "assistant")


def test_a_weight_as_text_counts() -> None:
    assert message_weights([one(role="assistant", content="x", weight="0.5")], "assistant") == [0.5]
    assert one(role="assistant", content="x", reasoning_content="hm")["reasoning_content"] == "hm"
    assert one(role="assistant", content="x", thinking="hm")["reasoning_content"] == "hm"
    assert "reasoning_content" not in one(role="user", content="x", reasoning_content="hm")
    answered = one(role="tool", content="x", name="f", tool_call_id="c1")
    assert (answered["name"], answered["tool_call_id"]) == ("f", "c1")


CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}


@pytest.mark.parametrize(
    "keys",
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": json.dumps([CALL])},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]},
        {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": 1, "b": None}}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
        {"from": "function-call", "value": """{"name": "f", "arguments": '{"a": 1}'}"""},
        {"from": "function_call", "value": '[{"name": "f", "arguments": {"a": 1}}]'},
    ],
)
def test_calls_of_tools_get_one_form(keys: dict[str, Any]) -> None:
    assert one(**keys) == {"role": "assistant", "content": "", "tool_calls": [CALL]}


def test_an_answer_of_a_tool_may_be_an_object() -> None:
    assert one(role="tool", content={"a": [1, "ü"]})["content"] == '{"a": [1, "ü"]}'


def test_parts_of_reasoning_and_calls_are_those_of_the_message() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "reasoning", "value": "So."},
        {"type": "text", "text": "Wait."},
        {"type": "tool_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"type": "tool_call", "name": "f", "arguments": '{"x": 1}'},
    ]
    expected = {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm.\nSo.", "tool_calls": [call, call]}
    assert one(role="assistant", content=content) == expected
    assert one(role="gpt", value=content[3:]) == {"role": "assistant", "content": "", "tool_calls": [call, call]}


def test_parts_become_texts_and_media() -> None:
    assert one(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "value": "b"}])["content"] == "ab"
    parts = [
        {"type": "image", "text": None},
        {"type": "text", "text": "a", "image": None},
        {"type": "image_url", "image_url": {"url": "x.png", "detail": "low"}},
        {"type": "video", "video": "x.mp4"},
        {"type": "audio_url", "value": "x.wav"},
        {"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}},
    ]
    assert one(role="user", content=parts)["content"] == [
        TurnMedium("image"),
        "a",
        TurnMedium("image", "x.png"),
        TurnMedium("video", "x.mp4"),
        TurnMedium("audio", "x.wav"),
        TurnMedium("audio", {"data": "…", "format": "wav"}),
    ]


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([], "no messages"),
        ("[]", "no messages"),
        ("not JSON", "messages are not JSON"),
        ({"role": "user"}, "messages are not a list"),
        ([5], "a message is not a dict"),
        ([{"content": "x"}], "a message without a role"),
        ([{"role": "critic", "content": "x"}], "unknown role 'critic'"),
        ([{"role": None, "content": "x"}], "a message without a role"),
        ([{"role": "user", "content": 5}], "the content of a message is not text"),
        ([{"role": "user", "content": [5]}], "a part of a message is not a dict"),
        ([{"role": "user", "content": [{"type": "smell"}]}], "unknown part 'smell'"),
        ([{"role": "user", "content": [{"type": "reasoning", "value": "x"}]}], "unknown part 'reasoning'"),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "reasoning", "value": "y"}]}],
            "the parts of a message are not in the order reasoning, text, tool calls",
        ),
        ([{"role": "assistant", "content": [{"type": "tool_call", "value": "f("}]}], "tool calls are not JSON"),
        ([{"from": "function_call", "value": "f(1)"}], "tool calls are not JSON"),
        ([{"from": "function_call", "value": '{"arguments": {}}'}], "a tool call without a name"),
        ([{"role": "assistant", "tool_calls": [5]}], "a tool call is not a JSON object"),
        ([{"role": "assistant", "tool_calls": True}], "tool calls are not a list"),
        (
            [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "a=1"}]}],
            "the arguments of a tool call are not JSON",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[1]"}]}],
            "the arguments of a tool call are not a JSON object",
        ),
    ],
)
def test_what_can_not_be_used_has_a_reason(turns: Any, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        turns_of(turns)
    assert str(rejected.value) == reason
