import io
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
import soundfile
import soxr
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.media.audio.resample import TOLERANCE
from penstock.media.audio.sound import sound_samples
from penstock.media.errors import BadMedia
from tests.media.audio.clips import encode, voice
from tests.media.movies import REAL, VIDEOS, moving, video

SOUNDS = [REAL / "2.wav", REAL / "3.flac", REAL / "4.mp3"]
AN_HOUR = 3_600.0


def whole(data: bytes, rate: int) -> NDArray[np.float32]:
    """All of the file decoded, the mean of its channels, all of that resampled."""
    frames, own = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    return soxr.resample(frames.mean(axis=1), own, rate) if own != rate else frames.mean(axis=1)


def by_ffmpeg(frames: NDArray[np.float32], rate: int, form: str, codec: str) -> bytes:
    """Encode [n, channels] with FFmpeg."""
    file = io.BytesIO()
    with av.open(file, "w", format=form) as output:
        stream = output.add_stream(codec, rate=rate, layout="mono" if frames.shape[1] == 1 else "stereo")
        frame = av.AudioFrame.from_ndarray(frames.T.copy(), format="fltp", layout=stream.layout.name)
        frame.sample_rate = rate
        frame.pts = 0
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return file.getvalue()


@pytest.mark.parametrize("path", SOUNDS, ids=lambda path: path.name)
@pytest.mark.parametrize("rate", [16_000, 24_000, 8_000])
def test_real_files_give_the_mean_of_their_channels_at_any_rate(path: Path, rate: int) -> None:
    data = path.read_bytes()
    expected = whole(data, rate)
    found = sound_samples(str(path), AN_HOUR, rate, lambda link: Path(link).read_bytes())
    assert found.dtype == np.float32 and abs(len(found) - len(expected)) <= (2 * 1152 if path.suffix == ".mp3" else 0)
    both = min(len(found), len(expected)) - (1152 if path.suffix == ".mp3" else 0)
    assert np.abs(found[:both] - expected[:both]).max() <= TOLERANCE


@pytest.mark.parametrize("path", SOUNDS, ids=lambda path: path.name)
@pytest.mark.parametrize("rate", [16_000, 22_050])
def test_a_part_is_the_beginning_of_the_whole(path: Path, rate: int) -> None:
    data = path.read_bytes()
    everything = sound_samples(data, AN_HOUR, rate)
    part = sound_samples(data, 1.23, rate)
    assert len(part) == round(1.23 * rate)
    assert np.abs(part - everything[: len(part)]).max() <= TOLERANCE


@pytest.mark.parametrize(
    ("form", "codec"), [("ipod", "aac"), ("adts", "aac"), ("webm", "libopus"), ("matroska", "pcm_s16le")]
)
@pytest.mark.parametrize("channels", [1, 2])
def test_what_libsndfile_does_not_read_ffmpeg_does(form: str, codec: str, channels: int) -> None:
    frames = voice(48_000, 2, channels)
    found = sound_samples(by_ffmpeg(frames, 48_000, form, codec), AN_HOUR, 16_000)
    expected = soxr.resample(frames.mean(axis=1), 48_000, 16_000)
    # AAC has a delay, which only M4A files note, and lossy codecs are close at best: where they match best, they do.
    shifts = range(0, 1_500) if form == "adts" else range(0, 8)
    size = 24_000
    match = max(np.corrcoef(found[shift : shift + size], expected[:size])[0, 1] for shift in shifts)
    assert match > (0.999 if codec == "pcm_s16le" else 0.98)
    assert len(found) == pytest.approx(len(expected), abs=1_600)
    part = sound_samples(by_ffmpeg(frames, 48_000, form, codec), 0.5, 16_000)
    assert len(part) == 8_000 and np.abs(part - found[:8_000]).max() <= TOLERANCE


def test_a_video_without_sound_is_refused() -> None:
    with pytest.raises(BadMedia, match="the file has no sound in it"):
        sound_samples(VIDEOS[1].read_bytes(), 1.0)
    with pytest.raises(BadMedia, match="the file has no sound in it"):
        sound_samples(video(moving(3)), 1.0)


class Samples(NamedTuple):
    data: torch.Tensor
    sample_rate: int


class Decoder:
    """As a torchcodec AudioDecoder."""

    def __init__(self, frames: NDArray[np.float32], rate: int) -> None:
        self._samples = Samples(torch.from_numpy(frames.T.copy()), rate)

    def get_all_samples(self) -> Samples:
        return self._samples


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [16_000, 24_000])
def test_every_form_of_the_same_sound_gives_the_same_samples(channels: int, rate: int) -> None:
    frames = voice(rate, 0.8, channels)
    data = encode(frames, rate, subtype="FLOAT")
    expected = sound_samples(data, AN_HOUR)
    columns: list[Any] = [frames, frames.T, torch.from_numpy(frames), frames.astype(np.float64), frames.T[None]]
    if channels == 1:
        columns += [frames[:, 0], frames[:, 0].tolist(), torch.from_numpy(frames[:, 0])]
    values = [{"array": column, "sampling_rate": rate} for column in columns]
    values += [{"bytes": data, "path": "x.mp3"}, {"array": None, "bytes": data}, Decoder(frames, rate)]
    values += columns if rate == 16_000 else []
    for value in values:
        assert np.abs(sound_samples(value, AN_HOUR) - expected).max() <= 1e-6


def test_the_decoder_of_hugging_face_datasets_is_read() -> None:
    pytest.importorskip("torchcodec")
    from datasets import Audio, Dataset

    column = Dataset.from_dict({"audio": [str(SOUNDS[0])]}).cast_column("audio", Audio())
    expected = sound_samples(SOUNDS[0].read_bytes(), AN_HOUR)
    assert np.abs(sound_samples(column[0]["audio"], AN_HOUR) - expected).max() <= 1e-6


@pytest.mark.parametrize(("dtype", "scale"), [(np.int16, 2**15), (np.int32, 2**31), (np.int8, 2**7)])
def test_integers_are_scaled_to_floats(dtype: type, scale: int) -> None:
    floats = voice(16_000, 0.1)[:, 0]
    samples = np.rint(np.clip(floats, -0.99, 0.99) * scale).astype(dtype)
    assert np.abs(sound_samples(samples, AN_HOUR) - floats).max() <= 1 / scale + 1e-6
    unsigned = np.array([0, 128, 255], np.uint8)
    assert sound_samples(unsigned, AN_HOUR).tolist() == [-1.0, 0.0, 127 / 128]


@given(st.integers(1, 5_000), st.floats(0.01, 1.0), st.sampled_from([8_000, 16_000, 22_050, 44_100, 48_000]))
def test_no_sound_is_longer_than_what_is_wanted(size: int, seconds: float, rate: int) -> None:
    found = sound_samples({"array": np.zeros(size, np.float32), "sampling_rate": 16_000}, seconds, rate)
    assert 1 <= len(found) <= max(1, round(seconds * rate))
    assert len(found) == pytest.approx(min(size * rate / 16_000, seconds * rate), abs=1)


def test_a_header_that_claims_hours_costs_no_memory_for_them() -> None:
    data = encode(np.zeros((1_000_000, 1), np.float32), 1_000, subtype="PCM_U8")
    assert len(sound_samples(data, 0.5)) == 8_000


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "the record has no sound"),
        (b"", "the file is empty"),
        (b"no sound at all", "not WAV, FLAC, MP3 or Ogg"),
        ("a.wav", "paths and URLs are not opened here"),
        ({"array": None, "bytes": None, "path": None}, "neither 'bytes' nor 'path'"),
        ({"array": [0.0, 0.1], "sampling_rate": "fast"}, "no sample rate: 'fast'"),
        ({"array": [0.0, 0.1], "sampling_rate": -1}, "sample rate of -1 Hz"),
        ({"array": [0.0, 0.1], "sampling_rate": float("nan")}, "no sample rate"),
        ({"array": "text", "sampling_rate": 16_000}, "no samples"),
        ({"array": [], "sampling_rate": 16_000}, "0 samples"),
        ({"array": [0.0] * 2, "sampling_rate": 700_000}, "too short: 2 samples at 700000 Hz"),
        (np.zeros((2, 3, 4)), r"1 or 2 dimensions, not the shape \[2, 3, 4\]"),
        (np.array(1.0), "1 or 2 dimensions"),
        (np.array([0.0, np.nan]), "not finite"),
        (np.array([0.0, 1e30]), "beyond ±16,777,216"),
        (np.zeros(4, np.int64), "samples of int64 cannot be read"),
        (np.zeros(4, bool), "samples of bool cannot be read"),
        (["a", "b"], "samples of <U1 cannot be read"),
        (by_ffmpeg(voice(48_000, 1), 48_000, "ipod", "aac")[:-200], "truncated"),
        (b"\xff\xf1\x50\x80" + bytes(400), "FFmpeg cannot read|0 samples"),
    ],
)
def test_what_is_no_good_is_refused_with_the_reason(value: Any, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        sound_samples(value, 10.0)
