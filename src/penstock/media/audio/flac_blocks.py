"""Finds the blocks of a FLAC by their headers. Decodes no audio.

The header of a block has its number and a CRC. The last block thus shows where the audio ends. This is compared with
the length in the header of the file, or replaces it if it is missing, as in a file that was piped. The blocks of a crop
can be found and cut out as a short FLAC.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.media.errors import BadMedia

TAIL_BYTES = 1 << 17  # searched: the last block of any common encoder, and tags after it
INFO_BYTES = 42  # the magic and STREAMINFO, which come first in every FLAC
TOTAL = slice(21, 26)  # the bytes of STREAMINFO whose low 36 bits are the number of samples
TOTAL_MASK = (1 << 36) - 1
LAST_METADATA = 0x80
SEARCH_ROUNDS = 64  # a file that needs more is damaged
ONE_SIZE = b"\xff\xf8"  # the first bytes of a block if all blocks but the last have the same size


class FlacExcerpt(NamedTuple):
    """Consecutive blocks of a FLAC as a FLAC of their own, which begins at sample ``start`` of the original."""

    data: bytes
    start: int


def check_flac(data: bytes) -> None:
    """Raise :class:`BadMedia` if the last block does not end where the header says."""
    promised = _total(data)
    last = 0
    for _, end in _last_blocks(data) if promised else ():
        if end == promised:
            return
        last = last or end
    if last:
        raise BadMedia(f"the FLAC is truncated: its header gives {promised} samples, it ends near {last}")


def with_length(data: bytes) -> bytes:
    """Return the FLAC with its number of samples in the header, added if it was missing and can be determined."""
    if _total(data):
        return data
    blocks = list(_last_blocks(data))
    ends = {0, *(end for _, end in blocks)}
    total = next((end for start, end in blocks if start in ends), 0)  # it continues another block: no chance match
    return _info(data, total) + data[INFO_BYTES:]


def cut_out(data: bytes, start: int, stop: int) -> FlacExcerpt:
    """Return the blocks with the samples ``start`` … ``stop``, or the whole FLAC if they are not found."""
    whole = FlacExcerpt(data, 0)
    total = _total(data)
    first = _first_block(data)
    size = int.from_bytes(data[8:10], "big")
    largest = int.from_bytes(data[10:12], "big")
    if not 0 < size == largest or data[first : first + 2] != ONE_SIZE:
        return whole
    count = -(-total // size)
    last = count - 1  # its header may differ, as the block may be shorter: it is never searched for
    here = min(start // size, max(0, last - 1))
    after = -(-stop // size)
    blocks = _BlockFinder(data, data[first : first + 3], first, count)
    low = blocks.find(here)
    high, after = (blocks.find(after), after) if after < last else (len(data), count)
    if low is None or high is None:
        return whole
    info = bytearray(_info(data, min(total, after * size) - here * size))
    info[4] |= LAST_METADATA
    return FlacExcerpt(bytes(info) + data[low:high], here * size)


class _BlockFinder:
    """Finds the offsets of blocks by interpolation between known ones."""

    def __init__(self, data: bytes, beginning: bytes, first: int, count: int) -> None:
        self._data = data
        self._beginning = beginning  # the first bytes of all blocks but the last
        self._first = first
        self._count = count

    def find(self, number: int) -> int | None:
        """Return the offset of a block, or None if it is not found."""
        low = self._first  # offset of block number ``below``
        below = 0
        high = len(self._data)  # no later than the offset of block number ``above``
        above = self._count
        for _ in range(SEARCH_ROUNDS):
            if not (below < number < above and low + 1 < high):
                break
            # Half a block before the likely offset: the next header is then usually the right one.
            guess = int(low + (number - below - 0.5) * (high - low) / (above - below))
            guess = max(low + 1, min(guess, high - 1))
            offset, found = self._next(guess, high)
            if found is None:
                high = guess
            elif found > number:
                high = offset
                above = found
            else:
                low = offset
                below = found
        return low if below == number else None

    def _next(self, at: int, stop: int) -> tuple[int, int | None]:
        """Return the offset of the first header at ``at`` or after it, and the number of its block."""
        while (at := self._data.find(self._beginning, at, stop)) >= 0:
            block = _block(self._data[at : at + 16], 1)
            if block is not None:
                return at, block[0]
            at += 1
        return stop, None


def _total(data: bytes) -> int:
    return int.from_bytes(data[TOTAL], "big") & TOTAL_MASK


def _info(data: bytes, total: int) -> bytes:
    """Return the magic and STREAMINFO with another number of samples."""
    field = int.from_bytes(data[TOTAL], "big") & ~TOTAL_MASK | total
    return data[: TOTAL.start] + field.to_bytes(5, "big") + data[TOTAL.stop : INFO_BYTES]


def _first_block(data: bytes) -> int:
    """Return the offset after all metadata."""
    at = 4
    while at + 4 <= len(data):
        last = data[at] & LAST_METADATA
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        if last:
            break
    return at


def _last_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (first sample, sample after the last) of the blocks in the tail of the file, last block first."""
    size = int.from_bytes(data[8:10], "big")
    at = len(data)
    while (at := data.rfind(b"\xff", max(INFO_BYTES, len(data) - TAIL_BYTES), at)) >= 0:
        block = _block(data[at : at + 16], size)
        if block is not None:
            yield block


def _block(raw: bytes, size: int) -> tuple[int, int] | None:
    """Return (first sample, sample after the last) of a block, or None if ``raw`` is not a header (its CRC-8 decides).

    Args:
        raw: First bytes of the block.
        size: Size of the preceding blocks, if all have the same size.
    """
    there = len(raw)
    raw = raw.ljust(16, b"\0")  # the last block may be shorter than the longest header
    if raw[1] & 0xFE != 0xF8 or raw[3] & 1:
        return None
    number, width = _number(raw[4:11])
    size_code = raw[2] >> 4
    rate_code = raw[2] & 15
    at = 4 + width
    size_bytes = {6: 1, 7: 2}.get(size_code, 0)
    crc_at = at + size_bytes + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if width == 0 or size_code == 0 or crc_at >= there or _crc8(raw[:crc_at]) != raw[crc_at]:
        return None
    if size_bytes:
        samples = int.from_bytes(raw[at : at + size_bytes], "big") + 1
    else:
        samples = 192 if size_code == 1 else 144 << size_code if size_code < 6 else 1 << size_code
    start = number if raw[1] & 1 else number * size  # the number counts samples if sizes vary, else blocks
    return start, start + samples


def _number(raw: bytes) -> tuple[int, int]:
    """Decode FLAC's extended UTF-8. Returns (value, bytes used); 0 bytes if it is not valid."""
    lead = raw[0]
    if lead < 0x80:
        return lead, 1
    width = 8 - (~lead & 0xFF).bit_length()
    if width < 2 or width > 7 or any(byte & 0xC0 != 0x80 for byte in raw[1:width]):
        return 0, 0
    value = lead & (0x7F >> width)
    for byte in raw[1:width]:
        value = value << 6 | byte & 0x3F
    return value, width


def _crc8(raw: bytes) -> int:
    crc = 0
    for byte in raw:
        crc = CRC8[crc ^ byte]
    return crc


def _crc8_of(byte: int) -> int:
    for _ in range(8):
        byte = (byte << 1) ^ (0x107 if byte & 0x80 else 0)
    return byte


CRC8 = [_crc8_of(byte) for byte in range(256)]
