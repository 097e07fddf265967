"""The networks of the speech example: shapes, what learns, and what the losses say of silence and padding."""

from collections.abc import Iterator

import pytest
import torch

from penstock.runtime.torch_threads import one_torch_thread

from codec import Codec, Discriminator, ModelSize  # isort: skip
from losses import mel_distance  # isort: skip

SIZE = ModelSize(hidden=32, layers=1, semantic=16, discriminator=2)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    torch.manual_seed(0)  # whatever tests ran before
    with one_torch_thread():
        yield


@pytest.fixture(scope="module")
def codec() -> Codec:
    torch.manual_seed(0)
    return Codec(SIZE)


@pytest.mark.parametrize("seconds", [1, 6])
def test_a_batch_comes_out_of_the_codec_as_it_went_in(codec: Codec, seconds: int) -> None:
    wav, feats = torch.randn(2, 16_000 * seconds), torch.randn(2, 1, 50 * seconds, 160)
    made = codec(wav, feats)
    assert made.wav.shape == wav.shape and made.feats.shape == (2, 50 * seconds, 160)
    judged = Discriminator(SIZE.discriminator)(made.wav)
    assert all(verdict[-1].shape[:2] == (2, 1) for verdict in judged)


def test_everything_learns_but_the_semantic_encoder(codec: Codec) -> None:
    made = codec.train()(torch.randn(1, 8_000), torch.randn(1, 1, 25, 160))
    (made.wav.square().mean() + made.feats.square().mean()).backward()
    still = {name.split(".")[1] for name, parameter in codec.named_parameters() if parameter.grad is None}
    assert still == {"semantic_encoder"} and not codec.xcodec2.semantic_encoder.training
    for encoder in (codec.xcodec2.acoustic_encoder, codec.xcodec2.semantic_adapter):  # through the quantizer
        assert all(parameter.grad.any() for parameter in encoder.parameters() if parameter.dim() > 1)


def test_both_the_sound_and_the_features_reach_the_output(codec: Codec) -> None:
    codec.eval()
    wav, feats = torch.randn(1, 8_000), torch.randn(1, 1, 25, 160)
    made = codec(wav, feats).wav
    # Several, because the quantizer may round two of them to the same codes.
    assert not all(torch.equal(made, codec(torch.randn(1, 8_000), feats).wav) for _ in range(8))
    assert not all(torch.equal(made, codec(wav, torch.randn(1, 1, 25, 160)).wav) for _ in range(8))


def test_padding_does_not_count_and_silence_gives_no_nan() -> None:
    wav = torch.randn(2, 16_000)
    wav[0, 8_000:] = 0
    noisy = wav.clone().requires_grad_()
    with torch.no_grad():
        noisy[0, 12_000:] += 1  # well into the padding of the first clip
    distance = mel_distance(noisy, wav, torch.tensor([8_000, 16_000]))
    assert distance.tolist() == [0, 0]
    silent = torch.zeros(1, 16_000, requires_grad=True)
    mel_distance(silent, wav[1:], torch.tensor([16_000])).sum().backward()
    assert silent.grad is not None and silent.grad.isfinite().all()
