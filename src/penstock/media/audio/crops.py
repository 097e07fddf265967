"""The crops of a batch, row by row. Knows no shard. Clips of plain 16-bit PCM are converted together, at the end.

Clips in local files are converted zero-copy from the memory map. All others are read as they are and converted in one
call: fewer calls mean fewer switches of the GIL between threads that make batches at the same time.
"""

import os
import threading

import numpy as np

from penstock.media.audio.clip import crop_start, read_crop
from penstock.media.audio.wav import PLAIN, PLAIN_HEAD_BYTES, convert_16, plain_frames
from penstock.media.audio.waveform import Mix, Samples
from penstock.media.errors import BadMedia
from penstock.media.span import ByteSpan, MappedSpan
from penstock.store.local import CopyBuffer


class Crops:
    """The crops of a batch. Rows are filled in any order; a row that is never read is silence of length 0.

    Args:
        wav: Array to fill, shape (B, n).
        mix: Channel to use: the first, or the mean of all.

    Attributes:
        wav: Crops, shape (B, n), complete after ``finish``.
        length: Number of samples before the padding, shape (B,).
    """

    def __init__(self, wav: Samples, mix: Mix) -> None:
        self.wav = wav
        self._mix = mix
        self.length = np.zeros(len(wav), np.int64)
        self._staged = np.zeros(len(wav), bool)
        self._noted: list[tuple[int, MappedSpan, int, memoryview]] = []
        self._in_place: list[tuple[int, memoryview]] = []
        self._buffers = _crop_buffers(*wav.shape)

    def read(self, row: int, span: MappedSpan, draw: int) -> None:
        """Fill a row with a crop. A local file is only noted: ``settle`` fills all such rows.

        Raises:
            BadMedia: If the clip cannot be decoded. The row can then be filled with another clip.
        """
        if span.size <= PLAIN_HEAD_BYTES:
            self._decode(row, span, draw)
        elif (whole := span.in_place()) is not None:
            self._noted.append((row, span, draw, whole))
        else:
            buffers = self._buffers
            span.readinto(buffers.head, 0)
            frames = plain_frames(PLAIN.unpack(buffers.head), span.size)
            if not frames:
                return self._decode(row, span, draw)
            offset, length = self._crop(draw, frames)
            at = row * self.wav.shape[1]
            span.readinto(buffers.bytes[2 * at : 2 * (at + length)], offset)
            buffers.pcm[row, length:] = 0
            self._staged[row] = True
            self.length[row] = length

    def settle(self) -> dict[int, BadMedia]:
        """Fill the rows of local files.

        Returns:
            Errors of clips that cannot be decoded, by row. Their rows can be filled with other clips.
        """
        bad = {}
        noted = self._noted
        self._noted = []
        copied = self._buffers.heads
        copied.put([whole[:PLAIN_HEAD_BYTES] for *_, whole in noted])
        heads = PLAIN.iter_unpack(copied.memory[: len(noted) * PLAIN_HEAD_BYTES])
        for (row, span, draw, whole), head in zip(noted, heads, strict=True):
            if frames := plain_frames(head, len(whole)):
                offset, length = self._crop(draw, frames)
                self._in_place.append((row, whole[offset : offset + 2 * length]))
                self.length[row] = length
                continue
            try:
                self._decode(row, span, draw)
            except BadMedia as error:
                bad[row] = BadMedia(str(error))  # without the traceback, which keeps the whole batch alive
        return bad

    def _crop(self, draw: int, frames: int) -> tuple[int, int]:
        """Return where the crop of a plain clip begins, in bytes, and how many samples it has."""
        samples = self.wav.shape[1]
        return PLAIN_HEAD_BYTES + 2 * crop_start(draw, frames, samples), min(frames, samples)

    def _decode(self, row: int, span: ByteSpan, draw: int) -> None:
        self.length[row] = read_crop(span, draw, self.wav[row], self._mix)

    def finish(self) -> None:
        """Convert all clips of plain PCM, and fill rows that were never read with zeros."""
        from penstock.media.audio.miniaudio import rows_to_floats  # an extra, which opening a run does not need

        rows_to_floats(self._in_place, self.wav)
        samples = self.wav.shape[1]
        for row, piece in self._in_place:
            if len(piece) < 2 * samples:
                self.wav[row, len(piece) // 2 :] = 0.0
        if self._staged.all():
            convert_16(self._buffers.pcm, self.wav)
            return
        for row in np.flatnonzero(self._staged).tolist():
            convert_16(self._buffers.pcm[row], self.wav[row])
        self.wav[self.length == 0] = 0.0


class _CropBuffers:
    """Buffers for the samples of a batch as they are in their files, and for the first bytes of the files."""

    def __init__(self, rows: int, samples: int) -> None:
        self.pcm = np.zeros((rows, samples), np.dtype("<i2"))
        self.bytes = self.pcm.data.cast("B") if self.pcm.size else memoryview(b"")
        self.heads = CopyBuffer(rows * PLAIN_HEAD_BYTES)
        self.head = memoryview(bytearray(PLAIN_HEAD_BYTES))


_of_this_thread = threading.local()
# A CopyBuffer is shared memory: not for a child.
os.register_at_fork(after_in_child=lambda: _of_this_thread.__dict__.clear())


def _crop_buffers(rows: int, samples: int) -> _CropBuffers:
    """Return the buffers of this thread: a thread makes one batch at a time."""
    kept: _CropBuffers | None = getattr(_of_this_thread, "buffers", None)
    if kept is None or kept.pcm.shape != (rows, samples):
        kept = _CropBuffers(rows, samples)
        _of_this_thread.buffers = kept
    return kept
