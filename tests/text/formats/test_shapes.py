"""The shapes that records come in, through the format `conversation`, and why some of them are rejected."""

import json
from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats import find

USER = {"role": "user", "content": "a"}
REPLY = {"role": "assistant", "content": "b"}
PAIR = [USER, REPLY]
TOOL = {"type": "function", "function": {"name": "f"}}


def sample_of(record: dict[str, Any], dtype: str = "conversation") -> dict[str, Any]:
    sample: dict[str, Any] = dict(find(dtype)(record, {}))
    return sample


@pytest.mark.parametrize(
    "record",
    [
        {"messages": PAIR},
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        {"conversation": PAIR},
        {"trajectory": json.dumps(PAIR)},
        {"texts": [{"user": "a", "assistant": "b"}]},
        {"messages": None, "instruction": "a", "input": "", "output": "b"},
        {"instruction": "a", "input": None, "output": "b", "text": "### a b"},
        {"prompt": "a", "completion": "b"},
        {"prompt": [USER], "completion": [REPLY]},
        {"prompt": [USER], "completion": "b"},
        {"question": "a", "answer": "b"},
        {"question": "a", "answers": ["b", "c"]},
        {"question": "a", "answers": {"text": ["b"], "answer_start": [0]}},
        {"question": "a", "solutions": '["b", "c"]'},
        {"query": "a", "response": "b"},
        {"problem": "a", "solution": "b"},
        {"q": "a", "a": "b"},
        {"input": "a", "output": "b"},
        {"user": "a", "assistant": "b"},
        {"Prompt": "a", "Response": "b"},
        {"json": {"prompt": "a", "response": "b"}, "__key__": "0"},
    ],
    ids=lambda record: "-".join(record),
)
def test_a_question_and_its_answer_are_found(record: dict[str, Any]) -> None:
    assert sample_of(record)["messages"] == PAIR


def test_alpaca_has_input_history_and_system() -> None:
    record = {"instruction": "a", "input": "i", "output": "b", "system": "s", "history": [["h1", "h2"], ["h3", "h4"]]}
    said = [(message["role"], message["content"]) for message in sample_of(record)["messages"]]
    assert said == [
        ("system", "s"),
        ("user", "h1"),
        ("assistant", "h2"),
        ("user", "h3"),
        ("assistant", "h4"),
        ("user", "a\ni"),
        ("assistant", "b"),
    ]


def test_only_the_completion_of_a_prompt_is_trained_on() -> None:
    record = {"prompt": [USER, REPLY, USER], "completion": [REPLY]}
    assert [message.get("train") for message in sample_of(record)["messages"]] == [None, False, None, None]


WORSE = {"role": "assistant", "content": "c"}


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "a", "chosen": "b", "rejected": "c"},
        {"question": "a", "chosen": "b", "rejected": "c", "answer": "d"},
        {"prompt": [USER], "chosen": [REPLY], "rejected": [WORSE]},
        {"chosen": PAIR, "rejected": [USER, WORSE]},
        {"prompt": "a", "messages": [USER, WORSE], "chosen": PAIR, "rejected": [USER, WORSE]},
        {"conversations": [{"from": "human", "value": "a"}], "chosen": {"from": "gpt", "value": "b"}, "rejected": {}},
        {"messages": [USER, WORSE], "chosen": "b", "rejected": "c"},
        {"chosen_messages": PAIR, "rejected_messages": [USER, WORSE]},
        {"messages": PAIR, "chosen": None, "rejected": None},
        {"chosen": json.dumps(PAIR), "rejected": json.dumps([USER, WORSE])},
        {"prompt": json.dumps([USER]), "chosen": json.dumps([REPLY]), "rejected": json.dumps([WORSE])},
        {"messages": json.dumps([USER, WORSE]), "chosen": json.dumps(REPLY), "rejected": "c"},
        {"prompt": json.dumps([USER]), "completion": json.dumps([REPLY])},
        {"prompt": "a", "completion": "b", "label": True},
        {"messages": PAIR, "label": 0},
    ],
)
def test_of_preferences_the_chosen_answer_is_taken(record: dict[str, Any]) -> None:
    for dtype in ("conversation", "tool_use", "code", "vision"):
        if "completion" not in record or dtype != "code":  # a fence
            assert sample_of(record, dtype)["messages"] == PAIR


@pytest.mark.parametrize("chosen", ['{"b": 1}', '[{"b": 1}]', "[]", "[b", "{'b'"])
def test_a_chosen_answer_that_is_json_but_no_messages_is_a_text(chosen: str) -> None:
    record = {"prompt": "a", "chosen": chosen, "rejected": "c"}
    assert sample_of(record)["messages"] == [USER, {"role": "assistant", "content": chosen}]


def test_only_the_chosen_answer_is_trained_on() -> None:
    record = {"prompt": [USER, WORSE, USER], "chosen": "b", "rejected": "c"}
    messages = sample_of(record)["messages"]
    assert messages == [USER, {**WORSE, "train": False}, USER, REPLY]


@pytest.mark.parametrize("label", [False, "False", "false"])
@pytest.mark.parametrize("dtype", ["conversation", "tool_use", "code", "vision", "chain_of_thought"])
def test_an_answer_that_nobody_wants_is_left_out(label: Any, dtype: str) -> None:
    for record in ({"prompt": "a", "completion": "b"}, {"messages": PAIR}, {"prompt": [USER], "completion": [REPLY]}):
        with pytest.raises(Rejected, match=r"^label: false$"):
            sample_of({**record, "label": label}, dtype)


def test_a_label_that_is_itself_the_answer_is_no_verdict() -> None:
    record = {"question": "Is it a cat?", "image": "cat.png", "label": False}
    assert sample_of(record, "image_vqa")["messages"][-1]["content"] == "False"


def test_a_system_column_is_for_conversations_without_a_system_turn() -> None:
    own = [{"role": "system", "content": "own"}, *PAIR]
    assert sample_of({"messages": own, "system": "column"})["messages"] == own
    empty = [{"role": "system", "content": ""}, *PAIR]
    system = {"role": "system", "content": "column"}
    assert sample_of({"messages": empty, "system_prompt": "column"})["messages"] == [system, *PAIR]
    assert sample_of({"messages": empty})["messages"] == PAIR


def test_tools_come_along_unless_the_system_turn_lists_them() -> None:
    for name, value in {"tools": [TOOL], "functions": json.dumps([{"name": "f"}])}.items():
        assert sample_of({"messages": PAIR, name: value})["tools"] == [TOOL]
    listed = [{"role": "system", "content": 'You may call {"name": "f"}.'}, *PAIR]
    assert "tools" not in sample_of({"messages": listed, "tools": [TOOL]})
    assert "tools" not in sample_of({"messages": PAIR, "tools": "[]"})


def test_a_text_alone_is_passed_through() -> None:
    text = "<|user|>a<|/user|><|assistant|>b<|/assistant|>"
    for dtype in ("text", "conversation", "documents", "git", "chain_of_thought", "code_execution", "code"):
        sample = sample_of({"text": text, "type": "issue"}, dtype)
        assert sample["text"] == text and "messages" not in sample


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"messages": []}, "no messages"),
        ({"messages": [USER]}, "no assistant turn"),
        ({"messages": [USER, {"role": "assistant", "content": ""}]}, "no assistant turn"),
        ({"messages": [USER, {"role": "critic", "content": "x"}, REPLY]}, "unknown role 'critic'"),
        ({"messages": [{"role": "user", "content": "<image>"}, REPLY], "images": []}, "1 <image> tag but 0 images"),
        ({"question": "a", "answer": None}, "no answer"),
        ({"question": "a", "answer": ""}, "no answer"),
        ({"prompt": [USER]}, "no completion"),
        ({"prompt": [USER], "chosen": "", "rejected": "c"}, "no chosen answer"),
        ({"prompt": "a", "chosen": 1, "rejected": 0}, "the chosen answer is neither a text nor messages"),
        ({"chosen": "b", "rejected": "c"}, "no prompt"),
        ({"instruction": "a", "output": "b", "history": ["h"]}, "the history is not a list of pairs"),
        ({"titel": "a", "body": "b"}, "no conversation in the columns titel, body"),
        ({}, "no conversation in the columns "),
        ({"messages": PAIR, "tools": "f()"}, "tools are not JSON"),
    ],
)
def test_a_record_that_can_not_be_used_has_a_reason(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        sample_of(record)
    assert str(rejected.value) == reason


@pytest.mark.parametrize("text", [None, "", 5])
def test_a_text_that_is_none_is_rejected(text: Any) -> None:
    with pytest.raises(Rejected, match=r"^no text$"):
        sample_of({"text": text}, "text")
