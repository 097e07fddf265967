import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import SiglipImageProcessorPil

from penstock.media.audio.logmel import log_mel
from penstock.media.audio.sound import sound_samples
from penstock.media.errors import BadMedia
from penstock.media.image.processor import ImageProcessor
from penstock.media.links import Links
from penstock.media.tensors import MediaTensors
from penstock.media.video.frames import video_frames
from penstock.store.local import LocalStore
from tests.media.audio.clips import voice
from tests.media.movies import REAL, moving, video

OPEN = Links(open_store=partial(LocalStore, REAL))


def as_the_document_does(processor: Any, image: np.ndarray, size: int) -> torch.Tensor:
    made = processor(Image.fromarray(image), return_tensors="pt", size={"height": size, "width": size})
    return made.pixel_values.squeeze(0)


@pytest.mark.parametrize("processor", [ImageProcessor(), SiglipImageProcessorPil()], ids=["ours", "siglip"])
def test_images_and_videos_go_through_the_processor(processor: Any) -> None:
    tensors = MediaTensors(image_processor=processor, image_size=64, video_size=48, max_video_frames=5)
    image = np.asarray(Image.open(REAL / "1.jpg").convert("RGB"))
    assert torch.equal(tensors.image("1.jpg", OPEN), as_the_document_does(processor, image, 64))
    frames = video_frames((REAL / "3.mp4").read_bytes(), 5, np.copy)
    expected = torch.stack([as_the_document_does(processor, frame, 48) for frame in frames])
    found = tensors.video("3.mp4", OPEN)
    assert found.shape == (5, 3, 48, 48) and torch.equal(found, expected)


def test_a_short_video_is_filled_with_its_last_frame() -> None:
    tensors = MediaTensors(video_size=32, max_video_frames=6)
    found = tensors.video(video(moving(3)))
    assert found.shape == (6, 3, 32, 32)
    assert torch.equal(found[2], found[5]) and not torch.equal(found[1], found[2])


def test_a_sound_is_its_samples_or_a_spectrogram() -> None:
    raw = MediaTensors(audio_max_length=150)  # 1.5 s
    samples = sound_samples((REAL / "3.flac").read_bytes(), 1.5)
    assert torch.equal(raw.audio("3.flac", OPEN), torch.from_numpy(samples)) and len(samples) == 24_000
    mel = MediaTensors(audio_max_length=150, use_raw_waveform=False, audio_n_mels=40)
    assert torch.equal(mel.audio("3.flac", OPEN), log_mel(torch.from_numpy(samples), 40))
    for use_raw_waveform, shape in ((True, (36_000,)), (False, (80, 141))):
        other = MediaTensors(audio_max_length=150, audio_sample_rate=24_000, use_raw_waveform=use_raw_waveform)
        assert other.audio("3.flac", OPEN).shape == shape


class Doubling:
    """A voice processor."""

    def extract_mel(self, waveform: torch.Tensor) -> torch.Tensor:
        assert waveform.ndim == 2 and len(waveform) == 1
        return waveform[:, None].repeat(1, 2, 1) * 2


def test_a_voice_processor_replaces_our_spectrogram() -> None:
    tensors = MediaTensors(voice_processor=Doubling(), use_raw_waveform=False)
    wave = torch.from_numpy(voice(16_000, 0.1)[:, 0])
    assert torch.equal(tensors.audio(wave), torch.stack([wave * 2, wave * 2]))
    assert torch.equal(MediaTensors(voice_processor=Doubling()).audio(wave), wave)


def test_the_reference_of_a_speaker_is_seven_seconds() -> None:
    wave = voice(16_000, 9)[:, 0]
    for length in (100, 1_000):
        found = MediaTensors(audio_max_length=length).speaker_ref(wave)
        assert torch.equal(found, torch.from_numpy(wave[: 7 * 16_000]))
    assert MediaTensors(use_raw_waveform=False).speaker_ref(wave).shape == (80, 7 * 16_000 // 256 + 1)


def test_it_pickles() -> None:
    tensors = MediaTensors(image_size=32)
    assert pickle.loads(pickle.dumps(tensors)) == tensors


def test_every_real_file_of_the_folder_becomes_a_tensor() -> None:
    tensors = MediaTensors(image_size=32, video_size=32, max_video_frames=2)
    kinds = {".jpg": tensors.image, ".mp4": tensors.video, ".avi": tensors.video}
    for path in sorted(Path(REAL).iterdir()):
        assert torch.isfinite(kinds.get(path.suffix, tensors.audio)(path.name, OPEN)).all()


def test_a_file_of_another_kind_is_a_bad_sample() -> None:
    tensors = MediaTensors()
    for make, name in ((tensors.image, "2.wav"), (tensors.video, "1.jpg"), (tensors.audio, "1.jpg")):
        with pytest.raises(BadMedia):
            make(name, OPEN)
