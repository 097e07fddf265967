"""Formats of images, videos and speech: what they need, and what becomes of a record that lacks it."""

from typing import Any

import pytest

from penstock.text.errors import Rejected
from penstock.text.formats import find
from tests.text.rendering import TOKENS


def sample_of(dtype: str, **columns: Any) -> dict[str, Any]:
    sample: dict[str, Any] = dict(find(dtype)(columns, TOKENS))
    return sample


IMAGE = {"type": "image"}
VIDEO = {"type": "video"}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_a_question_of_the_dtype_vision_may_come_without_an_image() -> None:
    sample = sample_of("vision", image=None, question="a", answer="b")
    assert sample["messages"][0]["content"] == "a" and "images" not in sample


def test_a_caption_gets_a_question() -> None:
    for dtype in ("vision", "image_caption"):
        sample = sample_of(dtype, image="1.png", caption=["A cat.", "A pet."])
        assert sample["messages"][0]["content"] == [IMAGE, text("Describe this image.")]
        assert sample["messages"][1]["content"] == "A cat."
    for dtype in ("video", "video_caption"):
        sample = sample_of(dtype, video="1.mp4", caption="A cat runs.")
        assert sample["messages"][0]["content"] == [VIDEO, text("Describe this video.")]


def test_a_list_of_texts_is_captions_and_no_conversation() -> None:
    sample = sample_of("video_caption", video="1.mp4", texts=["A cat runs.", "A pet."])
    assert sample["messages"][1]["content"] == "A cat runs."


def test_a_page_gets_a_question_and_keeps_its_tags() -> None:
    sample = sample_of("ui_to_code", image="1.png", text="<html><video></html>")
    assert sample["messages"][1]["content"] == "<html><video></html>" and sample["images"] == ["1.png"]


def test_conversations_work_in_every_format_of_a_kind() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for dtype in ("vision", "image_vqa", "image_caption", "ui_to_code"):
        assert sample_of(dtype, messages=turns, images=["1"])["messages"][0]["content"] == [IMAGE, text("a")]
    for dtype in ("video", "video_qa", "video_caption"):
        assert sample_of(dtype, messages=turns, video="1")["messages"][0]["content"] == [VIDEO, text("a")]
    assert sample_of("voice_asr", messages=turns, audios=["1"])["audios"] == ["1"]


def test_a_video_may_be_named_by_an_id() -> None:
    for columns, file in (
        ({"video_id": "v_1"}, "v_1.mp4"),
        ({"video_id": "001", "videoID": "abc"}, "abc.mp4"),
        ({"video_name": "a.mkv"}, "a.mkv"),
        ({"video": 4010069381}, "4010069381.mp4"),
        ({"video": "dir/v1", "video_id": "x"}, "dir/v1"),
    ):
        assert sample_of("video_qa", question="a", answer="b", **columns)["videos"] == [file]


def test_speech_is_generated_from_the_normalized_text_in_a_voice() -> None:
    sample = sample_of("voice_tts", audio="1.wav", text="Mr. X", text_normalized="Mister X", reference_audio="2.wav")
    assert sample["messages"][0]["content"] == "Read this text aloud: Mister X"
    assert (sample["target_audio"], sample["speaker_ref"], sample["has_tts"]) == ("1.wav", "2.wav", True)
    assert "speaker_ref" not in sample_of("voice_tts", audio="1.wav", text="X")


def test_what_is_generated_may_be_missing() -> None:
    sample = sample_of("generation", Prompt="a cat")
    assert sample["has_image_gen"] and "gen_images" not in sample and sample["gen_prompts"] == "a cat"
    assert sample["messages"][1]["content"] == TOKENS["gen_image"] + TOKENS["gen_image_end"]
    assert sample_of("video_generation", prompt="a cat")["has_video_gen"]


def test_generation_makes_a_video_where_there_is_one() -> None:
    sample = sample_of("generation", prompt="a cat", video="1.mp4", image="1.png")
    assert sample["gen_videos"] == ["1.mp4"] and "gen_images" not in sample and not sample["has_image_gen"]


def test_editing_and_image_to_video_ask_with_an_image() -> None:
    edited = sample_of("image_editing", original_image="1.png", edit_prompt="redder", edited_image="2.png")
    assert edited["messages"][0]["content"] == [IMAGE, text("Edit this image: redder")]
    assert (edited["images"], edited["gen_images"]) == (["1.png"], ["2.png"])
    moved = sample_of("image_to_video", Image_Prompt="1.png", Text_Prompt="run", video="2.mp4")
    assert moved["messages"][0]["content"] == [IMAGE, text("Generate a video: run")]
    assert (moved["images"], moved["gen_videos"], moved["has_video_gen"]) == (["1.png"], ["2.mp4"], True)


def test_without_a_dict_of_tokens_what_is_generated_has_no_text() -> None:
    assert find("image_generation")({"prompt": "a cat"}, {})["messages"][1]["content"] == ""


@pytest.mark.parametrize(
    ("dtype", "columns", "reason"),
    [
        ("vision", {"caption": "A cat."}, "no image"),
        ("image_vqa", {"image": None, "question": "a", "answer": "b"}, "no image"),
        ("image_vqa", {"image": "1.png", "question": "a"}, "no answer"),
        ("image_caption", {"image": "1.png"}, "no conversation in the columns image"),
        ("image_caption", {"image": "", "caption": "A cat."}, "no image"),
        ("video_qa", {"question": "a", "answer": "b"}, "no video"),
        ("voice_asr", {"audio": None, "text": "a"}, "no audio"),
        ("voice_asr", {"audio": "1.wav", "text": ""}, "no transcript"),
        ("voice_tts", {"text": "a"}, "no audio"),
        ("voice_tts", {"audio": "1.wav"}, "no transcript"),
        ("generation", {"image": "1.png"}, "no prompt"),
        ("image_to_video", {"prompt": "a"}, "no image"),
        ("image_editing", {"image": "1.png", "instruction": "a"}, "no edited image"),
        ("image_editing", {"edited_image": "1.png", "instruction": "a"}, "no image"),
    ],
)
def test_a_record_that_lacks_something_has_a_reason(dtype: str, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        sample_of(dtype, **columns)
    assert str(rejected.value) == reason
