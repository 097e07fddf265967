"""miniaudio's C functions, without its Python module, which brings an HTTP client and takes 60 ms to import."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from _miniaudio import ffi, lib
from numpy.typing import NDArray

__all__ = ["ffi", "lib", "rows_to_floats", "to_floats"]

_buffer, _convert = ffi.from_buffer, lib.ma_pcm_convert
_FROM, _TO, _NO_DITHER = lib.ma_format_s16, lib.ma_format_f32, lib.ma_dither_mode_none


def to_floats(samples: Any, out: Any, count: int) -> None:
    """16-bit samples in one buffer to floats in another, in one pass and half of numpy's time."""
    _convert(_buffer(out, require_writable=True), _TO, _buffer(samples), _FROM, count, _NO_DITHER)


def rows_to_floats(pieces: Iterable[tuple[int, memoryview]], out: NDArray[np.float32]) -> None:
    """16-bit samples, each piece to the beginning of its row."""
    first, width = _buffer("float[]", out, require_writable=True), out.shape[1]
    for row, piece in pieces:
        _convert(first + row * width, _TO, _buffer(piece), _FROM, len(piece) // 2, _NO_DITHER)
