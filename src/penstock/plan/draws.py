"""Randomness as a function: the same key gives the same words on every machine and with every numpy version.

Only integer operations and sorting of distinct values are used. The high-level methods of a numpy generator may change
between releases, but the order of a run must not.
"""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT_1, _FACTOR_1, _SHIFT_2, _FACTOR_2, _SHIFT_3 = map(
    np.uint64, (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31)
)
_RANDOM_BITS = 40  # of each word: the sort key of a permutation. The other 24 bits hold the index
_INDEX_BITS = 64 - _RANDOM_BITS
_NO_RANK = np.uint64(0)
_MIN_ROW = 256  # words per run of equal sizes, from which on sorting rows pays


def key(*parts: int | str) -> int:
    """Return a 64-bit key for (seed, purpose, names, indices …).

    The length of each part is hashed too, so ("ab", "c") and ("a", "bc") give different keys.
    """
    digest = blake2b(digest_size=8)
    for part in parts:
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little")


def words(keys: int | Words, indices: npt.NDArray[np.integer] | Words) -> Words:
    """Return one uniform 64-bit word for every (key, index): splitmix64 as a counter hash. Broadcasts."""
    # Integer overflow warns for a scalar but not for an array.
    base = keys if isinstance(keys, np.ndarray) else np.array([keys], dtype=np.uint64)
    x: Words = indices.astype(np.uint64, copy=False) * _GOLDEN + (base + _GOLDEN)
    x ^= x >> _SHIFT_1
    x *= _FACTOR_1
    x ^= x >> _SHIFT_2
    x *= _FACTOR_2
    x ^= x >> _SHIFT_3
    return x


def permutations(keys: Words, sizes: Ints) -> Ints:
    """Return a permutation of range(size) for every key, concatenated.

    A permutation is the order of the top 40 bits of its words, with ties broken by index. Key rank, those 40 bits and
    the index are packed into one word and sorted as values. The words are distinct, so every sorting algorithm gives
    the same order; this is ten times faster than a stable argsort.

    Args:
        keys: One key per permutation.
        sizes: Size of each permutation.

    Raises:
        ValueError: If a permutation has more than 2**24 elements.
    """
    rank_bits = (len(sizes) - 1).bit_length()
    index_bits = int(sizes.max(initial=1) - 1).bit_length()
    if rank_bits + index_bits > _INDEX_BITS and len(sizes) > 1:
        half = len(sizes) // 2
        return np.concatenate([permutations(keys[:half], sizes[:half]), permutations(keys[half:], sizes[half:])])
    index = ranges(sizes).astype(np.uint64)
    ranks = np.arange(len(sizes), dtype=np.uint64) << np.uint64(_RANDOM_BITS + index_bits)
    return _order(words(np.repeat(keys, sizes), index), index, index_bits, np.repeat(ranks, sizes), sizes)


def permutation(seed: int, size: int) -> Ints:
    """Return the permutation of range(size) for one key."""
    index = np.arange(size, dtype=np.uint64)
    return _order(words(seed, index), index, (max(size, 1) - 1).bit_length(), _NO_RANK, np.array([size]))


def _order(packed: Words, index: Words, index_bits: int, ranks: Words | np.uint64, sizes: Ints) -> Ints:
    """Return the indices in the order of their random words. Overwrites ``packed``, the random words."""
    if index_bits > _INDEX_BITS:
        raise ValueError(f"a permutation of {len(index)} elements; at most {1 << _INDEX_BITS} are supported")
    packed >>= np.uint64(_INDEX_BITS)
    packed <<= np.uint64(index_bits)
    packed |= index
    packed |= ranks
    _sort(packed, sizes)
    packed &= np.uint64((1 << index_bits) - 1)
    return packed.view(np.int64)


def _sort(packed: Words, sizes: Ints) -> None:
    """Sort words in place that are in the order of their permutations already.

    Rows of one length are sorted four times as fast as all words at once: 0.5 ms instead of 2.2 for 128 times 500.
    """
    changes = np.flatnonzero(np.diff(sizes)) + 1
    if len(packed) < _MIN_ROW * (len(changes) + 1):
        packed.sort()
        return
    first = 0
    for run in np.split(sizes, changes):
        after = first + int(run.sum())
        packed[first:after].reshape(len(run), -1).sort(axis=1)
        first = after


def inverse(order: Ints) -> Ints:
    """Return the inverse of a permutation."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


def ranges(sizes: Ints) -> Ints:
    """Return range(size) for every size, concatenated: [2, 3] -> 0 1 0 1 2."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
