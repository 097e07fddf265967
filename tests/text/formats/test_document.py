"""The eight functions against the documentation, written out once more here, over random records."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.text.formats.document import (
    DOCUMENT,
    format_code,
    format_conversation,
    format_generation,
    format_tool_use,
    format_video,
    format_vision,
    format_voice_asr,
    format_voice_tts,
)
from tests.text.rendering import TOKENS

Sample = Mapping[str, Any]
T = TOKENS


def get(sample: Sample, *names: str, default: Any = "") -> Any:
    """A column by the first of its names that is a key, whatever its value."""
    return next((sample[name] for name in names if name in sample), default)


def expected_code(sample: Sample) -> dict[str, Any]:
    text = T["system_start"] + "You are an expert programmer. Write clean, efficient code." + T["system_end"]
    text += T["user_start"] + str(get(sample, "instruction", "prompt")) + T["user_end"]
    text += T["assistant_start"] + "```" + str(get(sample, "language", default="python")) + "\n"
    text += str(get(sample, "output", "code", "response")) + "\n```" + T["assistant_end"]
    return {"text": text, "dtype": "code"}


def expected_conversation(sample: Sample) -> dict[str, Any]:
    names = {"system": "system", "instruction": "system", "user": "user", "human": "user"}
    names |= {"assistant": "assistant", "gpt": "assistant", "bot": "assistant"}
    text = ""
    for message in get(sample, "messages", "conversations", default=[]):
        name = names.get(get(message, "role", "from"))
        if name:
            text += T[f"{name}_start"] + str(get(message, "content", "value")) + T[f"{name}_end"]
    return {"text": text, "dtype": "conversation"}


def expected_tool_use(sample: Sample) -> dict[str, Any]:
    tools = get(sample, "tools", "functions", default=[])
    text = T["system_start"] + "You have access to the following tools:\n"
    text += (json.dumps(tools, indent=2) if tools else "") + T["system_end"]
    text += T["user_start"] + str(get(sample, "query", "instruction")) + T["user_end"]
    text += T["assistant_start"] + T["tool_call"] + str(get(sample, "response", "output")) + T["tool_call_end"]
    return {"text": text + T["assistant_end"], "dtype": "tool_use"}


def expected_question(sample: Sample, medium: str) -> str:
    text = T["user_start"] + T[f"{medium}_start"] + T[f"{medium}_end"] + str(get(sample, "question", "prompt"))
    text += T["user_end"] + T["assistant_start"] + str(get(sample, "answer", "response"))
    return text + T["assistant_end"]


def expected_vision(sample: Sample) -> dict[str, Any]:
    return {"text": expected_question(sample, "image"), "image": sample.get("image"), "dtype": "vision"}


def expected_video(sample: Sample) -> dict[str, Any]:
    video = get(sample, "video", "video_path", default=None)
    return {"text": expected_question(sample, "video"), "video": video, "dtype": "video"}


def expected_asr(sample: Sample) -> dict[str, Any]:
    text = T["user_start"] + T["audio_start"] + T["audio_end"] + "Transcribe this audio." + T["user_end"]
    text += T["assistant_start"] + str(get(sample, "text", "transcript")) + T["assistant_end"]
    return {"text": text, "audio": sample.get("audio"), "dtype": "voice_asr", "has_asr": True}


def expected_tts(sample: Sample) -> dict[str, Any]:
    text = T["user_start"] + "Read this text aloud: " + str(get(sample, "text", "transcript")) + T["user_end"]
    text += T["assistant_start"] + T["gen_audio"] + T["gen_audio_end"] + T["assistant_end"]
    speaker = get(sample, "speaker_ref", "reference_audio", default=None)
    made = {"target_audio": sample.get("audio"), "speaker_ref": speaker}
    return {"text": text, **made, "dtype": "voice_tts", "has_tts": True}


def expected_generation(sample: Sample) -> dict[str, Any]:
    prompt = get(sample, "prompt", "text")
    kind, article = ("image", "an") if sample.get("video") is None else ("video", "a")
    text = T["user_start"] + f"Generate {article} {kind}: " + str(prompt) + T["user_end"] + T["assistant_start"]
    text += T[f"gen_{kind}"] + T[f"gen_{kind}_end"] + T["assistant_end"]
    made = {f"gen_{kind}s": sample.get(kind), "gen_prompts": prompt}
    return {"text": text, **made, "dtype": "generation", f"has_{kind}_gen": True}


FUNCTIONS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[Sample], dict[str, Any]], tuple[str, ...]]] = {
    "code": (format_code, expected_code, ("instruction", "prompt", "output", "code", "response", "language")),
    "conversation": (format_conversation, expected_conversation, ("messages", "conversations")),
    "tool_use": (
        format_tool_use,
        expected_tool_use,
        ("query", "instruction", "tools", "functions", "response", "output"),
    ),
    "vision": (format_vision, expected_vision, ("image", "question", "prompt", "answer", "response")),
    "video": (format_video, expected_video, ("video", "video_path", "question", "prompt", "answer", "response")),
    "voice_asr": (format_voice_asr, expected_asr, ("audio", "text", "transcript")),
    "voice_tts": (format_voice_tts, expected_tts, ("audio", "text", "transcript", "speaker_ref", "reference_audio")),
    "generation": (format_generation, expected_generation, ("prompt", "text", "image", "video")),
}

roles = st.sampled_from(["system", "instruction", "user", "human", "assistant", "gpt", "bot", "tool", "critic", ""])
turns = st.dictionaries(st.sampled_from(["role", "from"]), roles).flatmap(
    lambda role: st.dictionaries(st.sampled_from(["content", "value"]), st.text() | st.none()).map(
        lambda content: {**role, **content}
    )
)
values = st.none() | st.text() | st.integers() | st.lists(st.text(), max_size=2)
values |= st.dictionaries(st.text(), st.integers(), max_size=2)


def records(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    value = st.lists(turns, max_size=5) if "messages" in names else values
    return st.dictionaries(st.sampled_from([*names, "other"]), value)


@pytest.mark.parametrize("dtype", FUNCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_function_writes_what_the_documentation_says(dtype: str, data: st.DataObject) -> None:
    function, expected, names = FUNCTIONS[dtype]
    record = data.draw(records(names))
    before = json.dumps(record)
    made = function(record, TOKENS)
    assert made == expected(record) and json.dumps(record) == before


def test_the_formats_of_the_functions_accept_a_record_without_any_column() -> None:
    assert set(DOCUMENT) == set(FUNCTIONS)
    for dtype, each in DOCUMENT.items():
        function, expected, names = FUNCTIONS[dtype]
        assert each.function is function and each.dtype == dtype
        assert {**each({}, TOKENS), **expected({})} == each({}, TOKENS)
        assert set(each.media) <= set(names)


@pytest.mark.parametrize("dtype", FUNCTIONS)
def test_a_function_uses_the_tokens_that_its_format_names_and_no_others(dtype: str) -> None:
    used = set()

    class Noted(dict[str, str]):
        def __getitem__(self, key: str) -> str:
            used.add(key)
            return super().__getitem__(key)

    for record in ({"messages": [{"role": role} for role in ("system", "user", "assistant")]}, {"video": "v.mp4"}):
        FUNCTIONS[dtype][0](record, Noted(TOKENS))
    assert used == set(DOCUMENT[dtype].tokens)


def test_only_functions_that_never_raise_accept_all() -> None:
    for dtype, each in DOCUMENT.items():
        broken = {name: object() for name in FUNCTIONS[dtype][2]}
        if each.accepts_all:
            assert each(broken, TOKENS)["text"]
        else:
            with pytest.raises(ValueError, match="the format raised TypeError"):
                each(broken, TOKENS)
