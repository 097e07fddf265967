import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.audio.wav import PcmWav, parse_wav, wav_bytes
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import Counted, encode, voice, whole

ENCODINGS = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]
FMT = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
SAMPLES = np.arange(-500, 500, dtype="<i2")


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) % 2)


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def read_all(data: bytes, mix: str = "first") -> np.ndarray:
    layout = parse_wav(InMemory(data))
    assert layout is not None
    out = np.full(layout.frames, np.nan, np.float32)
    assert PcmWav(InMemory(data), layout, mix).read(0, out) == layout.frames  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("form", ["WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", ENCODINGS)
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_every_pcm_encoding_reads_as_libsndfile_reads_it_bit_for_bit(form: str, subtype: str, channels: int) -> None:
    data = encode(voice(16_000, 0.2, channels), 16_000, form, subtype)
    assert np.array_equal(read_all(data), whole(data))


@given(st.sampled_from(ENCODINGS), st.integers(1, 3), st.integers(0, 1_700), st.integers(1, 700))
def test_any_part_equals_that_part_of_the_whole(subtype: str, channels: int, start: int, size: int) -> None:
    data = encode(voice(16_000, 0.1, channels), 16_000, "WAV", subtype)
    layout = parse_wav(InMemory(data))
    assert layout is not None
    out = np.zeros(size, np.float32)
    count = PcmWav(InMemory(data), layout, "first").read(start, out)
    assert np.array_equal(out[:count], whole(data)[start : start + size])


def test_the_mean_of_the_channels_is_taken_when_asked_for() -> None:
    frames = np.array([[0.5, -0.25], [0.25, 0.25]], np.float32)
    assert read_all(encode(frames, 16_000), "mean").tolist() == [0.125, 0.25]


def test_only_the_header_and_the_bytes_of_the_part_are_read() -> None:
    span = Counted(encode(voice(16_000, 60), 16_000))
    layout = parse_wav(span)
    assert layout is not None
    PcmWav(span, layout, "first").read(100_000, np.empty(96_000, np.float32))
    assert span.bytes_read <= 512 + 2 * 96_000


@pytest.mark.parametrize("listed", [1, 3, 400, 5_000, 70_001])
def test_chunks_of_any_length_may_stand_before_the_samples(listed: int) -> None:
    data = riff(
        chunk(b"LIST", b"x" * listed), chunk(b"fmt ", FMT), chunk(b"fact", b"1234"), chunk(b"data", SAMPLES.tobytes())
    )
    assert np.array_equal(read_all(data), SAMPLES / np.float32(32_768))


def test_chunks_after_the_samples_are_not_samples() -> None:
    data = riff(chunk(b"fmt ", FMT), chunk(b"data", SAMPLES.tobytes()), chunk(b"LIST", b"title"))
    assert len(read_all(data)) == len(SAMPLES)


@pytest.mark.parametrize(("riff_size", "data_size"), [(0, 0), (36, 0), (2**32 - 1, 2**32 - 1), (2**31 - 1, 2**31 - 37)])
def test_a_streamed_wav_without_its_sizes_is_read_to_its_end(riff_size: int, data_size: int) -> None:
    data = riff(chunk(b"fmt ", FMT), chunk(b"data", SAMPLES.tobytes(), data_size), size=riff_size)
    assert np.array_equal(read_all(data), SAMPLES / np.float32(32_768))


def test_a_last_frame_that_is_cut_in_half_is_left_out() -> None:
    data = riff(chunk(b"fmt ", FMT), chunk(b"data", SAMPLES.tobytes(), 2**32 - 1), size=2**32 - 1) + b"\1"
    assert len(read_all(data)) == len(SAMPLES)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            riff(chunk(b"fmt ", FMT), chunk(b"data", SAMPLES.tobytes()))[:-10],
            "truncated: its data chunk should have 2000 bytes",
        ),
        (riff(chunk(b"fmt ", FMT), chunk(b"data", b"")), "0 samples"),
        (riff(chunk(b"fmt ", FMT), chunk(b"data", b""), chunk(b"LIST", b"not audio")), "0 samples"),
        (riff(chunk(b"fmt ", FMT)), "before its data chunk"),
        (riff(chunk(b"data", SAMPLES.tobytes())), "before any fmt chunk"),
        (riff(chunk(b"fmt ", FMT[:10]), chunk(b"data", SAMPLES.tobytes())), "fmt chunk has 10 bytes"),
        (riff(*[chunk(b"junk", b"")] * 2_000), "no data chunk among its first 1000"),
        (riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 0, 16_000, 0, 0, 16)), chunk(b"data", b"12")), "0 channels"),
        (
            riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 2**32 - 1, 0, 2, 16)), chunk(b"data", b"12")),
            "4294967295 Hz",
        ),
        (riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 1, 0, 2, 16)), chunk(b"data", b"12")), "rate of 1 Hz"),
    ],
)
def test_a_broken_wav_is_refused_with_the_reason(data: bytes, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        parse_wav(InMemory(data))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_samples_that_are_not_finite_are_refused(value: float, subtype: str) -> None:
    frames = voice(16_000, 0.1)
    frames[700] = value
    with pytest.raises(BadMedia, match="not finite"):
        read_all(encode(frames, 16_000, "WAV", subtype))


@pytest.mark.parametrize(
    "data",
    [b"", b"RIFF", encode(voice(16_000, 0.1), 16_000, "FLAC"), encode(voice(16_000, 0.1), 16_000, "WAV", "ULAW")],
)
def test_what_is_not_pcm_wav_is_left_to_a_decoder(data: bytes) -> None:
    assert parse_wav(InMemory(data)) is None


# What is written is heard as it was


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_every_16_bit_sample_comes_out_bit_for_bit(rate: int) -> None:
    samples = np.arange(-(2**15), 2**15, dtype=np.int32).astype(np.int16)
    data = wav_bytes(samples / np.float32(2**15), rate)
    heard, heard_rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert heard_rate == rate
    assert np.array_equal(heard, samples)


def test_samples_between_are_rounded_and_samples_beyond_full_scale_are_clipped() -> None:
    levels = np.array([0.4, 0.6, -0.6, 40_000, -40_000], np.float32)
    heard, _ = soundfile.read(io.BytesIO(wav_bytes(levels / 2**15, 16_000)), dtype="int16")
    assert heard.tolist() == [0, 1, -1, 32_767, -32_768]


def test_no_samples_are_a_file_too() -> None:
    heard, _ = soundfile.read(io.BytesIO(wav_bytes(np.zeros(0, np.float32), 16_000)))
    assert len(heard) == 0
