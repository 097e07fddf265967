"""Decodes MP3, Ogg Vorbis, Opus and rare WAVs by libsndfile, which seeks and decodes only what is requested."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

import soundfile

from penstock.media.audio.quiet import quiet
from penstock.media.audio.waveform import Mix, Samples, check_finite, check_header, read_mixed
from penstock.media.errors import BadMedia
from penstock.readers.mp3frames import count_samples

# libsndfile knows thirty formats and guesses; only the documented ones are accepted.
FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3")
MP3_SLACK_FRAMES = 2 * 1152  # decoders differ on whether a damaged first or last frame counts


class SndfileWaveform:
    """A waveform over bytes that libsndfile can decode; use it with ``with``."""

    def __init__(self, data: bytes, mix: Mix) -> None:
        self._mix = mix
        # An Ogg file was checked page by page; what may be an MP3 is opened and read without libmpg123's messages.
        self._quiet: Callable[[], AbstractContextManager[None]] = nullcontext if data.startswith(b"OggS") else quiet
        try:
            with self._quiet():
                self._file = soundfile.SoundFile(_as_file(data))
        except soundfile.LibsndfileError as error:
            raise BadMedia(f"libsndfile cannot open the audio: {error.error_string}") from error
        try:
            self.rate: int = self._file.samplerate
            self.frames: int = self._file.frames
            if self._file.format == "MP3":
                self.frames = min(self.frames, count_samples(data) or self.frames)
            if self._file.format not in FORMATS:
                raise BadMedia(f"the file is {self._file.format}; WAV, FLAC, MP3, Ogg Vorbis and Opus are read")
            check_header(self.rate, self._file.channels, self.frames)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._quiet():
            self._file.close()

    def read(self, start: int, out: Samples) -> int:
        wanted = max(0, min(len(out), self.frames - start))
        try:
            with self._quiet():
                if start:
                    self._file.seek(start)
                count = read_mixed(self._decode, self._file.channels, self._mix, out[:wanted])
        except soundfile.LibsndfileError as error:
            raise BadMedia(f"libsndfile cannot decode the audio at frame {start}: {error.error_string}") from error
        slack = MP3_SLACK_FRAMES if self._file.format == "MP3" else 0
        if count < wanted - slack:
            raise BadMedia(f"the audio is truncated: its header gives {self.frames} frames, it ends at {start + count}")
        if not self._file.subtype.startswith("PCM"):  # integers are finite
            check_finite(out[:count])
        return count

    def _decode(self, frames: Samples) -> int:
        return len(self._file.read(out=frames))


def _as_file(data: bytes) -> int:
    """Return the descriptor of a memfd, which libsndfile reads directly.

    A Python file object would be read through about a hundred callbacks, each of which needs the GIL.
    """
    file = os.memfd_create("penstock-clip")
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
