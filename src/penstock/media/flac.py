"""The length of a FLAC, from the frames at its end. Decodes no audio.

A frame's header carries its number and a CRC, so the last one tells where the audio ends: whether that is where the
file promises it to be, or, for a file that was piped and promises nothing, where it is.
"""

from collections.abc import Iterator

from penstock.media.errors import BadMedia

TAIL = 1 << 17  # bytes looked at: holds the last frame of any usual encoder, and tags after it
FIRST_FRAME = 42  # none can start before: the magic and STREAMINFO come first
TOTAL = slice(21, 26)  # bytes of STREAMINFO whose low 36 bits are the number of samples
TOTAL_MASK = (1 << 36) - 1


def check_flac(data: bytes) -> None:
    """Raise :class:`BadMedia` where the last frames are not those that the header promises."""
    promised = int.from_bytes(data[TOTAL], "big") & TOTAL_MASK
    last = 0
    for _, end in _last_frames(data) if promised else ():
        if end == promised:
            return
        last = last or end
    if last:
        raise BadMedia(f"the FLAC is truncated: its header promises {promised} samples, it ends near {last}")


def with_length(data: bytes) -> bytes:
    """The same FLAC with its number of samples in the header, if that was left open and can be told."""
    field = int.from_bytes(data[TOTAL], "big")
    if field & TOTAL_MASK:
        return data
    frames = list(_last_frames(data))
    ends = {0, *(end for _, end in frames)}
    total = next((end for start, end in frames if start in ends), 0)  # joined to a frame before it: no chance match
    return data[: TOTAL.start] + (field | total).to_bytes(5, "big") + data[TOTAL.stop :]


def _last_frames(data: bytes) -> Iterator[tuple[int, int]]:
    """(first sample, sample after the last) of the frames that start in the file's tail, last frame first."""
    block = int.from_bytes(data[8:10], "big")
    at = len(data)
    while (at := data.rfind(b"\xff", max(FIRST_FRAME, len(data) - TAIL), at)) >= 0:
        frame = _frame(data[at : at + 16], block)
        if frame is not None:
            yield frame


def _frame(raw: bytes, block: int) -> tuple[int, int] | None:
    """The samples of the frame that starts here, or None where no frame header starts (its CRC-8 decides)."""
    if len(raw) < 16 or raw[1] & 0xFE != 0xF8 or raw[3] & 1:
        return None
    number, width = _number(raw[4:11])
    size_code, rate_code = raw[2] >> 4, raw[2] & 15
    at = 4 + width
    size_bytes = {6: 1, 7: 2}.get(size_code, 0)
    crc_at = at + size_bytes + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if width == 0 or size_code == 0 or crc_at >= 16 or _crc8(raw[:crc_at]) != raw[crc_at]:
        return None
    if size_bytes:
        size = int.from_bytes(raw[at : at + size_bytes], "big") + 1
    else:
        size = 192 if size_code == 1 else 144 << size_code if size_code < 6 else 1 << size_code
    start = number if raw[1] & 1 else number * block  # variable blocks count samples, fixed blocks count frames
    return start, start + size


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
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ (0x107 if crc & 0x80 else 0)
    return crc
