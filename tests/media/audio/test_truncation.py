import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.audio.clip import check_complete, read_crop
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import REAL, encode, voice

FILES = {
    name: encode(voice(16_000, 8), 16_000, form, subtype)
    for name, form, subtype in [
        ("wav", "WAV", "PCM_16"),
        ("mu-law wav", "WAV", "ULAW"),
        ("flac", "FLAC", "PCM_16"),
        ("mp3", "MP3", "MPEG_LAYER_III"),
        ("vorbis", "OGG", "VORBIS"),
        ("opus", "OGG", "OPUS"),
    ]
}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.floats(0.001, 0.97), st.integers(0, 2**64 - 1))
def test_a_truncated_file_is_refused_wherever_the_crop_falls(name: str, share: float, draw: int) -> None:
    data = FILES[name]
    with pytest.raises(BadMedia):
        read_crop(InMemory(data[: int(share * len(data))]), draw, np.empty(4_000, np.float32))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_whole_files_pass(path) -> None:  # type: ignore[no-untyped-def]
    check_complete(path.read_bytes())


def test_an_mp3_without_a_length_passes_as_the_shorter_clip_it_has_become() -> None:
    data = next(path for path in REAL if path.name.startswith("common_voice")).read_bytes()
    out = np.empty(96_000, np.float32)
    assert read_crop(InMemory(data[: len(data) // 2]), 0, out) < read_crop(InMemory(data), 0, out)
