"""A 64-bit hash of many strings at once, to find an item by its id. Part of the file format: it must never change."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BLOCK_ROWS = 65_536  # at a time, so that the arrays stay in the CPU cache

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(31)
_WORD = (1 << 64) - 1
# _MASKS[n] keeps the first n bytes of a little-endian word.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)


def string_buffers(strings: pa.LargeStringArray) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets and the bytes of an array without nulls, as views."""
    _, offsets, data = strings.buffers()
    view = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return view, np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def hash_ids(ids: pa.LargeStringArray) -> NDArray[np.uint64]:
    """Return the hash of every string of an array without nulls."""
    out = np.empty(len(ids), dtype=np.uint64)
    if not len(ids):
        return out
    offsets, data = string_buffers(ids)
    for start in range(0, len(ids), BLOCK_ROWS):
        bounds = offsets[start : start + BLOCK_ROWS + 1]
        out[start : start + BLOCK_ROWS] = _hash_block(data[bounds[0] : bounds[-1]], bounds - bounds[0])
    return out


def hash_id(name: str) -> np.uint64:
    """Return the hash of one string, without the cost of arrays."""
    data = name.encode(errors="surrogateescape")
    state = (len(data) + 1) * int(_PRIME) & _WORD
    for at in range(0, len(data), 8):
        state = _mix_one(state ^ int.from_bytes(data[at : at + 8], "little"))
    return np.uint64(_mix_one(state))


def _hash_block(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    padded = np.zeros(len(data) + 8, dtype=np.uint8)
    padded[: len(data)] = data
    # words[i] is the 8 bytes from byte i on: overlapping, unaligned.
    words: NDArray[np.uint64] = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    lengths = np.diff(offsets)
    state = (lengths.astype(np.uint64) + np.uint64(1)) * _PRIME
    rows = np.flatnonzero(lengths > 0)
    at = 0
    while len(rows):
        left = lengths[rows] - at
        word = words[offsets[rows] + at] & _MASKS[np.minimum(left, 8)]
        state[rows] = _mix(state[rows] ^ word)
        at += 8
        rows = rows[left > 8]
    return _mix(state)


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> _SHIFT)) * _MIX
    return (state ^ (state >> _SHIFT)) * _PRIME


def _mix_one(state: int) -> int:
    state = (state ^ (state >> 31)) * 0xBF58476D1CE4E5B9 & _WORD
    return (state ^ (state >> 31)) * 0x9E3779B97F4A7C15 & _WORD
