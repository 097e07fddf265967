"""Decodes with torchcodec instead of PyAV, to the same pixels. It opens files, so decoders are kept per clip."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.video.batch import Wanted, read_verified
from penstock.media.video.idle import IdleDecoders
from penstock.readers.errors import first_line
from penstock.readers.mp4.clip import Clip, pieces
from penstock.readers.rangedfile import RangedFile
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange


class TorchcodecDecoders(IdleDecoders[Clip, Any]):
    """Open videos by clip. See ``IdleDecoders``."""

    def decode(self, wanted: Sequence[Wanted], threads: int, executor: Executor) -> dict[int, str]:
        """Decode the frames of a batch; see ``batch.decode``."""
        by_clip: defaultdict[Clip, list[Wanted]] = defaultdict(list)
        for each in wanted:
            by_clip[each.clip].append(each)
        clips = list(by_clip.values())
        others = [executor.submit(self._decode_all, clips[number::threads]) for number in range(1, threads)]
        bad = self._decode_all(clips[::threads])
        for other in others:
            bad |= other.result()
        return bad

    def _decode_all(self, clips: Sequence[list[Wanted]]) -> dict[int, str]:
        bad: dict[int, str] = {}
        for wanted in clips:
            try:
                self._decode(wanted)
            except BadMedia:
                bad |= self._decode_singly(wanted)
        return bad

    def _decode_singly(self, wanted: list[Wanted]) -> dict[int, str]:
        """Decode each sample alone: whether it is bad must not depend on the rest of the batch."""
        bad: dict[int, str] = {}
        for each in wanted:
            try:
                self._decode([each])
            except BadMedia as error:
                bad[each.sample] = f"{each.file}: {error}"
        return bad

    def _decode(self, wanted: list[Wanted]) -> None:
        clip = wanted[0].clip
        numbers = np.unique(np.concatenate([each.numbers for each in wanted]))
        if clip.checksums is not None:  # the only way to notice damage: torchcodec does not report it
            for piece, _ in pieces(clip.starts, numbers.tolist()):
                read_verified(clip, wanted[0].ranges, piece)
        seconds = dict(zip(clip.shown.tolist(), clip.seconds.tolist(), strict=True))
        decoder = self._take(clip, wanted[0].ranges)
        try:
            times = np.array([seconds[number] for number in numbers.tolist()])
            played = decoder.get_frames_played_at((times + _AFTER_SECONDS).tolist())
        except (RuntimeError, ValueError, IndexError) as error:
            raise BadMedia(f"a frame can't be decoded: {first_line(error)}") from None
        _check_times(times, played.pts_seconds.numpy())
        frames = played.data
        place_of = {number: place for place, number in enumerate(numbers.tolist())}
        for each in wanted:
            for number, place in zip(each.numbers.tolist(), each.out, strict=True):
                each.sink.write(_TorchcodecFrame(frames[place_of[number]]), place)
        self._keep([(clip, decoder)])

    def _take(self, clip: Clip, ranges: Ranges) -> Any:
        from torchcodec.decoders import VideoDecoder

        idle = self._take_idle(clip)
        if idle is not None:
            return idle
        try:
            return VideoDecoder(_ClipFile(clip, ranges), seek_mode="approximate", num_ffmpeg_threads=1)
        except (RuntimeError, ValueError) as error:
            raise BadMedia(f"can't be opened: {first_line(error)}") from None


_AFTER_SECONDS = 1e-6  # a frame is played from its time on; rounding must not find the one before
_MAX_DIFFERENCE_SECONDS = 1e-3


def _check_times(wanted: NDArray[np.float64], returned: NDArray[np.float64]) -> None:
    """Raise if a wrong frame was returned: for a frame that FFmpeg skips, torchcodec returns the next one."""
    is_other = np.abs(returned - wanted) > _MAX_DIFFERENCE_SECONDS
    if is_other.any():
        at = int(is_other.argmax())
        raise BadMedia(
            f"torchcodec returned the frame at {returned[at]:.4f} s in place of that at {wanted[at]:.4f} s: it is "
            "damaged, or in front of the key frame of an open group; for those use decoder: pyav"
        )


class _TorchcodecFrame:
    """A frame of torchcodec; see ``sinks.Frame``."""

    def __init__(self, pixels: Any) -> None:
        self._pixels = pixels

    def rgb(self) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self._pixels.permute(1, 2, 0).numpy()
        return found

    def codes(self) -> NDArray[np.uint16]:
        raise BadMedia("torchcodec returns 8 bits per pixel; depth cameras need decoder: pyav")


class _ClipFile(RangedFile):
    """A video file of which only the header, one clip and the bytes after it are read; the rest is zeros."""

    def __init__(self, clip: Clip, ranges: Ranges) -> None:
        super().__init__(clip.file_size)
        self._clip = clip
        self._ranges = ranges

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.at + size)
        start = self.at
        unit = next((unit for unit in self._units() if unit[0] <= start < unit[1]), None)
        if unit is None:  # read ahead, and never decoded; an end of the file here would end the decoder
            after = min((first for first, _ in self._units() if first > start), default=end)
            self.at = min(end, after)
            return bytes(self.at - start)
        self.at = min(end, unit[1])
        return bytes(self._ranges.read(self._clip.path, unit, self.size, start, self.at))

    def _units(self) -> list[ByteRange]:
        """Return the ranges to read: those of the clip, the next one, and what lies before and after all frames.

        FFmpeg returns the last frame of a clip only after it has seen some of the next one.
        """
        first, after = self._clip.frames_range
        return [(0, first), *self._clip.units, *self._clip.following, (after, self._clip.file_size)]
