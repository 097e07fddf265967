"""Where the blocks of a FLAC lie, from their headers. Decodes no audio.

A block's header carries its number and a CRC. So the last one tells where the audio ends: whether that is where the
file promises it to be, or, for a file that was piped and promises nothing, where it is. And the blocks that a crop is
in can be found and cut out, as a short FLAC of their own.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.media.errors import BadMedia

TAIL = 1 << 17  # bytes looked at: holds the last block of any usual encoder, and tags after it
INFO = 42  # bytes: the magic and STREAMINFO, which come first in every FLAC
TOTAL = slice(21, 26)  # those of them whose low 36 bits are the number of samples
TOTAL_MASK = (1 << 36) - 1
LAST_METADATA = 0x80
ROUNDS = 64  # of search: a file that takes more is damaged
ONE_SIZE = b"\xff\xf8"  # how a block starts where all but the last have one size


class Cut(NamedTuple):
    """Some neighbouring blocks of a FLAC, as a FLAC that begins with sample ``start`` of the whole."""

    data: bytes
    start: int


def check_flac(data: bytes) -> None:
    """Raise :class:`BadMedia` where the last blocks are not those that the header promises."""
    promised = _total(data)
    last = 0
    for _, end in _last_blocks(data) if promised else ():
        if end == promised:
            return
        last = last or end
    if last:
        raise BadMedia(f"the FLAC is truncated: its header promises {promised} samples, it ends near {last}")


def with_length(data: bytes) -> bytes:
    """The same FLAC with its number of samples in the header, if that was left open and can be told."""
    if _total(data):
        return data
    blocks = list(_last_blocks(data))
    ends = {0, *(end for _, end in blocks)}
    total = next((end for start, end in blocks if start in ends), 0)  # joined to a block before it: no chance match
    return _info(data, total) + data[INFO:]


def cut_out(data: bytes, start: int, stop: int) -> Cut:
    """The blocks with the samples ``start`` … ``stop``; the whole where they are not found."""
    whole, total, first = Cut(data, 0), _total(data), _first_block(data)
    size, largest = int.from_bytes(data[8:10], "big"), int.from_bytes(data[10:12], "big")
    if not 0 < size == largest or data[first : first + 2] != ONE_SIZE:
        return whole
    count = -(-total // size)
    last = count - 1  # looks different, as it may be shorter, and is never searched for
    here, after = min(start // size, max(0, last - 1)), -(-stop // size)
    places = _Places(data, data[first : first + 3], first, count)
    low = places.find(here)
    high, after = (places.find(after), after) if after < last else (len(data), count)
    if low is None or high is None:
        return whole
    info = bytearray(_info(data, min(total, after * size) - here * size))
    info[4] |= LAST_METADATA
    return Cut(bytes(info) + data[low:high], here * size)


class _Places:
    """Where blocks start: guessed in proportion, between those that are known."""

    def __init__(self, data: bytes, beginning: bytes, first: int, count: int) -> None:
        self._data, self._beginning = data, beginning  # of the first block, and of all but the last
        self._first, self._count = first, count

    def find(self, number: int) -> int | None:
        """The offset of a block, or None where it is not found."""
        low, below = self._first, 0
        high, above = len(self._data), self._count
        for _ in range(ROUNDS):
            if not (below < number < above and low + 1 < high):
                break
            # Half a block before the likely place: the next header is then the right one more often than not.
            guess = int(low + (number - below - 0.5) * (high - low) / (above - below))
            guess = max(low + 1, min(guess, high - 1))
            offset, found = self._next(guess, high)
            if found is None:
                high = guess
            elif found > number:
                high, above = offset, found
            else:
                low, below = offset, found
        return low if below == number else None

    def _next(self, at: int, stop: int) -> tuple[int, int | None]:
        """The first header that starts at ``at`` or after it, and its block's number."""
        while (at := self._data.find(self._beginning, at, stop)) >= 0:
            block = _block(self._data[at : at + 16], 1)
            if block is not None:
                return at, block[0]
            at += 1
        return stop, None


def _total(data: bytes) -> int:
    return int.from_bytes(data[TOTAL], "big") & TOTAL_MASK


def _info(data: bytes, total: int) -> bytes:
    """The magic and STREAMINFO with another number of samples."""
    field = int.from_bytes(data[TOTAL], "big") & ~TOTAL_MASK | total
    return data[: TOTAL.start] + field.to_bytes(5, "big") + data[TOTAL.stop : INFO]


def _first_block(data: bytes) -> int:
    """The offset after all metadata."""
    at = 4
    while at + 4 <= len(data):
        last, at = data[at] & LAST_METADATA, at + 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        if last:
            break
    return at


def _last_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """(first sample, sample after the last) of the blocks that start in the file's tail, last block first."""
    size = int.from_bytes(data[8:10], "big")
    at = len(data)
    while (at := data.rfind(b"\xff", max(INFO, len(data) - TAIL), at)) >= 0:
        block = _block(data[at : at + 16], size)
        if block is not None:
            yield block


def _block(raw: bytes, size: int) -> tuple[int, int] | None:
    """The samples of the block that starts here, or None where no header starts (its CRC-8 decides).

    ``size`` is that of the blocks before it, where all have one.
    """
    there, raw = len(raw), raw.ljust(16, b"\0")  # the last block may be shorter than the longest header
    if raw[1] & 0xFE != 0xF8 or raw[3] & 1:
        return None
    number, width = _number(raw[4:11])
    size_code, rate_code = raw[2] >> 4, raw[2] & 15
    at = 4 + width
    size_bytes = {6: 1, 7: 2}.get(size_code, 0)
    crc_at = at + size_bytes + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if width == 0 or size_code == 0 or crc_at >= there or _crc8(raw[:crc_at]) != raw[crc_at]:
        return None
    if size_bytes:
        samples = int.from_bytes(raw[at : at + size_bytes], "big") + 1
    else:
        samples = 192 if size_code == 1 else 144 << size_code if size_code < 6 else 1 << size_code
    start = number if raw[1] & 1 else number * size  # blocks of any size count samples, others count blocks
    return start, start + samples


def _number(raw: bytes) -> tuple[int, int]:
    """FLAC's longer UTF-8: (value, bytes used); 0 bytes where it is not one."""
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
