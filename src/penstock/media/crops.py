"""The crops of a batch, row by row. Clips of plain 16-bit PCM are converted when all are there.

Those of a local file are converted where they lie. All others are read as they are and converted all at once: the fewer
calls, the fewer times do threads that make batches side by side hand each other the interpreter's lock.
"""

import os
import threading

import numpy as np

from penstock.media.audio import crop_start, read_crop
from penstock.media.errors import BadMedia
from penstock.media.miniaudio import rows_to_floats
from penstock.media.span import Span, in_place
from penstock.media.wav import PLAIN, PLAIN_HEAD, convert_16, plain_frames
from penstock.media.waveform import Mix, Samples
from penstock.store.tray import Tray


class Crops:
    """``wav`` [B, n], filled in any order and complete after ``finish``; ``length`` [B]: samples before the padding.

    A row that is never read is silence of length 0.
    """

    def __init__(self, wav: Samples, mix: Mix) -> None:
        self.wav, self._mix = wav, mix
        self.length = np.zeros(len(wav), np.int64)
        self._staged = np.zeros(len(wav), bool)
        self._noted: list[tuple[int, Span, int, memoryview]] = []
        self._in_place: list[tuple[int, memoryview]] = []
        self._scratch = _scratch(*wav.shape)

    def read(self, row: int, span: Span, draw: int) -> None:
        """Fill a row with a crop, or raise :class:`BadMedia`; the row can then be filled with another clip.

        A local file is only noted: ``settle`` then fills all such rows.
        """
        if span.size <= PLAIN_HEAD:
            self._decode(row, span, draw)
        elif (whole := in_place(span)) is not None:
            self._noted.append((row, span, draw, whole))
        else:
            scratch, samples = self._scratch, self.wav.shape[1]
            span.readinto(scratch.head, 0)
            frames = plain_frames(PLAIN.unpack(scratch.head), span.size)
            if not frames:
                return self._decode(row, span, draw)
            at, (offset, length) = row * samples, self._crop(row, draw, frames)
            span.readinto(scratch.bytes[2 * at : 2 * (at + length)], offset)
            scratch.pcm[row, length:] = 0
            self._staged[row] = True

    def settle(self) -> dict[int, BadMedia]:
        """Fill the rows of local files. Returns what is wrong with some, by row; they can be filled with others."""
        bad, noted, tray = {}, self._noted, self._scratch.heads
        self._noted = []
        tray.put([whole[:PLAIN_HEAD] for *_, whole in noted])
        heads = PLAIN.iter_unpack(tray.memory[: len(noted) * PLAIN_HEAD])
        for (row, span, draw, whole), head in zip(noted, heads, strict=True):
            if frames := plain_frames(head, len(whole)):
                offset, length = self._crop(row, draw, frames)
                self._in_place.append((row, whole[offset : offset + 2 * length]))
                continue
            try:
                self._decode(row, span, draw)
            except BadMedia as error:
                bad[row] = BadMedia(str(error))  # without its frames, which hold the whole batch
        return bad

    def _crop(self, row: int, draw: int, frames: int) -> tuple[int, int]:
        """Where the crop of a plain clip begins, in bytes, and how many samples it has."""
        samples = self.wav.shape[1]
        length = self.length[row] = min(frames, samples)
        return PLAIN_HEAD + 2 * crop_start(draw, frames, samples), length

    def _decode(self, row: int, span: Span, draw: int) -> None:
        self.length[row] = read_crop(span, draw, self.wav[row], self._mix)

    def finish(self) -> None:
        rows_to_floats(self._in_place, self.wav)
        samples = self.wav.shape[1]
        for row, piece in self._in_place:
            if len(piece) < 2 * samples:
                self.wav[row, len(piece) // 2 :] = 0.0
        if self._staged.all():
            convert_16(self._scratch.pcm, self.wav)
            return
        for row in np.flatnonzero(self._staged).tolist():
            convert_16(self._scratch.pcm[row], self.wav[row])
        self.wav[self.length == 0] = 0.0


class _Scratch:
    """Room for the samples of a batch as they lie in their files, and for the files' heads."""

    def __init__(self, rows: int, samples: int) -> None:
        self.pcm = np.zeros((rows, samples), np.dtype("<i2"))
        self.bytes = self.pcm.data.cast("B") if self.pcm.size else memoryview(b"")
        self.heads = Tray(rows * PLAIN_HEAD)
        self.head = memoryview(bytearray(PLAIN_HEAD))


_of_this_thread = threading.local()
os.register_at_fork(after_in_child=lambda: _of_this_thread.__dict__.clear())  # a tray is shared, a child makes its own


def _scratch(rows: int, samples: int) -> _Scratch:
    """The same for every batch that a thread makes: it makes one at a time."""
    kept: _Scratch | None = getattr(_of_this_thread, "scratch", None)
    if kept is None or kept.pcm.shape != (rows, samples):
        kept = _of_this_thread.scratch = _Scratch(rows, samples)
    return kept
