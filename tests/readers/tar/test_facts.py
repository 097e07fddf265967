"""What a sample says about itself."""

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from penstock.readers.tar.facts import HEAD_BYTES, TAIL_BYTES, flac_seconds, ogg_seconds, parse_json, wav_seconds

SPEECH = Path(__file__).parents[2] / "data" / "speech"


def pcm(frames: int, rate: int, channels: int = 1) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, 2, rate, frames, "NONE", ""))
        file.writeframes(bytes(2 * channels * frames))
    return out.getvalue()


@pytest.mark.parametrize(("frames", "rate", "channels"), [(16_000, 16_000, 1), (12_345, 44_100, 2), (0, 8_000, 1)])
def test_a_wav_header_tells_the_duration(frames: int, rate: int, channels: int) -> None:
    data = pcm(frames, rate, channels)
    assert wav_seconds(data[:4096], len(data)) == pytest.approx(frames / rate)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("form", ["WAV", "WAVEX"])
def test_so_does_one_of_libsndfile_in_any_encoding(subtype: str, form: str) -> None:
    out = io.BytesIO()
    soundfile.write(out, np.zeros(12_000), 24_000, format=form, subtype=subtype)
    data = out.getvalue()
    assert wav_seconds(data[:4096], len(data)) == 0.5


@pytest.mark.parametrize("frames", [1, 999, 16_000, 3_000_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_so_does_a_flac_header(frames: int, channels: int) -> None:
    out = io.BytesIO()
    soundfile.write(out, np.zeros((frames, channels), np.int16), 16_000, format="FLAC")
    assert flac_seconds(out.getvalue()[:HEAD_BYTES]) == frames / 16_000


@pytest.mark.parametrize(("subtype", "rate"), [("VORBIS", 22_050), ("OPUS", 16_000), ("OPUS", 48_000)])
@pytest.mark.parametrize("frames", [500, 16_000, 700_001])
def test_so_do_the_first_and_the_last_page_of_ogg(subtype: str, rate: int, frames: int) -> None:
    out = io.BytesIO()
    soundfile.write(out, np.random.default_rng(0).normal(0, 0.1, frames), rate, format="OGG", subtype=subtype)
    data = out.getvalue()
    decoded, _ = soundfile.read(io.BytesIO(data))
    assert ogg_seconds(data[:HEAD_BYTES], data[-TAIL_BYTES:]) == pytest.approx(len(decoded) / rate, abs=1 / rate)


@pytest.mark.parametrize("name", ["2412-153948-0001.flac", "mono_c0.opus"])
def test_real_files_tell_what_libsndfile_reads(name: str) -> None:
    data = (SPEECH / name).read_bytes()
    head = data[:HEAD_BYTES]
    found = flac_seconds(head) if name.endswith("flac") else ogg_seconds(head, data[-TAIL_BYTES:])
    info = soundfile.info(SPEECH / name)
    assert found == pytest.approx(info.frames / info.samplerate, abs=1e-4)


@pytest.mark.parametrize("data", [b"", b"fLaC", b"OggS" + bytes(200), b"fLaC" + bytes(40), b"RIFF" + bytes(99)])
def test_other_bytes_tell_no_duration(data: bytes) -> None:
    assert flac_seconds(data) is None
    assert ogg_seconds(data, data) is None


def test_chunks_before_the_samples_are_stepped_over() -> None:
    data = pcm(8_000, 8_000)
    extra = b"LIST" + struct.pack("<I", 5) + b"noise\0"
    assert wav_seconds(data[:36] + extra + data[36:60], len(data) + len(extra)) == 1.0


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 10**9])
def test_a_length_that_was_never_filled_in_or_is_too_large_gives_way_to_the_files_end(length: int) -> None:
    data = pcm(8_000, 8_000)
    assert wav_seconds(data[:40] + struct.pack("<I", length), len(data)) == 1.0


@pytest.mark.parametrize(
    "head", [b"", b"RIFF", b"fLaC" + bytes(50), pcm(10, 8_000)[:30], pcm(10, 8_000)[:28] + bytes(30)]
)
def test_what_is_no_wav_or_does_not_tell_is_unknown(head: bytes) -> None:
    assert wav_seconds(head, len(head)) is None


def test_json_tells_language_and_duration_where_it_has_them() -> None:
    assert parse_json(b'{"language": "odia", "duration": 2}') == ("odia", 2.0)
    assert parse_json(b'{"text": "hello"}') == (None, None)
    assert parse_json(b"[1, 2]") == (None, None)


@pytest.mark.parametrize("data", [b"{", b"\xff", b'{"language": 3}', b'{"duration": "2"}', b'{"duration": true}'])
def test_json_that_makes_no_sense_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"duration": 1' + b"0" * 400 + b"}", "duration is a number with hundreds of digits"),
        (b'{"duration": 1' + b"0" * 9_000 + b"}", "digits"),
        (b'{"duration": "' + b"9" * 9_000 + b'"}', "duration is '999.*99', not a number of seconds"),
        (b'{"language": [' + b"1, " * 9_000 + b"1]}", r"language is \[1, 1, .*\], not a name"),
    ],
)
def test_json_that_is_meant_to_harm_is_told_in_a_few_words(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_json(data)
    assert len(str(caught.value)) < 200
