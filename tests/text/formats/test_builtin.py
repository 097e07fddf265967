"""All built-in formats: any record gives a sample that keeps the contract, or a reason; nothing else."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.text.errors import Rejected
from penstock.text.formats.builtin import BUILTIN
from penstock.text.formats.document import DOCUMENT
from penstock.text.formats.format import Format, modality_of
from tests.text.contract import check_sample
from tests.text.rendering import TOKENS, rendered

DATA = Path(__file__).parents[2] / "data" / "chat"
FORMATS = {each.dtype: each for each in BUILTIN}
FIXTURES = [record for path in sorted((DATA / "fixtures").iterdir()) for record in json.loads(path.read_text())]
MORE = {"history", "completion", "tool_calls", "audios", "chosen", "rejected", "label"}
COLUMNS = sorted({name for record in FIXTURES for name in record} | MORE)

plain = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=5)
plain |= st.sampled_from(["<image>", "a<video>b", "<audio><image>", "A", "[1]", '{"name": "f"}', "[]", "x.png"])
names = ["role", "from", "content", "value", "type", "text", "image", "name", "arguments", "function", "tool_calls"]
names += ["user", "assistant", "parent_id", "message_id", "replies", "rank", "weight", "loss", "answer", "url"]
kinds = ["text", "image", "image_url", "reasoning", "tool_call"]
words = st.sampled_from(["user", "assistant", "gpt", "tool", "function_call", "critic", *kinds])
anything = st.recursive(
    plain | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
    max_leaves=12,
)
turn = st.fixed_dictionaries({"role": words, "content": anything})
records = st.dictionaries(st.sampled_from(COLUMNS), anything | st.lists(turn, max_size=3), max_size=6)
mixed = st.sampled_from(FIXTURES).flatmap(lambda record: records.map(lambda more: {**record, **more}))


@settings(max_examples=150)
@given(record=records | mixed)
def test_any_record_gives_a_sample_or_a_reason(record: dict[str, Any]) -> None:
    before = json.dumps(record)
    for each in BUILTIN:
        try:
            check_sample(each(record, TOKENS))
        except Rejected as rejected:
            assert rejected.__cause__ is None and 0 < len(str(rejected)) < 2000
    assert json.dumps(record) == before


def test_every_dtype_counts_as_the_modality_that_its_name_says() -> None:
    assert {each.dtype: each.modality for each in BUILTIN} == {each.dtype: modality_of(each.dtype) for each in BUILTIN}
    kinds = {modality: [each.dtype for each in BUILTIN if each.modality == modality] for modality in ("image", "audio")}
    assert kinds["audio"] == ["voice_asr", "voice_tts"]
    assert {"vision", "generation", "ui_to_code", "image_editing"} <= set(kinds["image"])
    assert FORMATS["image_to_video"].modality == FORMATS["video_qa"].modality == "video"


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_format_reaches_another_process_by_its_name(dtype: str) -> None:
    assert pickle.loads(pickle.dumps(FORMATS[dtype])) == FORMATS[dtype]


class NotToBeRead:
    """A medium whose content nobody may ask for."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__reduce_ex__", "__deepcopy__"):
            return super().__getattribute__(name)
        raise AssertionError(f"a format looked into a medium: {name}")

    def __bool__(self) -> bool:
        raise AssertionError("a format looked into a medium")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a format looked into a medium")


@pytest.mark.parametrize("dtype", [dtype for dtype, each in FORMATS.items() if each.media])
def test_media_are_passed_on_and_never_looked_into(dtype: str) -> None:
    medium = NotToBeRead()
    texts = {"question": "What?", "answer": "That.", "caption": "A cat.", "text": "A cat.", "prompt": "A cat."}
    for column in FORMATS[dtype].media:
        try:
            sample = FORMATS[dtype]({**texts, column: medium}, TOKENS)
        except Rejected as rejected:  # a format that needs two media
            assert "image" in str(rejected) or "video" in str(rejected) or "audio" in str(rejected)
            assert rejected.__cause__ is None
            continue
        found = [each for value in sample.values() if isinstance(value, list) for each in value]
        found += [sample.get("target_audio"), sample.get("speaker_ref")]
        assert any(each is medium for each in found), column


DOCUMENT_RECORDS: dict[str, dict[str, Any]] = {
    "code": {"instruction": "Add two numbers.", "output": "a + b", "language": "c"},
    "conversation": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    "tool_use": {"query": "Time?", "tools": [{"type": "function", "function": {"name": "now"}}], "response": "noon"},
    "vision": {"image": "a.png", "question": "What?", "answer": "A cat."},
    "video": {"video_path": "a.mp4", "prompt": "What?", "response": "A cat."},
    "voice_asr": {"audio": "a.wav", "transcript": "Hello"},
    "voice_tts": {"audio": "a.wav", "text": "Hello", "reference_audio": "b.wav"},
    "generation": {"text": "a cat", "video": "a.mp4"},
}


@pytest.mark.parametrize("dtype", DOCUMENT)
def test_records_of_the_documents_shapes_get_the_documents_text(dtype: str) -> None:
    native: Format = FORMATS[dtype]
    record = DOCUMENT_RECORDS[dtype]
    text = DOCUMENT[dtype](record, TOKENS)["text"]
    if dtype == "tool_use":  # the document marks every response as a call; here only calls are
        text = text.replace(TOKENS["tool_call"], "").replace(TOKENS["tool_call_end"], "")
    assert rendered(native(record, TOKENS), native.system) == text
    assert set(DOCUMENT[dtype].tokens) <= set(native.tokens)
