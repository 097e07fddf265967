"""Decodes FLAC by dr_flac, in two thirds of libsndfile's time and zero-copy. Knows no crop.

Only the blocks that hold the requested samples are decoded.
"""

from types import TracebackType
from typing import Self

import numpy as np

from penstock.media.audio.flac_blocks import cut_out, with_length
from penstock.media.audio.miniaudio import ffi, lib
from penstock.media.audio.waveform import Mix, Samples, check_header, read_mixed
from penstock.media.errors import BadMedia

MAX_SKIPPED_SAMPLES = 1 << 16  # most samples decoded at a time to be discarded


class FlacWaveform:
    """A waveform over the bytes of a FLAC."""

    def __init__(self, data: bytes, mix: Mix) -> None:
        self._data = with_length(data)
        self._mix = mix
        with _FlacDecoder(self._data) as decoder:
            self.rate = decoder.rate
            self._channels = decoder.channels
            self.frames = decoder.frames
        check_header(self.rate, self._channels, self.frames)

    def read(self, start: int, out: Samples) -> int:
        wanted = max(0, min(len(out), self.frames - start))
        cut = cut_out(self._data, start, start + wanted)
        with _FlacDecoder(cut.data) as decoder:
            before = decoder.skip(start - cut.start)
            count = read_mixed(decoder.read, self._channels, self._mix, out[:wanted])
            done = before + count + decoder.skip(decoder.frames - before - count)
            # dr_flac leaves out a block whose checksum is wrong, and later blocks then come too early.
            if count < wanted or done < decoder.frames:
                reason = f"only {done} of {decoder.frames} frames from {cut.start} on can be decoded"
                raise BadMedia(f"the FLAC is damaged or truncated: {reason}")
        return wanted


class _FlacDecoder:
    """dr_flac, opened at the beginning of a FLAC."""

    def __init__(self, data: bytes) -> None:
        self._bytes = ffi.from_buffer(data)  # keeps them alive: dr_flac does not copy
        self._flac = lib.ma_dr_flac_open_memory(self._bytes, len(data), ffi.NULL)
        if not self._flac:
            raise BadMedia("the FLAC cannot be opened: its header is damaged")
        self.rate: int = self._flac.sampleRate
        self.channels: int = self._flac.channels
        self.frames: int = self._flac.totalPCMFrameCount

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        lib.ma_dr_flac_close(self._flac)

    def read(self, frames: Samples) -> int:
        """Fill an array of shape (n, channels) with the next frames. Returns their number."""
        floats = ffi.from_buffer("float[]", frames, require_writable=True)
        count: int = lib.ma_dr_flac_read_pcm_frames_f32(self._flac, len(frames), floats)
        return count

    def skip(self, frames: int) -> int:
        """Decode and discard the next frames. Returns their number."""
        scratch = np.empty((max(1, min(frames, MAX_SKIPPED_SAMPLES // self.channels)), self.channels), np.float32)
        done = 0
        while done < frames and (count := self.read(scratch[: frames - done])):
            done += count
        return done
