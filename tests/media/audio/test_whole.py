"""Whole clips, for evaluation: all of a file, and no more than an hour of it."""

from pathlib import Path

import numpy as np
import pytest

from penstock.media.audio.clip import MAX_CLIP_SAMPLES, read_whole
from penstock.media.audio.resample import TOLERANCE
from penstock.media.audio.waveform import RATE
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from tests.media.audio.clips import REAL, encode, voice, whole


@pytest.mark.parametrize("path", [path for path in REAL if path.suffix != ".mp3"], ids=lambda path: path.name)
def test_a_real_file_is_what_a_full_decode_gives(path: Path) -> None:
    np.testing.assert_allclose(read_whole(InMemory(path.read_bytes())), whole(path.read_bytes()), atol=TOLERANCE)


def test_an_mp3_is_whole_up_to_what_decoders_differ_on() -> None:
    for path in (path for path in REAL if path.suffix == ".mp3"):
        found, expected = read_whole(InMemory(path.read_bytes())), whole(path.read_bytes())
        assert abs(len(found) - len(expected)) <= 2 * 1152
        both = min(len(found), len(expected)) - 1152
        np.testing.assert_allclose(found[:both], expected[:both], atol=TOLERANCE)


def test_channels_can_be_averaged() -> None:
    frames = voice(RATE, 0.5, channels=2)
    found = read_whole(InMemory(encode(frames, RATE, subtype="FLOAT")), "mean")
    np.testing.assert_allclose(found, frames.mean(axis=1), atol=1e-6)


def test_more_than_an_hour_is_refused_before_memory_is_taken_for_it() -> None:
    seconds = MAX_CLIP_SAMPLES // RATE + 1
    clip = encode(np.zeros((1000 * seconds, 1), np.float32), 1000, subtype="PCM_U8")
    with pytest.raises(BadMedia, match=r"lasts 3,601 s; up to 3,600 s are read whole"):
        read_whole(InMemory(clip))
