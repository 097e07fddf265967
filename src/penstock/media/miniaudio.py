"""miniaudio's C functions, without its Python module, which brings an HTTP client and takes 60 ms to import."""

from _miniaudio import ffi, lib

__all__ = ["ffi", "lib"]
