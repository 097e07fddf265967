"""Media at their tags: several per turn, in columns or in parts, and never more or fewer than there are tags."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.errors import Rejected
from penstock.text.formats.columns import columns_of
from penstock.text.formats.media import placed
from penstock.text.formats.messages import turns_of
from tests.text.rendering import between, said

IMAGE = {"type": "image"}
VIDEO = {"type": "video"}
AUDIO = {"type": "audio"}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def asked(question: Any, answer: str = "yes", **columns: Any) -> dict[str, Any]:
    """The sample of a question and its answer; `content` is that of the question."""
    turns = turns_of([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
    sample: dict[str, Any] = dict(placed(turns, columns_of(columns), {}))
    return {**sample, "content": sample["messages"][0]["content"]}


def test_tags_become_parts_at_their_places() -> None:
    sample = asked("<image>Who?<image> And <video>?<audio>", images=["1", "2"], videos=["3"], audios=["4"])
    assert sample["content"] == [IMAGE, text("Who?"), IMAGE, text(" And "), VIDEO, text("?"), AUDIO]
    assert (sample["images"], sample["videos"], sample["audios"]) == (["1", "2"], ["3"], ["4"])


def test_media_of_several_turns_keep_the_order_of_their_tags() -> None:
    turns = turns_of(["<image>a", "b", "c<image>", "d"])
    sample = placed(turns, {"images": ["1", "2"]}, {})
    assert sample["images"] == ["1", "2"]
    assert [message["content"] for message in sample["messages"]] == [[IMAGE, text("a")], "b", [text("c"), IMAGE], "d"]


def test_media_without_tags_come_first_in_the_first_user_turn() -> None:
    turns = turns_of([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])
    sample = placed(turns, {"image": ["1", "2"], "audio": "3"}, {})
    assert [message["content"] for message in sample["messages"]] == ["s", [AUDIO, IMAGE, IMAGE, text("a")]]
    assert (sample["images"], sample["audios"]) == (["1", "2"], ["3"])


def test_parts_may_bring_their_media() -> None:
    parts = [text("a"), {"type": "image", "image": "1"}, {"type": "image"}, text("b"), text("c")]
    sample = asked(parts, images=["2"])
    assert sample["content"] == [text("a"), IMAGE, IMAGE, text("bc")] and sample["images"] == ["1", "2"]
    same = asked([{"type": "image", "image": "1"}], images=["other form of 1"])
    assert same["images"] == ["1"]


def test_a_tag_is_text_where_the_record_has_no_such_column() -> None:
    assert asked("What does <video> mean in HTML?")["content"] == "What does <video> mean in HTML?"
    sample = asked("<image>Is <audio> there?", image="1")
    assert sample["content"] == [IMAGE, text("Is <audio> there?")]


def test_an_image_tag_stands_for_a_video_where_there_are_only_videos() -> None:
    sample = asked("<image>\nWhat?", video="1.mp4")
    assert sample["content"] == [VIDEO, text("\nWhat?")] and sample["videos"] == ["1.mp4"]


@pytest.mark.parametrize(
    ("question", "columns", "reason"),
    [
        ("<image><image>", {"images": ["1"]}, "2 <image> tags but 1 image"),
        ("<image>", {"images": ["1", "2"]}, "1 <image> tag but 2 images"),
        ("<image>", {"images": []}, "1 <image> tag but 0 images"),
        ("<image>", {"image": None}, "1 <image> tag but 0 images"),
        ("<video>", {"videos": [None]}, "1 <video> tag but 0 videos"),
        ([{"type": "audio"}], {}, "1 <audio> tag but 0 audios"),
        ([{"type": "image", "image": "1"}], {"images": ["1", "2"]}, "1 <image> tag but 2 images"),
    ],
)
def test_more_or_fewer_media_than_tags_is_a_reason(question: Any, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        asked(question, **columns)
    assert str(rejected.value) == reason


def test_a_video_of_frames_and_a_sound_of_samples_are_one_medium() -> None:
    assert asked("What?", video=["1.jpg", "2.jpg"])["videos"] == [["1.jpg", "2.jpg"]]
    assert asked("What?", audio=[0.0, 0.1])["audios"] == [[0.0, 0.1]]
    assert asked("What?", images=[])["content"] == "What?"


pieces = st.lists(st.sampled_from(["<image>", "<video>", "<audio>", "a", "<b>", "", "\n"]), max_size=8)


@given(st.lists(pieces, min_size=1, max_size=4))
def test_every_tag_gets_its_medium_and_no_text_is_lost(contents: list[list[str]]) -> None:
    whole = ["".join(each) for each in contents]
    counts = {kind: sum(each.count(f"<{kind}>") for each in whole) for kind in ("image", "video", "audio")}
    columns = {f"{kind}s": [f"{kind} {n}" for n in range(count)] for kind, count in counts.items()}
    sample: dict[str, Any] = dict(placed(turns_of(whole), columns, {}))
    for each, message in zip(whole, sample["messages"], strict=True):
        for kind in counts:
            each = each.replace(f"<{kind}>", between(kind, ""))
        assert said(message) == each
    assert {f"{kind}s": sample.get(f"{kind}s", []) for kind in counts} == columns
