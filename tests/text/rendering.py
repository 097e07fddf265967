"""Samples as text, with the tokens of the multimodal data module. Written apart from the library's own templates."""

import json
from collections.abc import Mapping
from typing import Any

PAIRS = {
    "system": ("system_start", "system_end"),
    "user": ("user_start", "user_end"),
    "assistant": ("assistant_start", "assistant_end"),
    "tool": ("tool_start", "tool_end"),
    "think": ("think_start", "think_end"),
    "image": ("image_start", "image_end"),
    "video": ("video_start", "video_end"),
    "audio": ("audio_start", "audio_end"),
    "tool_call": ("tool_call", "tool_call_end"),
    "gen_image": ("gen_image", "gen_image_end"),
    "gen_video": ("gen_video", "gen_video_end"),
    "gen_audio": ("gen_audio", "gen_audio_end"),
}
TOKENS = {key: f"<|{slash}{name}|>" for name, keys in PAIRS.items() for key, slash in zip(keys, ("", "/"), strict=True)}


def rendered(sample: Mapping[str, Any], system: str = "") -> str:
    if "text" in sample:
        return str(sample["text"])
    messages = list(sample["messages"])
    if system and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": system}, *messages]
    if sample.get("tools"):
        listed = f"You have access to the following tools:\n{json.dumps(sample['tools'], indent=2)}"
        has_system = messages[0]["role"] == "system"
        if has_system:
            listed = f"{messages[0]['content']}\n\n{listed}"
        messages = [{"role": "system", "content": listed}, *messages[has_system:]]
    return "".join(between(message["role"], said(message)) for message in messages)


def said(message: Mapping[str, Any]) -> str:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = between("think", message["reasoning_content"]) if "reasoning_content" in message else ""
    text += "".join(part["text"] if part["type"] == "text" else between(part["type"], "") for part in parts)
    calls = message.get("tool_calls", [])
    return text + "".join(between("tool_call", json.dumps(call["function"], ensure_ascii=False)) for call in calls)


def between(name: str, text: str) -> str:
    start, end = PAIRS[name]
    return TOKENS[start] + text + TOKENS[end]
