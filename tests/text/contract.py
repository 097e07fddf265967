"""What a sample must be, whatever format made it: the contract with templates and recipes."""

import json
from collections.abc import Mapping
from typing import Any

FLAGS = ("has_image_gen", "has_video_gen", "has_asr", "has_tts")
MEDIA = ("image", "video", "audio")
OPTIONAL = {"tool_calls": list, "reasoning_content": str, "name": str, "tool_call_id": str, "train": bool}
OPTIONAL |= {"weight": float}


def check_sample(sample: Mapping[str, Any]) -> None:
    assert ("messages" in sample) != ("text" in sample)
    assert isinstance(sample["dtype"], str) and all(type(sample[flag]) is bool for flag in FLAGS)
    if "text" in sample:
        assert isinstance(sample["text"], str) and sample["text"]
        return
    places = [kind for message in sample["messages"] for kind in check_message(message)]
    assert any(message["role"] == "assistant" for message in sample["messages"])
    for kind in MEDIA:
        media = sample.get(f"{kind}s", [])
        assert len(media) == places.count(kind) and all(each is not None for each in media)
    json.dumps(sample.get("tools", []))
    assert all(isinstance(tool["function"], dict) for tool in sample.get("tools", []))


def check_message(message: Mapping[str, Any]) -> list[str]:
    """The kinds of media that a message has places for."""
    assert message["role"] in ("system", "user", "assistant", "tool")
    assert set(message) <= {"role", "content", *OPTIONAL}
    assert all(isinstance(message[key], kind) for key, kind in OPTIONAL.items() if key in message)
    for call in message.get("tool_calls", []):
        assert call["type"] == "function" and set(call) <= {"type", "function", "id"}
        assert set(call["function"]) == {"name", "arguments"} and isinstance(call["function"]["name"], str)
        assert isinstance(call["function"]["arguments"], dict) and json.dumps(call)
    content = message["content"]
    if isinstance(content, str):
        return []
    texts = [part for part in content if part["type"] == "text"]
    kinds = [part["type"] for part in content if part["type"] != "text"]
    assert all(set(part) == {"type", "text"} and part["text"] for part in texts)
    assert kinds and set(kinds) <= set(MEDIA)
    return kinds
