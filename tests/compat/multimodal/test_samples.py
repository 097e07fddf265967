"""What a sample holds: tokens, labels, media of real files, flags; the hooks; and batches of ``collate_fn``."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import CLIPImageProcessor

from penstock.compat.multimodal import (
    TrueStreamingDataset,
    collate_fn,
    format_code,
    format_generation,
    format_video,
    format_vision,
    format_voice_asr,
    format_voice_tts,
)
from penstock.readers.errors import ContentError
from tests.compat.multimodal.made import MEDIA, TOKENS, Letters, as_it_is, entry, lines, opened, texts, write
from tests.text.made_tokenizers import byte_level

FLAGS = {"has_image_gen": False, "has_video_gen": False, "has_asr": False, "has_tts": False}
ONE: dict[str, Any] = {"max_per_epoch": 1, "sample_repeat": 1}


def one(folder: Path, dtype: str, function: Any, record: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The sample of a dataset of one record."""
    path = write(folder / f"{dtype}.jsonl", [record])
    dataset = opened(folder, {dtype: [entry(path)]}, functions={dtype: function}, **{**ONE, **options})
    [sample] = dataset
    return sample


def test_a_text_sample_has_the_fields_of_the_document(tmp_path: Path) -> None:
    sample = one(tmp_path, "code", format_code, {"instruction": "Add.", "output": "a + b"}, max_length=256)
    text = format_code({"instruction": "Add.", "output": "a + b"}, TOKENS)["text"]
    ids = [*text.encode(), Letters.pad_token_id]
    assert sample["input_ids"].tolist() == ids + [3] * (256 - len(ids))
    assert sample["attention_mask"].tolist() == [1] * len(ids) + [0] * (256 - len(ids))
    assert sample["labels"].tolist() == ids + [-100] * (256 - len(ids))  # the end is trained, padding is not
    assert {key: sample[key] for key in FLAGS} == FLAGS
    assert (sample["dtype"], sample["text"]) == ("code", text)
    assert set(sample) == {"input_ids", "attention_mask", "labels", "dtype", "text", *FLAGS}


def test_labels_of_a_real_tokenizer_whose_pad_token_is_the_end(tmp_path: Path) -> None:
    tokenizer = byte_level()
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    sample = one(tmp_path, "text", as_it_is, {"text": "Thank you!</s>"}, tokenizer=tokenizer, max_length=32)
    length = int(sample["attention_mask"].sum())
    ids = sample["input_ids"].tolist()
    assert tokenizer.decode(ids[:length]) == "Thank you!</s>"
    assert sample["labels"].tolist() == ids[:length] + [-100] * (32 - length)
    cut = one(tmp_path, "text", as_it_is, {"text": "Thank you!</s>"}, tokenizer=tokenizer, max_length=2)
    assert cut["labels"].tolist() == cut["input_ids"].tolist() == ids[:2]


def test_what_is_not_trained_has_no_labels_and_in_a_mixed_batch_none_that_count(tmp_path: Path) -> None:
    records = [{"text": "a"}, {"text": "b", "is_training": False}]
    path = write(tmp_path / "a.jsonl", records)
    dataset = opened(tmp_path, {"code": [entry(path)]}, max_per_epoch=2, sample_repeat=1, max_length=4)
    trained, other = dataset
    assert "labels" not in other
    for pair in ([trained, other], [other, trained]):
        labels = collate_fn(pair)["labels"][pair.index(other)]
        assert labels.tolist() == [-100] * 4
    assert "labels" not in collate_fn([other, other])


def test_an_image_is_what_the_built_in_processor_makes_of_it(tmp_path: Path) -> None:
    record = {"image": str(MEDIA / "1.jpg"), "question": "Who?", "answer": "They."}
    sample = one(tmp_path, "vision", format_vision, record, image_size=64)
    clip = CLIPImageProcessor(do_center_crop=False)
    with Image.open(MEDIA / "1.jpg") as image:
        expected = clip(image, return_tensors="pt", size={"height": 64, "width": 64}).pixel_values[0]
    assert sample["images"].shape == (3, 64, 64)
    assert (sample["images"] - expected).abs().max() < 1 / 255 / 0.26 + 1e-6  # one step of uint8


class Recording:
    """An image processor that records how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    def __call__(self, image: Any, **options: Any) -> Any:
        self.calls.append((image, options))
        size = options["size"]
        return SimpleNamespace(pixel_values=torch.full((1, 3, size["height"], size["width"]), len(self.calls) / 8))


def test_an_image_processor_is_called_as_in_the_document(tmp_path: Path) -> None:
    processor = Recording()
    options: dict[str, Any] = {"image_processor": processor, "image_size": 5, "video_size": 7, "max_video_frames": 3}
    image = one(tmp_path, "vision", format_vision, {"image": str(MEDIA / "2.jpg")}, **options)
    assert image["images"].shape == (3, 5, 5)
    [(given, called)] = processor.calls
    assert isinstance(given, Image.Image)
    assert called == {"return_tensors": "pt", "size": {"height": 5, "width": 5}}
    video = one(tmp_path, "video", format_video, {"video": str(MEDIA / "3.mp4")}, **options)
    assert video["videos"].shape == (3, 3, 7, 7)
    assert video["videos"][:, 0, 0, 0].tolist() == [2 / 8, 3 / 8, 4 / 8]  # one call per frame, in order
    assert called | {"size": {"height": 7, "width": 7}} == processor.calls[-1][1]


def test_any_processor_of_transformers_can_be_given(tmp_path: Path) -> None:
    clip = CLIPImageProcessor(do_center_crop=False)
    record = {"image": str(MEDIA / "3.jpg")}
    sample = one(tmp_path, "vision", format_vision, record, image_processor=clip, image_size=32)
    with Image.open(MEDIA / "3.jpg") as image:
        expected = clip(image, return_tensors="pt", size={"height": 32, "width": 32}).pixel_values[0]
    assert torch.equal(sample["images"], expected)


def test_a_video_has_uniform_frames(tmp_path: Path) -> None:
    for name in ("3.mp4", "2.avi"):
        sample = one(
            tmp_path, "video", format_video, {"video_path": str(MEDIA / name)}, max_video_frames=4, video_size=16
        )
        assert sample["videos"].shape == (4, 3, 16, 16)
        assert not torch.equal(sample["videos"][0], sample["videos"][-1])


def test_sound_is_a_waveform_or_a_spectrogram(tmp_path: Path) -> None:
    for name in ("2.wav", "3.flac", "4.mp3"):
        record = {"audio": str(MEDIA / name), "text": "Hello."}
        sample = one(tmp_path, "voice_asr", format_voice_asr, record, audio_max_length=150)
        assert sample["has_asr"] is True
        assert sample["audio"].shape == (24_000,)
        assert sample["audio"].abs().max() > 0.01
        mel = one(
            tmp_path,
            "voice_asr",
            format_voice_asr,
            record,
            audio_max_length=150,
            use_raw_waveform=False,
            audio_n_mels=40,
        )
        assert mel["audio"].shape[0] == 40


def test_sound_in_the_form_of_hugging_face_is_resampled(tmp_path: Path) -> None:
    array = np.sin(np.arange(8_000) / 9).tolist()
    record = {"audio": {"array": array, "sampling_rate": 8_000}, "text": "Hm."}
    assert one(tmp_path, "voice_asr", format_voice_asr, record)["audio"].shape == (16_000,)
    other = one(tmp_path, "voice_asr", format_voice_asr, record, audio_sample_rate=8_000)
    assert torch.allclose(other["audio"], torch.tensor(array), atol=1e-6)


class Voice:
    """A voice processor with a spectrogram of its own."""

    def extract_mel(self, waveform: Tensor) -> Tensor:
        assert waveform.dim() == 2
        return torch.stack([waveform, -waveform], dim=1)


def test_a_voice_processor_replaces_the_spectrogram(tmp_path: Path) -> None:
    record = {"audio": str(MEDIA / "2.wav"), "text": "Hello."}
    raw = one(tmp_path, "voice_asr", format_voice_asr, record, voice_processor=Voice())
    mel = one(tmp_path, "voice_asr", format_voice_asr, record, voice_processor=Voice(), use_raw_waveform=False)
    assert torch.equal(mel["audio"], torch.stack([raw["audio"], -raw["audio"]]))


def test_speech_to_be_spoken_has_a_target_and_the_voice(tmp_path: Path) -> None:
    record = {"text": "Hello.", "audio": str(MEDIA / "3.flac"), "speaker_ref": str(MEDIA / "4.mp3")}
    sample = one(tmp_path, "voice_tts", format_voice_tts, record, audio_sample_rate=8_000)
    assert sample["has_tts"] is True
    assert sample["target_audio"].dim() == sample["speaker_ref"].dim() == 1
    assert len(sample["speaker_ref"]) <= 7 * 8_000
    assert "audio" not in sample
    alone = one(tmp_path, "voice_tts", format_voice_tts, {"text": "Hello."})
    assert "target_audio" not in alone
    assert "speaker_ref" not in alone


def test_what_is_to_be_generated_reaches_the_sample(tmp_path: Path) -> None:
    image = one(
        tmp_path, "generation", format_generation, {"prompt": "A dog", "image": str(MEDIA / "1.jpg")}, image_size=8
    )
    assert (image["gen_prompts"], image["has_image_gen"], image["has_video_gen"]) == ("A dog", True, False)
    assert image["gen_images"].shape == (3, 8, 8)
    record = {"prompt": "A cat", "video": str(MEDIA / "3.mp4")}
    video = one(tmp_path, "generation", format_generation, record, video_size=8, max_video_frames=2)
    assert video["gen_videos"].shape == (2, 3, 8, 8)
    assert (video["has_image_gen"], video["has_video_gen"]) == (False, True)
    prompt = one(tmp_path, "generation", format_generation, {"prompt": "A cow"})
    assert prompt["has_image_gen"] is True
    assert "gen_images" not in prompt


def test_paths_are_relative_to_the_file_or_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "beside.jpg").write_bytes((MEDIA / "1.jpg").read_bytes())
    (tmp_path / "here.jpg").write_bytes((MEDIA / "2.jpg").read_bytes())
    monkeypatch.chdir(tmp_path)
    beside, here = (
        one(data, "vision", format_vision, {"image": name}, image_size=8) for name in ("beside.jpg", "here.jpg")
    )
    assert not torch.equal(beside["images"], here["images"])


class Opening(TrueStreamingDataset):
    """Opens images by itself, and keeps their paths."""

    def _process_sample(self, sample: dict[str, Any], dtype: str) -> dict[str, Any]:
        assert isinstance(sample["image"], str)
        with Image.open(sample["image"]) as image:
            return {"text": str(image.size), "path": sample["image"]}

    def _tokenize(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {**super()._tokenize(sample), "path": sample["path"]}


def test_a_hook_gets_paths_that_it_can_open_itself(tmp_path: Path) -> None:
    (tmp_path / "beside.jpg").write_bytes((MEDIA / "1.jpg").read_bytes())
    configs = {"vision": [entry(write(tmp_path / "photos.jsonl", [{"image": "beside.jpg"}]))]}
    dataset = opened(tmp_path, configs, kind=Opening, functions={"vision": format_vision}, batch_size=1, **ONE)
    for workers in (0, 1):
        [sample] = DataLoader(dataset, batch_size=None, num_workers=workers)
        assert (sample["text"], sample["path"]) == ("(300, 168)", str(tmp_path / "beside.jpg"))
        assert type(sample["path"]) is str or workers == 0  # nothing else travels to the training loop


def test_an_image_may_also_be_bytes_in_a_url_or_several(tmp_path: Path) -> None:
    data = base64.b64encode((MEDIA / "1.jpg").read_bytes()).decode()
    inline = one(tmp_path, "vision", format_vision, {"image": f"data:image/jpeg;base64,{data}"}, image_size=8)
    path = one(tmp_path, "vision", format_vision, {"image": str(MEDIA / "1.jpg")}, image_size=8)
    assert torch.equal(inline["images"], path["images"])
    both = one(tmp_path, "vision", format_vision, {"image": [str(MEDIA / "1.jpg"), str(MEDIA / "2.jpg")]}, image_size=8)
    assert [image.shape for image in both["images"]] == [(3, 8, 8)] * 2
    batch = collate_fn([path, both])
    assert batch["images"].shape == (3, 3, 8, 8)
    assert batch["image_rows"].tolist() == [0, 1, 1]


def test_a_medium_that_cannot_be_decoded_is_replaced_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    images = [str(tmp_path / "bad.jpg"), str(MEDIA / "1.jpg"), str(tmp_path / "none.jpg"), "https://example.com/a.jpg"]
    records = [{"image": image, "question": str(number)} for number, image in enumerate(images)]
    path = write(tmp_path / "vision.jsonl", records)
    dataset = opened(
        tmp_path,
        {"vision": [entry(path)]},
        functions={"vision": format_vision},
        max_per_epoch=4,
        sample_repeat=1,
        image_size=8,
        max_length=64,
    )
    good = format_vision(records[1], TOKENS)["text"]
    assert texts(dataset) == [good] * 4
    assert [record.message for record in caplog.records] == [caplog.records[0].message]
    assert "source 'vision': record 0 can't be used" in caplog.text


def test_a_url_is_refused_with_the_name_of_the_switch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = [{"image": "https://example.com/a.jpg"}, {"image": str(MEDIA / "1.jpg")}]
    path = write(tmp_path / "vision.jsonl", records)
    next(iter(opened(tmp_path, {"vision": [entry(path)]}, functions={"vision": format_vision}, image_size=8)))
    assert "allow_urls" in caplog.text


class Own(TrueStreamingDataset):
    """A subclass with all hooks."""

    def _get_modality(self, dtype: str) -> str:
        return "image" if dtype == "code" else super()._get_modality(dtype)

    def _process_sample(self, sample: dict[str, Any], dtype: str) -> dict[str, Any] | None:
        if sample["text"] == "a-1":
            return None
        return super()._process_sample({**sample, "text": f"{dtype}:{sample['text']}"}, dtype)

    def _tokenize(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {**super()._tokenize(sample), "random": torch.rand(1).item()}


def test_hooks_of_a_subclass_are_called(tmp_path: Path) -> None:
    configs = {"code": [lines(tmp_path, "a", 4)], "text": [lines(tmp_path, "b", 4)]}
    caps: dict[str, Any] = {"modality_max_values": {"image": 3}, "sample_repeat": 1, "max_per_dataset": 4}
    dataset = opened(tmp_path, configs, kind=Own, **caps)
    samples = list(dataset)
    replaced = "code:a-2"  # in place of the one that the hook gave up
    assert texts(samples) == ["code:a-0", "text:b-0", replaced, "text:b-1", "code:a-2", "text:b-2", "text:b-3"]
    assert samples[0]["input_ids"].tolist()[:6] == list(b"code:a")
    again = list(opened(tmp_path, configs, kind=Own, **caps))
    assert [sample["random"] for sample in samples] == [sample["random"] for sample in again]
    assert len({sample["random"] for sample in samples}) == 6
    second = list(dataset)
    assert second[0]["random"] != samples[0]["random"]


def test_a_hook_may_make_samples_that_are_no_dicts(tmp_path: Path) -> None:
    class Pairs(TrueStreamingDataset):
        def _tokenize(self, sample: dict[str, Any]) -> Any:
            return (sample["text"], len(sample["text"])) if sample["text"] != "a-1" else sample["text"]

    dataset = opened(tmp_path, {"code": [lines(tmp_path, "a", 3)]}, kind=Pairs, sample_repeat=1, max_per_dataset=3)
    assert list(dataset) == [("a-0", 3), "a-1", ("a-2", 3)]


def test_a_source_of_which_a_hook_takes_nothing_is_an_error(tmp_path: Path) -> None:
    class Nothing(TrueStreamingDataset):
        def _process_sample(self, sample: dict[str, Any], dtype: str) -> None:
            return None

    dataset = opened(tmp_path, {"code": [lines(tmp_path, "a", 3)]}, kind=Nothing)
    with pytest.raises(ContentError, match="_process_sample returned None; 8 substitutes are bad as well"):
        next(iter(dataset))


def test_an_error_of_a_hook_names_the_record(tmp_path: Path) -> None:
    class Raising(TrueStreamingDataset):
        def _tokenize(self, sample: dict[str, Any]) -> dict[str, Any]:
            raise RuntimeError("no tokens")

    dataset = opened(tmp_path, {"code": [lines(tmp_path, "a", 3, bad=[0])]}, kind=Raising)
    with pytest.raises(RuntimeError, match="no tokens") as error:
        next(iter(dataset))
    assert error.value.__notes__ == ["This was raised for record 1 of source 'a'."]


def test_a_mixed_batch_is_collated_as_in_the_document_with_the_row_of_every_medium(tmp_path: Path) -> None:
    records = {
        "code": (format_code, {"instruction": "Add."}),
        "vision": (format_vision, {"image": str(MEDIA / "1.jpg")}),
        "video": (format_video, {"video": str(MEDIA / "3.mp4")}),
        "voice_asr": (format_voice_asr, {"audio": str(MEDIA / "2.wav"), "text": "Hello."}),
        "voice_tts": (format_voice_tts, {"audio": str(MEDIA / "3.flac"), "text": "Hello."}),
        "generation": (format_generation, {"prompt": "A dog", "image": str(MEDIA / "2.jpg")}),
    }
    configs = {dtype: [entry(write(tmp_path / f"{dtype}.jsonl", [record]))] for dtype, (_, record) in records.items()}
    dataset = opened(
        tmp_path,
        configs,
        functions={dtype: function for dtype, (function, _) in records.items()},
        max_per_epoch=6,
        sample_repeat=2,
        image_size=8,
        video_size=8,
        max_video_frames=2,
        batch_size=12,
    )
    [batch] = DataLoader(dataset, batch_size=12, collate_fn=collate_fn)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == batch["labels"].shape == (12, 16)
    assert batch["images"].shape == (2, 3, 8, 8)
    assert batch["image_rows"].tolist() == [2, 3]
    assert batch["videos"].shape == (2, 2, 3, 8, 8)
    assert batch["video_rows"].tolist() == [4, 5]
    assert batch["audio_rows"].tolist() == [6, 7]
    assert batch["audio_lengths"].tolist() == [batch["audio"].shape[1]] * 2
    assert batch["target_audio_rows"].tolist() == [8, 9]
    assert batch["gen_image_rows"].tolist() == [10, 11]
    assert batch["dtype"] == [dtype for dtype in records for _ in range(2)]
    flags = [batch[key] for key in ("has_image_gen", "has_video_gen", "has_asr", "has_tts")]
    assert flags == [True, False, True, True]
    assert all(type(flag) is bool for flag in flags)


def test_records_of_a_json_array_and_of_parquet_are_read_too(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    array = tmp_path / "array.json"
    array.write_text(json.dumps([{"text": "one"}, {"text": "two", "bad": True}, {"text": "three"}], indent=1))
    image = {"bytes": (MEDIA / "1.jpg").read_bytes(), "path": "1.jpg"}
    rows = [{"image": image, "question": "1"}, {"image": None, "question": "2"}, {"image": image, "question": "3"}]
    table = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pylist(rows), table)
    configs = {
        "text": [entry(str(array))],
        "vision": [entry(str(table), "all"), entry(str(table), "filtered", filter_images=True)],
    }
    dataset = opened(
        tmp_path,
        configs,
        functions={"text": as_it_is, "vision": format_vision},
        max_per_dataset=2,
        sample_repeat=1,
        image_size=8,
        max_length=64,
    )
    samples = list(dataset)
    question = [sample["text"].replace("<|user|><|image|><|/image|>", "")[:5] for sample in samples]
    assert question == ["one", "1<|/u", "1<|/u", "three", "2<|/u", "3<|/u"]
    assert [sample.get("images") is not None for sample in samples] == [False, True, True, False, False, True]
    assert "images" in samples[4]  # as in the document: the key is there, and its value is None
