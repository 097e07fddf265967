from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.audio.clip import crop_start, read_crop
from penstock.media.audio.resample import TOLERANCE
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory, Slice
from penstock.store.local import LocalStore
from tests.media.audio.clips import REAL, clip_length, encode, voice, whole

SIX_SECONDS = 96_000
LARGEST = 2**64 - 1
LOSSLESS = [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24")]
FORMATS = [*LOSSLESS, ("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS")]
draws = st.integers(0, LARGEST)


def xcodec2(data: bytes, start: int, size: int) -> np.ndarray:
    """XCodec2's own recipe, step by step, for a given start."""
    wav = whole(data)
    if len(wav) < size:
        wav = np.pad(wav, (0, size - len(wav)))
    return wav[start : start + size]


@given(draws, st.integers(1, 10**9), st.integers(1, 10**6))
def test_a_crop_lies_within_the_clip(draw: int, length: int, size: int) -> None:
    start = crop_start(draw, length, size)
    assert 0 <= start <= max(0, length - size)


def test_both_ends_of_the_clip_can_be_reached_and_all_starts_are_as_likely() -> None:
    assert crop_start(0, 100, 90) == 0
    assert crop_start(LARGEST, 100, 90) == 10
    starts = [crop_start(draw << 54, 100, 90) for draw in range(1_024)]
    counts = np.bincount(starts, minlength=11)
    assert counts.min() >= 93 and counts.max() <= 94  # 1024 / 11


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
@pytest.mark.parametrize("size", [SIX_SECONDS, 8_000, 3_200])
@pytest.mark.parametrize("draw", [0, 2**63 + 12_345, LARGEST])
def test_real_files_give_what_xcodec2_makes_of_them(path: Path, size: int, draw: int) -> None:
    data = path.read_bytes()
    out = np.full(size, np.nan, np.float32)
    valid = read_crop(InMemory(data), draw, out)
    start = crop_start(draw, clip_length(InMemory(data)), size)
    assert np.abs(out - xcodec2(data, start, size)).max() <= TOLERANCE
    assert valid == min(size, len(whole(data)))
    assert not out[valid:].any()


@pytest.mark.parametrize(("form", "subtype"), FORMATS)
@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_every_format_and_rate_gives_the_crop_of_the_whole(form: str, subtype: str, rate: int) -> None:
    data = encode(voice(rate, 3), rate, form, subtype)
    out = np.empty(16_000, np.float32)
    for draw in (0, 2**62, LARGEST):
        assert read_crop(InMemory(data), draw, out) == 16_000
        start = crop_start(draw, clip_length(InMemory(data)), 16_000)
        assert np.abs(out - whole(data)[start : start + 16_000]).max() <= TOLERANCE


@settings(max_examples=60, deadline=None)
@given(draws, st.integers(1, 60_000), st.sampled_from([("WAV", "PCM_16"), ("FLAC", "PCM_16")]))
def test_the_same_bytes_and_draw_give_the_same_row(draw: int, size: int, kind: tuple[str, str]) -> None:
    data = encode(voice(24_000, 2), 24_000, *kind)
    rows = [np.full(size, filled, np.float32) for filled in (0, np.nan)]
    lengths = [read_crop(InMemory(data), draw, row) for row in rows]
    assert lengths[0] == lengths[1] == min(size, 32_000)
    assert np.array_equal(rows[0], rows[1])


@pytest.mark.parametrize(("form", "subtype"), FORMATS)
def test_a_shorter_clip_is_padded_with_zeros_on_the_right(form: str, subtype: str) -> None:
    data = encode(voice(16_000, 1), 16_000, form, subtype)
    out = np.full(SIX_SECONDS, np.nan, np.float32)
    valid = read_crop(InMemory(data), LARGEST, out)
    assert valid == len(whole(data))
    assert np.abs(out[:valid] - whole(data)).max() <= 1e-6 and not out[valid:].any()


@pytest.mark.parametrize(("form", "subtype"), [*LOSSLESS, ("WAV", "ULAW"), ("OGG", "VORBIS")])
def test_channel_0_is_taken_or_the_mean_when_asked_for(form: str, subtype: str) -> None:
    data = encode(voice(16_000, 2, channels=2), 16_000, form, subtype)
    right = encode(voice(16_000, 2, channels=2)[:, ::-1], 16_000, form, subtype)
    first, mean, other = (np.empty(16_000, np.float32) for _ in range(3))
    read_crop(InMemory(data), 2**63, first)
    read_crop(InMemory(data), 2**63, mean, "mean")
    read_crop(InMemory(right), 2**63, other)
    start = crop_start(2**63, 32_000, 16_000)
    assert np.array_equal(first, whole(data)[start : start + 16_000])
    assert np.abs(mean - (first + other) / 2).max() < (0.02 if form == "OGG" else 1e-6)


@pytest.mark.parametrize(("rate", "channels"), [(192_000, 1), (48_000, 8), (192_000, 8)])
@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_studio_rates_and_many_channels_are_read(rate: int, channels: int, form: str) -> None:
    data = encode(voice(rate, 1.5, channels), rate, form)
    out = np.empty(16_000, np.float32)
    assert read_crop(InMemory(data), LARGEST, out) == 16_000
    assert np.abs(out - whole(data)[8_000:]).max() <= TOLERANCE


def test_a_member_of_a_larger_file_is_read_in_place(tmp_path: Path) -> None:
    data = encode(voice(16_000, 2), 16_000)
    (tmp_path / "shard").write_bytes(b"x" * 1_537 + data + b"y" * 999)
    blob = LocalStore(tmp_path).open("shard")
    out = np.empty(16_000, np.float32)
    assert read_crop(Slice(blob, 1_537, len(data)), LARGEST, out) == 16_000
    blob.close()
    assert np.array_equal(out, whole(data)[16_000:])


def test_a_flac_that_was_piped_and_has_no_length_is_read_all_the_same() -> None:
    data = bytearray(next(path for path in REAL if path.suffix == ".flac").read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)  # the 36 bits of the total number of samples
    assert clip_length(InMemory(data)) == 168_160
    out = np.empty(SIX_SECONDS, np.float32)
    assert read_crop(InMemory(data), LARGEST, out) == SIX_SECONDS
    assert np.array_equal(out, whole(REAL[0].read_bytes())[-SIX_SECONDS:])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "empty"),
        (b"just some text, no audio", "not WAV, FLAC, MP3 or Ogg audio: 24 bytes of something else"),
        (b"{}", "not WAV, FLAC, MP3 or Ogg"),
        (b"FORM\0\0\0\x1eAIFFCOMM", "not WAV, FLAC, MP3 or Ogg"),
        (b"fLaC" + bytes(100), "the FLAC cannot be opened"),
        (b"OggS" + bytes(100), "does not match its checksum"),
        (b"ID3" + bytes(200), "libsndfile cannot open"),
        (encode(voice(16_000, 0), 16_000), "0 samples"),
        (encode(np.full((8_000, 1), np.nan, np.float32), 24_000, "WAV", "FLOAT"), "not finite"),
        (encode(np.full((8_000, 1), 1e30, np.float32), 24_000, "WAV", "FLOAT"), "beyond ±16,777,216"),
    ],
)
def test_what_is_no_good_is_refused_with_the_reason(data: bytes, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        read_crop(InMemory(data), 0, np.empty(SIX_SECONDS, np.float32))


def test_the_bytes_decide_what_a_file_is_and_not_its_name() -> None:
    flac_named_wav = encode(voice(16_000, 1), 16_000, "FLAC")
    out = np.empty(8_000, np.float32)
    assert read_crop(InMemory(flac_named_wav), 0, out) == 8_000


def test_a_failing_disk_is_not_mistaken_for_a_bad_file(tmp_path: Path) -> None:
    class Failing(InMemory):
        def readinto(self, buffer: memoryview, offset: int) -> None:
            raise OSError("input/output error")

    with pytest.raises(OSError, match="input/output"):
        read_crop(Failing(b"x" * 1_000), 0, np.empty(8_000, np.float32))
