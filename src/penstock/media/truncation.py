"""Is the end of a compressed file there? A look at its tail; the audio itself is not decoded.

A crop from the sound first half of a cut file would decode well and hide the damage. What can be told from a few
bytes is told: FLAC numbers its frames, an Ogg page says how long it is, an MP3's Xing header counts the bytes. An MP3
without one carries no length, and an Ogg cut between two pages is a shorter Ogg: these pass, as every player has it.
"""

from penstock.media.errors import BadMedia

OGG_PAGE = 65_307  # the longest page there can be
FLAC_TAIL = 1 << 17  # holds a last frame of any usual encoder, and tags after it
XING_WITHIN = 4_096
MP3_SLACK = 4_096  # encoders count the first frame, tags and padding differently


def check_complete(data: bytes) -> None:
    """Raise :class:`BadMedia` where the end of a FLAC, Ogg or MP3 file is known to be missing."""
    if data.startswith(b"fLaC"):
        _check_flac(data)
    elif data.startswith(b"OggS"):
        _check_ogg(data)
    else:
        _check_xing(data)


def _check_flac(data: bytes) -> None:
    promised = int.from_bytes(data[21:26], "big") & (1 << 36) - 1
    block = int.from_bytes(data[8:10], "big")
    ends = []
    at = len(data)
    while promised and (at := data.rfind(b"\xff", max(42, len(data) - FLAC_TAIL), at)) >= 0:
        end = _flac_frame_end(data[at : at + 16], block)
        if end == promised:
            return
        if end is not None:
            ends.append(end)
    if ends:
        raise BadMedia(f"the FLAC is truncated: its header promises {promised} samples, its last frame is at {ends[0]}")


def _flac_frame_end(raw: bytes, block: int) -> int | None:
    """The number of the sample after this frame, or None where no frame header starts (its CRC-8 decides)."""
    if len(raw) < 16 or raw[1] & 0xFE != 0xF8 or raw[3] & 1:
        return None
    number, width = _flac_number(raw[4:11])
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
    return start + size


def _flac_number(raw: bytes) -> tuple[int, int]:
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


def _check_ogg(data: bytes) -> None:
    at = data.rfind(b"OggS\x00", max(0, len(data) - OGG_PAGE))
    if at < 0:
        return
    segments = data[at + 27 : at + 27 + data[at + 26]] if at + 27 <= len(data) else b""
    end = at + 27 + len(segments) + sum(segments)
    if at + 27 > len(data) or len(segments) < data[at + 26] or end > len(data):
        raise BadMedia(f"the Ogg file is truncated: its last page runs past the file's {len(data)} bytes")


def _check_xing(data: bytes) -> None:
    start = 0
    if data.startswith(b"ID3") and len(data) >= 10:
        start = 10 + (data[6] << 21 | data[7] << 14 | data[8] << 7 | data[9])
    head = data[start : start + XING_WITHIN]
    at = max(head.find(b"Xing"), head.find(b"Info"))
    if at < 0 or len(head) < at + 16:
        return
    flags = int.from_bytes(head[at + 4 : at + 8], "big")
    if flags & 2:
        counted_at = at + 8 + (4 if flags & 1 else 0)
        counted = int.from_bytes(head[counted_at : counted_at + 4], "big")
        if start + counted > len(data) + MP3_SLACK:
            raise BadMedia(f"the MP3 is truncated: its header counts {counted} bytes, {len(data) - start} are there")
