import io

import pytest
import soundfile

from penstock.media.audio.clip import read_whole
from penstock.media.audio.flac_blocks import check_flac, with_length
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import encode, voice


def piped(data: bytes) -> bytes:
    """As an encoder leaves it that cannot seek back: the number of samples is 0."""
    return data[:21] + bytes([data[21] & 0xF0]) + bytes(4) + data[26:]


@pytest.mark.parametrize("seconds", [0.01, 0.3, 1, 8, 40])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_the_last_block_tells_the_length_of_a_piped_file(seconds: float, rate: int) -> None:
    data = encode(voice(rate, seconds), rate, "FLAC")
    assert with_length(piped(data)) == data == with_length(data)


def test_what_comes_after_the_audio_is_no_block() -> None:
    data = encode(voice(16_000, 3), 16_000, "FLAC")
    check_flac(data + b"TAG" + bytes(125))
    tagged = with_length(piped(data) + b"TAG" + bytes(125))
    assert soundfile.info(io.BytesIO(tagged)).frames == 48_000


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_cut_file_is_told_by_its_block_numbers(share: float) -> None:
    data = encode(voice(16_000, 8), 16_000, "FLAC")
    with pytest.raises(BadMedia, match="gives 128000 samples, it ends near"):
        check_flac(data[: int(share * len(data))])


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("frames", [1, 4_097, 8_192, 8_193, 16_000])
def test_a_last_block_of_a_few_bytes_counts(frames: int, channels: int, subtype: str) -> None:
    sound = voice(16_000, frames / 16_000, channels)
    sound[frames // 2 :] = 0.0  # digital silence takes next to nothing
    data = encode(sound, 16_000, "FLAC", subtype)
    check_flac(data)
    assert with_length(piped(data)) == data
    assert len(read_whole(InMemory(piped(data)))) == frames
