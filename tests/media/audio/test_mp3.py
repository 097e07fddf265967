import io

import pytest
import soundfile

from penstock.media.span import InMemory
from penstock.readers.mp3frames import count_samples
from tests.media.audio.clips import REAL, clip_length, encode, voice

COMMON_VOICE = next(path for path in REAL if path.name.startswith("common_voice")).read_bytes()


def without_xing(data: bytes) -> bytes:
    """The same stream from its second frame on: the first one only holds the header."""
    first = data.index(b"Info" if b"Info" in data[:200] else b"Xing")
    return data[data.index(data[:2], first) :]


def test_a_real_file_without_a_length_has_the_samples_that_decoding_gives() -> None:
    decoded, rate = soundfile.read(io.BytesIO(COMMON_VOICE))
    assert soundfile.info(io.BytesIO(COMMON_VOICE)).frames != len(decoded)  # the decoder's own guess
    assert count_samples(COMMON_VOICE) == len(decoded)
    assert clip_length(InMemory(COMMON_VOICE)) == len(decoded) * 16_000 // rate


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_frames_are_counted_at_every_rate(rate: int, channels: int) -> None:
    data = without_xing(encode(voice(rate, 4, channels), rate, "MP3", "MPEG_LAYER_III"))
    samples = count_samples(data)
    frame = 1_152 if rate >= 32_000 else 576
    assert samples is not None and samples % frame == 0
    assert 0 <= samples - 4 * rate <= 4 * frame


def test_a_tag_before_and_after_the_audio_is_not_counted() -> None:
    tag = b"ID3\x04\0\0\0\0\x02\0" + b"\xff" * 256
    assert count_samples(tag + COMMON_VOICE + b"TAG" + bytes(125)) == count_samples(COMMON_VOICE)


def test_with_a_xing_header_the_decoder_is_believed() -> None:
    data = encode(voice(16_000, 2), 16_000, "MP3", "MPEG_LAYER_III")
    assert count_samples(data) is None
    assert clip_length(InMemory(data)) == 32_000


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xfb", b"\xff" * 5_000, bytes(range(256)) * 40])
def test_what_has_no_frames_has_no_count(data: bytes) -> None:
    assert count_samples(data) is None
