from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import SeamlessM4TFeatureExtractor

from penstock.media.audio import read_crop
from penstock.media.features import SHORTEST, feature_rows, w2v_bert_features
from penstock.media.span import InMemory
from tests.media.clips import REAL, voice

EXTRACTOR = SeamlessM4TFeatureExtractor()
SIX_SECONDS = 96_000


def extracted(wav: torch.Tensor) -> torch.Tensor:
    """XCodec2's call: the extractor on the clip with 160 zeros on both sides."""
    padded = torch.nn.functional.pad(wav, (160, 160)).numpy()
    return torch.from_numpy(EXTRACTOR(padded, sampling_rate=16_000, return_tensors="np")["input_features"])


def close(ours: torch.Tensor, theirs: torch.Tensor, most: float, mean: float) -> bool:
    difference = (ours - theirs).abs()
    return bool(difference.max() <= most and difference.mean() <= mean)


def crops() -> torch.Tensor:
    rows = torch.empty(len(REAL), SIX_SECONDS)
    for path, row in zip(REAL, rows, strict=True):
        read_crop(InMemory(path.read_bytes()), 2**62, row.numpy())
    return rows


@pytest.mark.parametrize("row", range(len(REAL)), ids=[path.name for path in REAL])
def test_real_clips_padded_or_not_have_the_extractors_features(row: int) -> None:
    wav = crops()[row : row + 1]
    expected = extracted(wav[0])[None]
    ours = w2v_bert_features(wav)
    assert ours.shape == expected.shape == (1, 1, 300, 160) and ours.dtype == torch.float32
    assert close(ours, expected, 2e-3, 1e-5)
    assert close(w2v_bert_features(wav, torch.float64), expected, 2e-5, 1e-6)


@pytest.mark.parametrize("samples", [1_601, 16_000, 48_123, 160_000])
def test_rows_follow_the_length_of_the_clip(samples: int) -> None:
    wav = torch.from_numpy(voice(16_000, samples / 16_000, seed=samples)[:, 0])[None]
    expected = extracted(wav[0])[None]
    ours = w2v_bert_features(wav, torch.float64)
    assert ours.shape == (1, 1, feature_rows(samples), 160) == expected.shape
    assert close(ours, expected, 2e-5, 2e-6)


@pytest.mark.parametrize("samples", [SHORTEST, 320, 400, 479, 480])
def test_clips_of_a_few_frames_have_the_extractors_features_too(samples: int) -> None:
    wav = torch.from_numpy(voice(16_000, samples / 16_000, seed=samples)[:, 0])[None]
    # So few frames hardly vary, and the division by their deviation blows the extractor's own float32 rounding up.
    assert close(w2v_bert_features(wav), extracted(wav[0])[None], 2e-3, 1e-4)


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
    assert close(w2v_bert_features(wav), extracted(wav[0])[None], 2e-3, 1e-5)


def test_a_clip_too_short_for_a_variance_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="240 samples or more, not 239"):
        w2v_bert_features(torch.zeros(1, SHORTEST - 1))


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
