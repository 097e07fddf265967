"""Files that others wrote, read as a user's data would come: every record becomes a sample."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.text.formats import find
from tests.text.contract import check_sample
from tests.text.rendering import TOKENS, rendered

DATA = Path(__file__).parents[2] / "data" / "chat"
FILES = {
    "alpaca_en_demo.json": ("conversation", 12),
    "glaive_toolcall_en_demo.json": ("tool_use", 8),
    "mllm_demo.json": ("vision", 6),
    "mllm_video_demo.json": ("video", 3),
    "mllm_audio_demo.json": ("voice_asr", 3),
    "v1_sft_demo.jsonl": ("conversation", 12),
}

PARTS = ("text", "reasoning", "tool_call")


def records(name: str) -> list[dict[str, Any]]:
    text = (DATA / name).read_text()
    found: list[dict[str, Any]] = (
        [json.loads(line) for line in text.splitlines()] if name[-1] == "l" else json.loads(text)
    )
    return found


def samples(name: str) -> list[dict[str, Any]]:
    dtype, _ = FILES[name]
    return [dict(find(dtype)(record, TOKENS)) for record in records(name)]


@pytest.mark.parametrize("name", FILES)
def test_every_record_becomes_a_sample(name: str) -> None:
    made = samples(name)
    assert len(made) == FILES[name][1]
    for sample in made:
        check_sample(sample)


def test_alpaca_joins_instruction_and_input() -> None:
    for record, sample in zip(records("alpaca_en_demo.json"), samples("alpaca_en_demo.json"), strict=True):
        question = "\n".join(filter(None, (record["instruction"], record["input"])))
        assert [message["content"] for message in sample["messages"]] == [question, record["output"]]


def test_tool_calls_become_calls_and_answers_of_tools() -> None:
    for record, sample in zip(
        records("glaive_toolcall_en_demo.json"), samples("glaive_toolcall_en_demo.json"), strict=True
    ):
        names = [turn["from"] for turn in record["conversations"]]
        assert ["tool_calls" in message for message in sample["messages"]] == [
            name == "function_call" for name in names
        ]
        assert [message["role"] == "tool" for message in sample["messages"]] == [
            name == "observation" for name in names
        ]
        tools = json.loads(record["tools"])
        assert [tool["function"] for tool in sample.get("tools", [])] == tools
        for turn, message in zip(record["conversations"], sample["messages"], strict=True):
            if turn["from"] == "function_call":
                assert [call["function"] for call in message["tool_calls"]] == [json.loads(turn["value"])]
            else:
                assert message["content"] == turn["value"]


@pytest.mark.parametrize("kind", ["image", "video", "audio"])
def test_media_stand_where_the_tags_were(kind: str) -> None:
    name = "mllm_demo.json" if kind == "image" else f"mllm_{kind}_demo.json"
    for record, sample in zip(records(name), samples(name), strict=True):
        assert sample[f"{kind}s"] == record[f"{kind}s"]
        text = "".join(message["content"] for message in record["messages"])
        assert text.replace(f"<{kind}>", "[]") == "".join(plain(message["content"]) for message in sample["messages"])


def plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "[]") for part in content)


def test_parts_with_values_and_loss_weights_are_read() -> None:
    for record, sample in zip(records("v1_sft_demo.jsonl"), samples("v1_sft_demo.jsonl"), strict=True):
        assert [message["weight"] for message in sample["messages"]] == [0.0, 1.0] * (len(record["messages"]) // 2)
        assert rendered(sample).count(TOKENS["assistant_end"]) == len(record["messages"]) // 2
        for turn, message in zip(record["messages"], sample["messages"], strict=True):
            assert message["content"] == turn["content"][0]["value"]


def test_parts_that_are_reasoning_or_calls_become_those_of_the_message() -> None:
    found = records("reason_tool_use_demo.jsonl")
    assert len(found) == 5
    for record in found:
        sample = dict(find("tool_use")(record, TOKENS))
        check_sample(sample)
        for turn, message in zip(record["messages"], sample["messages"], strict=True):
            values = {kind: [part["value"] for part in turn["content"] if part["type"] == kind] for kind in PARTS}
            assert message["content"] == "".join(values["text"])
            assert message.get("reasoning_content", "") == "".join(values["reasoning"])
            calls = [call["function"] for call in message.get("tool_calls", [])]
            assert calls == [json.loads(value) for value in values["tool_call"]]
