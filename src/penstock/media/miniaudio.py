"""miniaudio's C functions, without its Python module, which brings an HTTP client and takes 60 ms to import."""

from typing import Any

from _miniaudio import ffi, lib

__all__ = ["ffi", "lib", "to_floats"]

_buffer, _convert = ffi.from_buffer, lib.ma_pcm_convert
_FROM, _TO, _NO_DITHER = lib.ma_format_s16, lib.ma_format_f32, lib.ma_dither_mode_none


def to_floats(samples: Any, out: Any, count: int) -> None:
    """16-bit samples in one buffer to floats in another, in one pass and half of numpy's time."""
    _convert(_buffer(out, require_writable=True), _TO, _buffer(samples), _FROM, count, _NO_DITHER)
