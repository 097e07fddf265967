"""The rows of a batch are what each clip gives alone, however they are read."""

import gc
import os
import random
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.media.audio.clip import read_crop
from penstock.media.audio.crops import Crops, _crop_buffers
from penstock.media.audio.wav import PLAIN_HEAD_BYTES
from penstock.media.errors import BadMedia
from penstock.media.span import ByteSpan, InMemory, Slice
from penstock.store.local import LocalStore
from tests.media.audio.clips import Counted, encode, voice

SAMPLES = 16_000


def batch(rows: int) -> Crops:
    return Crops(np.full((rows, SAMPLES), np.nan, np.float32), "first")


def alone(data: bytes, draw: int) -> tuple[NDArray[np.float32], int]:
    row = np.empty(SAMPLES, np.float32)
    return row, read_crop(InMemory(data), draw, row)


PLAIN = encode(voice(16_000, 2.5), 16_000)
SHORT = encode(voice(16_000, 0.3, seed=1), 16_000)
OTHERS = [
    encode(voice(16_000, 2, channels=2), 16_000),
    encode(voice(16_000, 2), 16_000, subtype="PCM_24"),
    encode(voice(24_000, 2), 24_000),
    encode(voice(16_000, 2), 16_000, "FLAC"),
    PLAIN[:12] + b"LIST" + (4).to_bytes(4, "little") + b"abcd" + PLAIN[12:],
]


def in_a_file(clips: list[bytes], folder: Path) -> list[ByteSpan]:
    """The clips one behind the other in a local file, as in a tar."""
    (folder / "clips").write_bytes(b"".join(clips))
    blob = LocalStore(folder).open("clips")
    ends = np.cumsum([len(clip) for clip in clips]).tolist()
    return [Slice(blob, end - len(clip), len(clip)) for clip, end in zip(clips, ends, strict=True)]


@pytest.mark.parametrize("local", [False, True], ids=["read", "in place"])
@pytest.mark.parametrize("clips", [[PLAIN, SHORT, PLAIN], [SHORT, *OTHERS, PLAIN]], ids=["plain", "mixed"])
def test_every_row_is_what_the_clip_gives_alone(clips: list[bytes], local: bool, tmp_path: Path) -> None:
    spans = in_a_file(clips, tmp_path) if local else [InMemory(clip) for clip in clips]
    for seed in range(3):  # the scratch of the last batch is used again
        rng = random.Random(seed)
        crops, order = batch(len(clips)), list(range(len(clips)))
        draws = [rng.getrandbits(64) for _ in clips]
        rng.shuffle(order)
        for row in order:
            crops.read(row, spans[row], draws[row])
        assert not crops.settle()
        crops.finish()
        for row, clip in enumerate(clips):
            expected, length = alone(clip, draws[row])
            assert np.array_equal(crops.wav[row], expected)
            assert crops.length[row] == length


def test_only_the_head_and_the_crop_of_a_plain_clip_are_read() -> None:
    span = Counted(PLAIN)
    batch(1).read(0, span, 2**63)
    assert span.bytes_read == PLAIN_HEAD_BYTES + 2 * SAMPLES


def test_a_row_that_is_never_read_is_silence_of_length_0() -> None:
    for _ in range(2):
        crops = batch(3)
        crops.read(1, InMemory(PLAIN), 7)
        crops.finish()
        assert crops.length.tolist() == [0, SAMPLES, 0]
        assert not crops.wav[[0, 2]].any() and crops.wav[1].any()


@pytest.mark.parametrize("other", [SHORT, OTHERS[-2]], ids=["plain", "decoded"])
def test_a_row_can_be_read_again_after_a_bad_clip(other: bytes) -> None:
    crops = batch(2)
    crops.read(0, InMemory(PLAIN), 1)
    for bad in (PLAIN[:1_000], b"", b"no audio at all" * 10):
        with pytest.raises(BadMedia):
            crops.read(1, InMemory(bad), 2)
    crops.read(1, InMemory(other), 3)
    crops.finish()
    assert np.array_equal(crops.wav[1], alone(other, 3)[0])
    assert np.array_equal(crops.wav[0], alone(PLAIN, 1)[0])


def test_a_batch_of_no_rows_is_nothing() -> None:
    empty = Crops(np.empty((0, SAMPLES), np.float32), "first")
    empty.finish()
    assert empty.wav.shape == (0, SAMPLES)


def test_a_local_file_and_the_rest_of_the_world_can_be_in_one_batch(tmp_path: Path) -> None:
    crops = batch(4)
    local = in_a_file([SHORT, PLAIN], tmp_path)
    for row, span in ((0, local[0]), (1, InMemory(PLAIN)), (3, local[1])):
        crops.read(row, span, row)
    assert not crops.settle()
    crops.finish()
    assert crops.length.tolist() == [4_800, SAMPLES, 0, SAMPLES]
    for row, clip in ((0, SHORT), (1, PLAIN), (3, PLAIN)):
        assert np.array_equal(crops.wav[row], alone(clip, row)[0])
    assert not crops.wav[2].any()


def test_bad_local_files_are_told_of_together_and_their_rows_can_be_read_again(tmp_path: Path) -> None:
    crops = batch(4)
    clips = [PLAIN, b"no audio at all" * 10, SHORT, PLAIN[:1_000]]
    for row, span in enumerate(in_a_file(clips, tmp_path)):
        crops.read(row, span, row)
    assert {row: type(error) for row, error in crops.settle().items()} == {1: BadMedia, 3: BadMedia}
    (tmp_path / "others").mkdir()
    [other] = in_a_file([OTHERS[-1]], tmp_path / "others")
    for row in (1, 3):
        crops.read(row, other, row)
    assert not crops.settle()
    crops.finish()
    for row, clip in enumerate((PLAIN, OTHERS[-1], SHORT, OTHERS[-1])):
        assert np.array_equal(crops.wav[row], alone(clip, row)[0])


def test_a_local_file_that_was_cut_is_an_error_and_no_crash(tmp_path: Path) -> None:
    crops = batch(2)
    spans = in_a_file([PLAIN, PLAIN], tmp_path)
    for row, span in enumerate(spans):
        crops.read(row, span, row)
    os.truncate(tmp_path / "clips", len(PLAIN) - 40_000)
    with pytest.raises(EOFError, match="was truncated"):
        crops.settle()


def test_a_forked_child_does_not_write_into_its_parents_scratch() -> None:
    ours = _crop_buffers(1, SAMPLES).heads.memory
    ours[:] = b"a" * PLAIN_HEAD_BYTES
    child = os.fork()
    if not child:
        _crop_buffers(1, SAMPLES).heads.memory[:] = b"b" * PLAIN_HEAD_BYTES
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert ours == b"a" * PLAIN_HEAD_BYTES


def test_what_is_wrong_with_a_clip_does_not_keep_the_batch(tmp_path: Path) -> None:
    crops = batch(2)
    for row, span in enumerate(in_a_file([PLAIN, b"no audio at all" * 10], tmp_path)):
        crops.read(row, span, row)
    gc.disable()
    try:
        bad, alive = crops.settle(), weakref.ref(crops)
        del crops
        assert list(bad) == [1] and alive() is None
    finally:
        gc.enable()
