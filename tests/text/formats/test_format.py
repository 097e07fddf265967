"""A format: what it adds to its function, and what it makes of functions that go wrong."""

from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats.format import Format, FormatFunction, modality_of

RECORD = {"q": "a"}


def format_with(function: FormatFunction) -> Format:
    return Format("mine", "text", function)


def test_the_sample_has_the_dtype_and_all_flags() -> None:
    made = format_with(lambda record, tokens: {"text": record["q"], "dtype": "other", "has_asr": True})(RECORD, {})
    assert made == {
        "text": "a",
        "dtype": "mine",
        "has_asr": True,
        "has_tts": False,
        "has_image_gen": False,
        "has_video_gen": False,
    }


def test_the_dict_of_the_function_is_left_alone() -> None:
    own: dict[str, Any] = {"text": "a"}
    format_with(lambda record, tokens: own)(RECORD, {})
    assert own == {"text": "a"}


def test_the_tokens_reach_the_function() -> None:
    made = format_with(lambda record, tokens: {"text": tokens["user_start"]})(RECORD, {"user_start": "<u>"})
    assert made["text"] == "<u>"


def test_none_is_a_rejection() -> None:
    with pytest.raises(Rejected, match=r"^the format returned None$"):
        format_with(lambda record, tokens: None)(RECORD, {})


def test_a_rejection_keeps_its_reason() -> None:
    def refuse(record: Any, tokens: Any) -> None:
        raise Rejected("too sad")

    with pytest.raises(Rejected, match=r"^too sad$"):
        format_with(refuse)(RECORD, {})


def test_an_exception_is_a_rejection_that_can_be_counted_and_knows_its_cause() -> None:
    with pytest.raises(Rejected, match=r"^the format raised KeyError 'no such column'$") as rejected:
        format_with(lambda record, tokens: {"text": record["no such column"]})(RECORD, {})
    assert isinstance(rejected.value.__cause__, KeyError)


def test_a_value_of_the_record_is_no_reason_of_its_own() -> None:
    labels = {"good": 1}
    for value in ("bad", 3):
        with pytest.raises(Rejected, match=r"^the format raised KeyError$"):
            format_with(lambda record, tokens: {"text": labels[record["meta"]["label"]]})(
                {"meta": {"label": value}}, {}
            )


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("text", "a str"),
        ([], "a list"),
        ({"txt": "a"}, "a dict with txt"),
        ({"text": "a", "messages": []}, "a dict with text, messages"),
    ],
)
def test_something_else_than_a_sample_is_an_error_that_says_what(made: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"dtype 'mine' must return a dict .*; it returned {shown}$"):
        format_with(lambda record, tokens: made)(RECORD, {})


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ("Hi", "messages that are not a list"),
        (["Hi"], "a message without a role"),
        ([{"content": "Hi"}], "a message without a role"),
        ([{"role": ["user"], "content": "Hi"}], "a message without a role"),
        ([{"role": "user", "content": 7}], "content that is neither a text nor a list of parts"),
        ([{"role": "user", "content": ["Hi"]}], "content that is neither a text nor a list of parts"),
        ([{"role": "user", "content": [{"type": "text"}]}], "content that is neither a text nor a list of parts"),
        ([{"role": "assistant", "tool_calls": [{"name": "f"}]}], "a tool call without the name of a function"),
    ],
)
def test_messages_that_no_template_can_write_are_a_rejection_that_says_why(messages: Any, fault: str) -> None:
    with pytest.raises(Rejected, match=f"the format returned {fault}"):
        Format("mine", "text", lambda record, tokens: {"messages": messages})({}, {})


@pytest.mark.parametrize(
    ("dtype", "modality"),
    [
        ("vision", "image"),
        ("image_vqa", "image"),
        ("generation", "image"),
        ("ui_to_code", "image"),
        ("video", "video"),
        ("video_generation", "video"),
        ("image_to_video", "video"),
        ("voice_asr", "audio"),
        ("voice_tts", "audio"),
        ("code", "text"),
        ("my_dtype", "text"),
    ],
)
def test_a_dtype_counts_as_what_its_name_says(dtype: str, modality: str) -> None:
    assert modality_of(dtype) == modality
