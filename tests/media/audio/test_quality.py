import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.media.audio.quality import Quality, measure
from penstock.media.audio.snr import SNR_LIMITS_DB
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import REAL, encode, whole

SPEECH = [path for path in REAL if path.name.startswith(("2412", "LJ", "libri", "common_voice"))]


def syllables(rate: int, seconds: float, seed: int) -> NDArray[np.float32]:
    """A buzz of harmonics in syllables of 0.1 to 0.3 s with pauses of 0.05 to 0.15 s: nothing but signal."""
    random = np.random.default_rng(seed)
    sound = np.zeros(round(rate * seconds))
    at = 0.0
    while at < seconds:
        length = random.uniform(0.1, 0.3)
        begin, end = round(at * rate), min(len(sound), round((at + length) * rate))
        time = np.arange(end - begin) / rate
        pitch = random.uniform(90, 220)
        harmonics = pitch * np.arange(1, int(min(rate / 2, 5_000) / pitch))
        loudness = random.uniform(0.3, 1) / np.arange(1, len(harmonics) + 1)
        envelope = np.sin(np.pi * time / length)
        sound[begin:end] = envelope * (loudness @ np.sin(2 * np.pi * harmonics[:, None] * time))
        at += length + random.uniform(0.05, 0.15)
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def noisy(clean: NDArray[np.float32], snr: float, seed: int) -> NDArray[np.float32]:
    noise = np.random.default_rng(seed).standard_normal(len(clean)).astype(np.float32)
    noise *= np.sqrt(np.square(clean).mean() / np.square(noise).mean() / 10 ** (snr / 10))
    return clean + noise


def measured(samples: NDArray[np.float32], rate: int = 16_000) -> Quality:
    return measure(InMemory(encode(samples, rate, subtype="FLOAT")))


@settings(max_examples=60, deadline=None)
@given(
    snr=st.floats(0, 30),
    seconds=st.floats(1.5, 12),
    gain=st.floats(-30, 0),
    offset=st.floats(-0.1, 0.1),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_snr_of_speech_like_clips_is_told_within_3_db_at_any_gain_and_offset(snr, seconds, gain, offset, seed):
    sound = noisy(syllables(16_000, seconds, seed), snr, seed) * np.float32(10 ** (gain / 20)) + np.float32(offset)
    assert abs(measured(sound).snr - snr) <= 3


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000])
@pytest.mark.parametrize("snr", [0, 15, 30])
def test_other_rates_below_16_khz_are_told_as_well(rate, snr):
    sound = noisy(syllables(rate, 5, 1), snr, 2)
    assert abs(measured(sound, rate).snr - snr) <= 3


@pytest.mark.parametrize("path", SPEECH, ids=lambda path: path.name)
@pytest.mark.parametrize("snr", range(0, 31, 5))
def test_the_snr_of_real_speech_with_added_noise_is_told_within_3_db(path, snr):
    sound = noisy(whole(path.read_bytes()), snr, snr)
    assert abs(measured(sound).snr - snr) <= 3


def test_noise_above_8_khz_does_not_count_because_training_never_hears_it():
    clean = syllables(48_000, 5, 3)
    spectrum = np.fft.rfft(np.random.default_rng(0).standard_normal(len(clean)))
    spectrum[: round(9_000 / 24_000 * len(spectrum))] = 0
    hiss = np.fft.irfft(spectrum).astype(np.float32)
    alone = measured(noisy(clean, 25, 1), 48_000).snr
    assert abs(measured(noisy(clean, 25, 1) + 0.1 * hiss, 48_000).snr - alone) < 1


def test_noise_alone_and_nothing_at_all_have_the_lowest_snr():
    noise = np.random.default_rng(0).standard_normal(80_000).astype(np.float32) * 0.05
    assert measured(noise).snr < 0
    assert measured(np.zeros(80_000, np.float32)).snr == SNR_LIMITS_DB[0]


def test_zeros_before_and_after_do_not_make_a_noisy_clip_a_clean_one():
    sound = noisy(syllables(16_000, 5, 1), 10, 2)
    padded = np.concatenate([np.zeros(16_000, np.float32), sound, np.zeros(32_000, np.float32)])
    assert abs(measured(padded).snr - measured(sound).snr) < 1


def test_noise_that_changes_after_half_a_minute_is_measured_where_it_is():
    calm, loud = noisy(syllables(16_000, 30, 1), 30, 1), noisy(syllables(16_000, 30, 2), 0, 2)
    assert abs(measured(np.concatenate([calm, loud])).snr - 3) <= 3  # all of the noise is in one half of the speech


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.3])
def test_clipping_is_the_share_of_samples_at_full_scale(share):
    sound = syllables(16_000, 3, 1)
    limit = np.quantile(np.abs(sound), 1 - share) if share else 1.0
    clipped = np.clip(sound / limit, -1, 1) if share else sound
    quality = measure(InMemory(encode(clipped, 16_000)))
    assert quality.clipping == pytest.approx(share, abs=0.0005 + 0.05 * share)


@given(quiet=st.floats(0, 0.8), gain=st.floats(-30, 0))
@settings(max_examples=30, deadline=None)
def test_silence_is_the_share_of_frames_without_sound_at_any_gain(quiet, gain):
    random = np.random.default_rng(1)
    sound = 0.2 * random.standard_normal(160_000).astype(np.float32)
    sound[: round(quiet * len(sound))] *= 0.001
    assert measured(sound * np.float32(10 ** (gain / 20))).silence == pytest.approx(quiet, abs=0.005)


def test_a_clip_of_zeros_is_all_silence():
    assert measured(np.zeros(16_000, np.float32)).silence == 1


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_seconds_are_those_of_the_decoded_audio(path):
    frames, rate = soundfile.read(path)
    assert measure(InMemory(path.read_bytes())).seconds == pytest.approx(len(frames) / rate)


def test_a_long_clip_in_blocks_is_as_good_as_a_short_one():
    sound = np.tile(noisy(syllables(16_000, 7.3, 1), 15, 1), 13)
    quality, part = measured(sound), measured(sound[: len(sound) // 13])
    assert quality.seconds == pytest.approx(13 * part.seconds)
    assert quality.silence == pytest.approx(part.silence, abs=0.01)
    assert abs(quality.snr - 15) <= 3


@pytest.mark.parametrize("samples", [1, 7, 255, 256, 257])
def test_clips_shorter_than_a_frame_are_measured_all_the_same(samples):
    quality = measured(np.full(samples, 0.5, np.float32))
    assert quality.seconds == samples / 16_000
    assert np.isfinite([quality.clipping, quality.silence, quality.snr]).all()


@pytest.mark.parametrize("data", [b"", b"no audio at all", b"RIFF\0\0\0\0WAVEjunk"])
def test_what_is_no_audio_is_bad_media(data):
    with pytest.raises(BadMedia):
        measure(InMemory(data))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([path for path in REAL if path.stat().st_size < 100_000]), st.data())
def test_damaged_files_are_measured_or_bad_media_and_nothing_else(path, data):
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        # Mostly in the header, where it hurts.
        at = data.draw(st.one_of(st.integers(0, 64), st.integers(0, len(damaged) - 1)))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        quality = measure(InMemory(bytes(damaged)))
    except BadMedia:
        return
    assert quality.seconds > 0 and 0 <= quality.clipping <= 1 and 0 <= quality.silence <= 1
    assert SNR_LIMITS_DB[0] <= quality.snr <= SNR_LIMITS_DB[1]


def test_audio_that_ends_early_is_bad_media_even_where_a_crop_would_decode():
    data = encode(syllables(16_000, 10, 1)[:, None], 16_000, "FLAC")
    with pytest.raises(BadMedia):
        measure(InMemory(data[: len(data) // 2]))
