"""What dr_flac makes of a FLAC's blocks, against libsndfile's word on the whole file."""

import io

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.media.audio.flac import FlacWaveform
from penstock.media.audio.flac_blocks import cut_out
from penstock.media.errors import BadMedia
from tests.media.audio.clips import encode, voice

SECONDS = 12
CLIP = encode(voice(24_000, SECONDS), 24_000, "FLAC")
SAMPLES = soundfile.read(io.BytesIO(CLIP), dtype="float32")[0]
FRAMES = len(SAMPLES)


def read(data: bytes, start: int, size: int) -> NDArray[np.float32]:
    out = np.full(size, np.nan, np.float32)
    return out[: FlacWaveform(data, "first").read(start, out)]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, FRAMES - 1), st.integers(1, FRAMES))
@example(0, FRAMES)
@example(4_096, 4_096)
@example(FRAMES - 1, 1)
def test_any_part_is_that_of_the_whole_and_only_its_blocks_are_decoded(start: int, size: int) -> None:
    stop = min(FRAMES, start + size)
    assert np.array_equal(read(CLIP, start, size), SAMPLES[start:stop])
    cut = cut_out(CLIP, start, stop)
    in_cut = soundfile.info(io.BytesIO(cut.data)).frames
    assert cut.start <= start and stop <= cut.start + in_cut
    assert in_cut <= stop - start + 3 * 4_096


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2, 5, 8])
def test_all_depths_and_channels_are_as_libsndfile_decodes_them(subtype: str, channels: int) -> None:
    data = encode(voice(22_050, 2, channels), 22_050, "FLAC", subtype)
    expected = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0]
    first, mean = np.empty(30_000, np.float32), np.empty(30_000, np.float32)
    assert FlacWaveform(data, "first").read(9_999, first) == FlacWaveform(data, "mean").read(9_999, mean) == 30_000
    assert np.array_equal(first, expected[9_999:39_999, 0])
    assert np.abs(mean - expected[9_999:39_999].mean(axis=1)).max() <= 1e-7


def test_blocks_that_may_have_any_size_are_read_from_the_beginning() -> None:
    data = CLIP[:8] + (16).to_bytes(2, "big") + CLIP[10:]
    assert cut_out(data, 50_000, 60_000) == (data, 0)
    assert np.array_equal(read(data, 50_000, 10_000), SAMPLES[50_000:60_000])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_is_told_wherever_it_touches_what_is_read(data: st.DataObject) -> None:
    damaged = bytearray(CLIP)
    at = data.draw(st.integers(9_000, len(CLIP) - 1))  # behind the metadata
    match data.draw(st.sampled_from(["a bit", "a hole", "bytes missing"])):
        case "a bit":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        case "a hole":
            size = data.draw(st.integers(1, 60_000))
            damaged[at : at + size] = bytes(len(damaged[at : at + size]))
        case _:
            del damaged[at : at + data.draw(st.integers(1, 60_000))]
    start = data.draw(st.integers(0, FRAMES - 50_000))
    try:
        assert np.array_equal(read(bytes(damaged), start, 50_000), SAMPLES[start : start + 50_000])
    except BadMedia as bad:
        assert "FLAC is damaged or truncated" in str(bad)


def test_a_damaged_block_spoils_the_crops_that_it_is_in_and_no_others() -> None:
    damaged = bytearray(CLIP)
    damaged[len(CLIP) // 2] ^= 1
    good = 0
    for start in range(0, FRAMES - 20_000, 5_000):
        try:
            good += np.array_equal(read(bytes(damaged), start, 20_000), SAMPLES[start : start + 20_000])
        except BadMedia:
            assert abs(start + 10_000 - FRAMES / 2) < 40_000
    assert good > 40
