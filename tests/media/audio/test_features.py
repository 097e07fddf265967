import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import soxr
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.audio.clip import read_crop, read_whole
from penstock.media.audio.features import MIN_SAMPLES, feature_rows, w2v_bert_features
from penstock.media.span import InMemory
from tests.media.audio.accuracy import EXACT, FAST, FAST_AT_WORST, close, energies_close, extracted
from tests.media.audio.both_modes import both_modes, energies
from tests.media.audio.clips import REAL, encode, voice, whole

ROOT = Path(__file__).parents[3]
SIX_SECONDS = 96_000
LIBRI = next(path for path in REAL if path.name.startswith("libri"))
WORST_START = 16_830  # of the crop for which float32 differs most: by 4.6e-3, with other roundings by up to 5.4e-3
TELEPHONE_RATE = 8_000
TELEPHONE_MELS = 58  # they end below 3.8 kHz
ATEN_AND_MKL = {"DEFAULT": "SSE4_2", "AVX2": "AVX2", "AVX512": "AVX512"}  # instructions, as either library names them


def crops() -> torch.Tensor:
    rows = torch.empty(len(REAL), SIX_SECONDS)
    for path, row in zip(REAL, rows, strict=True):
        read_crop(InMemory(path.read_bytes()), 2**62, row.numpy())
    return rows


def worst_crop() -> torch.Tensor:
    samples = read_whole(InMemory(LIBRI.read_bytes()))
    return torch.from_numpy(samples[None, WORST_START : WORST_START + SIX_SECONDS])


def telephone() -> torch.Tensor:
    """Speech recorded at 8 kHz: above 4 kHz it has only the rounding noise of resampling."""
    recorded = soxr.resample(whole(LIBRI.read_bytes()), 16_000, TELEPHONE_RATE)
    samples = read_whole(InMemory(encode(recorded[:, None], TELEPHONE_RATE)))
    return torch.from_numpy(samples[None, :SIX_SECONDS])


def telephone_band(features: torch.Tensor) -> torch.Tensor:
    return features.unflatten(-1, (2, 80))[..., :TELEPHONE_MELS].flatten(-2)


@cache
def hard_clips() -> tuple[torch.Tensor, torch.Tensor]:
    """The real clips, their worst crop and telephone speech, and the extractor's features of them."""
    clips = torch.cat([crops(), worst_crop(), telephone()])
    return clips, extracted(clips)


def check_promises(made: dict[str, torch.Tensor]) -> None:
    """``made`` is what ``both_modes`` gives for the hard clips."""
    _, expected = hard_clips()
    sizes = [len(REAL), 1, 1]
    real, worst, narrow = made["fast"].split(sizes)
    expected_real, expected_worst, expected_narrow = expected.split(sizes)
    assert energies_close(made["fast_energies"], made["exact_energies"])
    assert close(real, expected_real, **FAST)
    assert close(worst, expected_worst, **FAST_AT_WORST)
    assert close(telephone_band(narrow), telephone_band(expected_narrow), **FAST)
    assert close(made["exact"], expected, **EXACT)


def test_both_modes_keep_their_promises_on_hard_clips() -> None:
    clips, _ = hard_clips()
    check_promises(both_modes(clips))


@pytest.mark.parametrize("shift", [1, 50, 128, 200, 321, 450])
def test_both_modes_keep_their_promises_however_the_fft_rounds(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clips, _ = hard_clips()
    rfft = torch.fft.rfft
    # A circular shift keeps the energies of a frame but changes their rounding, as the FFT of another CPU would.
    monkeypatch.setattr(torch.fft, "rfft", lambda frames: rfft(frames.roll(shift, dims=1)))
    check_promises(both_modes(clips))


@pytest.mark.parametrize("instructions", ATEN_AND_MKL)
def test_both_modes_keep_their_promises_with_all_instructions_of_the_cpu(instructions: str, tmp_path: Path) -> None:
    here = torch.backends.cpu.get_cpu_capability()
    known = list(ATEN_AND_MKL)
    if instructions != "DEFAULT" and (here not in known or known.index(instructions) > known.index(here)):
        pytest.skip(f"torch uses {here} here and may crash with {instructions}")
    clips, _ = hard_clips()
    waves = tmp_path / "waves.pt"
    results = tmp_path / "results.pt"
    torch.save(clips, waves)
    chosen = {"ATEN_CPU_CAPABILITY": instructions.lower(), "MKL_ENABLE_INSTRUCTIONS": ATEN_AND_MKL[instructions]}
    program = [sys.executable, "-m", "tests.media.audio.both_modes", waves, results]
    subprocess.run(program, check=True, timeout=120, cwd=ROOT, env={**os.environ, **chosen})
    check_promises(torch.load(results))


@settings(max_examples=40, deadline=None)
@given(st.floats(20, 8_000), st.floats(-140, 0), st.integers(0, 2**32))
def test_energies_of_a_tone_over_quiet_noise_are_within_their_promise(hertz: float, decibel: float, seed: int) -> None:
    time = torch.arange(16_000, dtype=torch.float64) / 16_000
    noise = torch.randn(16_000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    tone = torch.sin(2 * torch.pi * hertz * time)
    wav = (0.5 * tone + 0.1 * 10 ** (decibel / 20) * noise).float()[None]
    assert energies_close(energies(wav, torch.float32), energies(wav, torch.float64))


@pytest.mark.parametrize("row", range(len(REAL)), ids=[path.name for path in REAL])
def test_real_clips_padded_or_not_have_the_extractors_features(row: int) -> None:
    wav = crops()[row : row + 1]
    expected = extracted(wav)
    ours = w2v_bert_features(wav)
    assert ours.shape == expected.shape == (1, 1, 300, 160) and ours.dtype == torch.float32
    assert close(ours, expected, **FAST)
    assert close(w2v_bert_features(wav, torch.float64), expected, **EXACT)


@pytest.mark.parametrize("samples", [1_601, 16_000, 48_123, 160_000])
def test_rows_follow_the_length_of_the_clip(samples: int) -> None:
    wav = torch.from_numpy(voice(16_000, samples / 16_000, seed=samples)[:, 0])[None]
    expected = extracted(wav)
    ours = w2v_bert_features(wav, torch.float64)
    assert ours.shape == (1, 1, feature_rows(samples), 160) == expected.shape
    # This voice hardly varies in some bins: the division by their deviation shows the extractor's float32 rounding.
    assert close(ours, expected, most=2e-5, mean=5e-6)


@pytest.mark.parametrize("samples", [MIN_SAMPLES, 320, 400, 479, 480])
def test_clips_of_a_few_frames_have_the_extractors_features_too(samples: int) -> None:
    wav = torch.from_numpy(voice(16_000, samples / 16_000, seed=samples)[:, 0])[None]
    # So few frames hardly vary, and the division by their deviation blows the extractor's own float32 rounding up.
    assert close(w2v_bert_features(wav), extracted(wav), 2e-3, 1e-4)


def test_a_codec_token_of_320_samples_has_one_row() -> None:
    assert [feature_rows(320 * tokens) for tokens in (1, 2, 300, 1_000)] == [1, 2, 300, 1_000]


def test_a_clip_has_the_same_features_alone_and_in_a_batch() -> None:
    wav = crops()
    together = w2v_bert_features(wav)
    assert all(torch.equal(w2v_bert_features(clip[None])[0], row) for clip, row in zip(wav, together, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_silence_gives_zeros(dtype: torch.dtype) -> None:
    assert not w2v_bert_features(torch.zeros(2, SIX_SECONDS), dtype).any()


@pytest.mark.parametrize("value", [1.0, 1e-30, 1e-5, 3e4])
def test_no_input_gives_nan(value: float) -> None:
    wav = torch.zeros(4, SIX_SECONDS)
    wav[0] = value
    wav[1, 50_000] = value
    wav[2, ::2] = value
    wav[3] = value * torch.sin(torch.arange(SIX_SECONDS) / 20)
    assert torch.isfinite(w2v_bert_features(wav)).all()


def test_a_clip_that_is_nearly_all_dc_keeps_its_precision() -> None:
    wav = 0.5 + 0.001 * torch.from_numpy(voice(16_000, 6)[:, 0])[None]
    assert close(w2v_bert_features(wav), extracted(wav), 2e-3, 1e-5)


def test_a_clip_too_short_for_a_variance_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="240 samples or more, not 239"):
        w2v_bert_features(torch.zeros(1, MIN_SAMPLES - 1))


def test_the_input_is_left_as_it_was_and_the_output_can_train_a_model() -> None:
    wav = crops()
    before = wav.clone()
    features = w2v_bert_features(wav)
    assert torch.equal(wav, before)
    torch.nn.Linear(160, 1)(features).sum().backward()


def test_threads_at_once_give_the_same_as_one_after_another() -> None:
    wav = crops()
    expected = w2v_bert_features(wav)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(features, expected) for features in pool.map(w2v_bert_features, [wav] * 12))


def test_it_may_be_used_in_inference_mode_and_out_of_it_in_any_order() -> None:
    wav = crops()[:, :30_000]
    with torch.inference_mode():
        inside = w2v_bert_features(wav)
    outside = w2v_bert_features(wav)
    with torch.inference_mode():
        again = w2v_bert_features(wav)
    assert torch.equal(inside, outside) and torch.equal(again, outside)


def test_a_trainers_own_defaults_change_nothing() -> None:
    wav = crops()[:, :20_000]  # a length of its own: nothing is kept for it yet
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"), torch.autocast("cpu"):
            inside = w2v_bert_features(wav)
    finally:
        torch.set_default_dtype(torch.float32)
    assert inside.dtype == torch.float32 and torch.equal(inside, w2v_bert_features(wav))


def test_a_batch_of_no_clips_has_no_features() -> None:
    assert w2v_bert_features(torch.zeros(0, 16_000)).shape == (0, 1, 50, 160)
