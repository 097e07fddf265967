from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penstock.recipes.collate import collate_fn

FLAGS = ("has_image_gen", "has_video_gen", "has_asr", "has_tts")


def sample(number: int = 0, **more: Any) -> dict[str, Any]:
    ids = torch.arange(6) + 10 * number
    return {"input_ids": ids, "attention_mask": torch.ones(6, dtype=torch.int64), "dtype": "text", **more}


def document(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """What the document says a batch is, read aloud: for batches whose samples all have labels or none."""
    made: dict[str, Any] = {key: torch.stack([each[key] for each in batch]) for key in ("input_ids", "attention_mask")}
    if "labels" in batch[0]:
        made["labels"] = torch.stack([each["labels"] for each in batch])
    for key in ("images", "videos"):
        media = [each[key] for each in batch if each.get(key) is not None]
        if media:
            made[key] = torch.stack(media)
    sounds = [each["audio"] for each in batch if each.get("audio") is not None]
    if sounds:
        padded = torch.zeros(len(sounds), *sounds[0].shape[:-1], max(sound.shape[-1] for sound in sounds))
        for row, sound in zip(padded, sounds, strict=True):
            row[..., : sound.shape[-1]] = sound
        made["audio"] = padded
    return made | {flag: any(each.get(flag, False) for each in batch) for flag in FLAGS}


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    labelled = draw(st.booleans())
    mels = draw(st.booleans())
    made = []
    for number in range(draw(st.integers(1, 6))):
        one = sample(number)
        if labelled:
            one["labels"] = one["input_ids"].clone()
        if draw(st.booleans()):
            one["images"] = torch.rand(3, 4, 4)
        if draw(st.booleans()):
            one["videos"] = torch.rand(2, 3, 4, 4)
        if draw(st.booleans()):
            length = draw(st.integers(1, 9))
            one["audio"] = torch.rand(5, length) if mels else torch.rand(length)
        for flag in FLAGS:
            if draw(st.booleans()):
                one[flag] = draw(st.booleans())
        made.append(one)
    return made


@given(batches())
def test_what_the_document_defines_has_its_values(batch: list[dict[str, Any]]) -> None:
    found = collate_fn(batch)
    for key, value in document(batch).items():
        assert torch.equal(found[key], value) if isinstance(value, torch.Tensor) else found[key] is value
    ours = {"dtype", "image_rows", "video_rows", "audio_rows", "audio_lengths"}
    assert found.keys() - document(batch).keys() <= ours


@given(batches())
def test_every_medium_can_be_found_by_its_row(batch: list[dict[str, Any]]) -> None:
    found = collate_fn(batch)
    for key, stem in (("images", "image"), ("videos", "video"), ("audio", "audio")):
        with_it = [row for row, each in enumerate(batch) if key in each]
        assert (key in found) == (f"{stem}_rows" in found) == bool(with_it)
        for place, row in enumerate(with_it):
            assert found[f"{stem}_rows"][place] == row
            length = batch[row][key].shape[-1]
            assert torch.equal(found[key][place][..., :length], batch[row][key])
            assert key != "audio" or found["audio_lengths"][place] == length


def test_samples_without_labels_have_no_loss_in_a_mixed_batch() -> None:
    labels = torch.arange(6)
    for batch in ([sample(0), sample(1, labels=labels)], [sample(0, labels=None), sample(1, labels=labels)]):
        found = collate_fn(batch)["labels"]
        assert found.tolist() == [[-100] * 6, labels.tolist()] and found.dtype == torch.int64
    assert "labels" not in collate_fn([sample(), sample()])


def test_several_media_of_one_sample_have_the_same_row() -> None:
    images = [torch.rand(3, 4, 4) for _ in range(3)]
    found = collate_fn([sample(0), sample(1, images=images[:2]), sample(2, images=[]), sample(3, images=images[2])])
    assert torch.equal(found["images"], torch.stack(images))
    assert found["image_rows"].tolist() == [1, 1, 3] and found["image_rows"].dtype == torch.int64


def test_images_of_different_shapes_stay_a_list() -> None:
    images = [torch.rand(3, 4, 4), torch.rand(3, 4, 8)]
    found = collate_fn([sample(0, images=images[0]), sample(1, images=images[1])])
    assert isinstance(found["images"], list) and all(map(torch.equal, found["images"], images))
    assert found["image_rows"].tolist() == [0, 1]


def test_what_is_generated_reaches_the_batch() -> None:
    batch = [
        sample(0, gen_images=torch.rand(3, 4, 4), gen_prompts="a cat", has_image_gen=True, text="one"),
        sample(1, text="two", dtype="generation", has_image_gen=True, gen_prompts="a dog", gen_images=None),
        sample(2, gen_videos=torch.rand(2, 3, 4, 4), has_video_gen=True),
        sample(3, target_audio=torch.rand(7), speaker_ref=torch.rand(3), has_tts=True),
        sample(4, target_audio=torch.rand(4), has_tts=True),
    ]
    found = collate_fn(batch)
    assert torch.equal(found["gen_images"][0], batch[0]["gen_images"]) and found["gen_image_rows"].tolist() == [0]
    assert found["gen_videos"].shape == (1, 2, 3, 4, 4) and found["gen_video_rows"].tolist() == [2]
    assert found["gen_prompts"] == ["a cat", "a dog", None, None, None]
    assert found["text"] == ["one", "two", None, None, None]
    assert found["dtype"] == ["text", "generation", "text", "text", "text"]
    assert found["target_audio"].shape == (2, 7) and found["target_audio_lengths"].tolist() == [7, 4]
    assert found["target_audio_rows"].tolist() == [3, 4] and not found["target_audio"][1, 4:].any()
    assert found["speaker_ref_rows"].tolist() == [3] and found["speaker_ref_lengths"].tolist() == [3]
    assert [found[flag] for flag in FLAGS] == [True, True, False, True]


def test_a_batch_of_text_has_no_media() -> None:
    assert set(collate_fn([sample(), sample(1)])) == {"input_ids", "attention_mask", "dtype", *FLAGS}


def test_the_samples_stay_as_they_are() -> None:
    one = sample(audio=torch.rand(3))
    before = {key: value.clone() for key, value in one.items() if isinstance(value, torch.Tensor)}
    collate_fn([one, sample(1, audio=torch.rand(8))])["audio"].zero_()
    assert all(torch.equal(one[key], value) for key, value in before.items())


def test_lengths_that_differ_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="equal size"):
        collate_fn([sample(), sample() | {"input_ids": torch.from_numpy(np.arange(3))}])
