"""miniaudio's C functions, without its Python module, which imports an HTTP client and takes 60 ms to load."""

from collections.abc import Iterable

import numpy as np
from _miniaudio import ffi, lib
from numpy.typing import NDArray

__all__ = ["ffi", "lib", "rows_to_floats", "to_floats"]

_buffer = ffi.from_buffer
_convert = lib.ma_pcm_convert
_FROM = lib.ma_format_s16
_TO = lib.ma_format_f32
_NO_DITHER = lib.ma_dither_mode_none


def to_floats(samples: NDArray[np.integer], out: NDArray[np.float32], count: int) -> None:
    """Convert 16-bit samples in one buffer to floats in another, in one pass and in half of numpy's time."""
    _convert(_buffer(out, require_writable=True), _TO, _buffer(samples), _FROM, count, _NO_DITHER)


def rows_to_floats(pieces: Iterable[tuple[int, memoryview]], out: NDArray[np.float32]) -> None:
    """Convert 16-bit samples to floats, each piece to the beginning of its row of ``out``."""
    first = _buffer("float[]", out, require_writable=True)
    width = out.shape[1]
    for row, piece in pieces:
        _convert(first + row * width, _TO, _buffer(piece), _FROM, len(piece) // 2, _NO_DITHER)
