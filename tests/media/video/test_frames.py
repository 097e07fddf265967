import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from penstock.media.errors import BadMedia
from penstock.media.video.file import evenly
from penstock.media.video.frames import video_frames
from tests.media.movies import VIDEOS, all_frames, moving, picture, saved


@given(st.integers(1, 2_000), st.integers(1, 64))
def test_frames_go_evenly_from_the_first_to_the_last(total: int, count: int) -> None:
    chosen = evenly(total, count)
    assert len(chosen) == count and chosen[0] == 0 and (count == 1 or chosen[-1] == total - 1)
    if total >= count:
        assert chosen == np.linspace(0, total - 1, count, dtype=int).tolist()
        steps = np.diff(chosen)
        assert count == 1 or steps.max() - steps.min() <= 1
    else:
        assert chosen == [min(index, total - 1) for index in range(count)]


@pytest.mark.parametrize("path", VIDEOS, ids=lambda path: path.name)
@pytest.mark.parametrize("count", [1, 32])
def test_real_videos_give_the_frames_of_a_full_decode(path: Path, count: int) -> None:
    every = all_frames(path.read_bytes())
    found = video_frames(str(path), count, np.copy, lambda link: Path(link).read_bytes())
    for frame, index in zip(found, evenly(len(every), count), strict=True):
        assert np.array_equal(frame, every[index])


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
@pytest.mark.parametrize("count", [1, 4, 7, 20])
def test_animations_give_their_frames(form: str, count: int) -> None:
    frames = [Image.fromarray(frame) for frame in moving(11)]
    options = {} if form == "GIF" else {"lossless": True}
    data = saved(frames[0], form, save_all=True, append_images=frames[1:], **options)
    found = video_frames({"bytes": data, "path": "x.mp4"}, count, np.copy)
    opened = Image.open(io.BytesIO(data))
    for frame, index in zip(found, evenly(11, count), strict=True):
        opened.seek(index)
        assert np.array_equal(frame, np.asarray(opened.convert("RGB")))
        assert np.abs(frame.astype(int) - moving(11)[index]).max() <= 3  # a palette of 256 colours


def test_a_still_image_of_these_formats_is_a_video_of_one_frame() -> None:
    found = video_frames(saved(Image.fromarray(picture(20, 30)), "WEBP", lossless=True), 3, np.copy)
    assert len(found) == 3 and all(np.array_equal(frame, picture(20, 30)) for frame in found)


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_animation_is_an_error(form: str, share: float) -> None:
    frames = [Image.fromarray(picture(30, 40, seed)) for seed in range(3)]
    data = saved(frames[0], form, save_all=True, append_images=frames[1:])
    with pytest.raises(BadMedia, match="cannot be decoded"):
        video_frames(data[: int(len(data) * share)], 8, np.copy)


def test_an_animation_of_too_many_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [Image.new("RGB", (100, 100), colour) for colour in ("red", "blue", "green")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    monkeypatch.setattr("penstock.media.video.frames.MAX_PIXELS_OF_ALL", 29_999)
    with pytest.raises(BadMedia, match=r"3 frames of 100 × 100; up to 16,777,216 pixels per frame and 29,999 in all"):
        video_frames(data, 2, np.copy)


def test_lists_arrays_and_tensors_of_frames_are_videos() -> None:
    frames = moving(10)
    stacked = np.stack(frames)
    first = stacked.transpose(0, 3, 1, 2).copy()
    values: list[Any] = [
        frames,
        tuple(frames),
        stacked,
        stacked / 255.0,
        first,
        torch.from_numpy(stacked),
        torch.from_numpy(first),
        stacked.tolist(),
        [Image.fromarray(frame) for frame in frames],
        [{"bytes": saved(Image.fromarray(frame), "PNG"), "path": None} for frame in frames],
    ]
    for value in values:
        for count in (1, 4, 10, 13):
            found = video_frames(value, count, np.copy)
            for frame, index in zip(found, evenly(10, count), strict=True):
                assert np.array_equal(frame, frames[index])


def test_only_the_wanted_frames_of_a_list_are_opened() -> None:
    asked: list[str] = []

    def open_link(link: str) -> bytes:
        asked.append(link)
        return saved(Image.fromarray(picture(8, 8)), "PNG")

    found = video_frames([f"{number}.png" for number in range(100)], 4, np.copy, open_link)
    assert asked == ["0.png", "33.png", "66.png", "99.png"]
    assert len(found) == 4


def test_a_short_list_repeats_its_last_frame_without_opening_it_again() -> None:
    asked: list[str] = []
    data = saved(Image.fromarray(picture(8, 8)), "PNG")
    found = video_frames(["a", "b"], 5, np.copy, lambda link: asked.append(link) or data)
    assert asked == ["a", "b"] and len(found) == 5
    assert found[1] is found[4]


def test_the_decoder_of_hugging_face_datasets_is_read() -> None:
    decoders = pytest.importorskip("torchcodec.decoders")
    data = VIDEOS[0].read_bytes()
    every = all_frames(data)
    found = video_frames(decoders.VideoDecoder(data), 5, np.copy)
    for frame, index in zip(found, evenly(len(every), 5), strict=True):
        assert np.abs(frame.astype(int) - every[index]).mean() < 2  # conversions to RGB differ a little


class Broken:
    """As a torchcodec VideoDecoder of a damaged file."""

    def __len__(self) -> int:
        return 3

    def get_frame_at(self, index: int) -> None:
        raise RuntimeError("no more frames left to decode")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "the record has no video"),
        ([], "the video has no frames"),
        (Broken(), "torchcodec cannot decode frame 0 of the video: no more frames"),
        (np.zeros((0, 8, 8, 3), np.uint8), "the video has no frames"),
        (np.zeros((8, 8, 3), np.uint8), r"4 dimensions, not the shape \[8, 8, 3\]"),
        (np.zeros((2, 8, 8, 7), np.uint8), "1 to 4 channels"),
        (["a.png", "b.png"], "paths and URLs are not opened here"),
        (b"", "the file is empty"),
        (3, "is not a file"),
    ],
)
def test_what_is_no_good_is_refused_with_the_reason(value: Any, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        video_frames(value, 4, np.copy)
