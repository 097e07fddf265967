"""The length of an MP3, from its Xing header or by counting its frames. Decodes no audio.

Without that header, a decoder estimates the length from the bit rate of the first frame and the size of the file. The
estimate is slightly wrong, or wrong by half if the bit rate varies. Frames are counted instead: one jump per frame,
about 40 per second of audio.
"""

from functools import cache

HEAD_BYTES = 4_096  # bytes after a tag that hold the start of the first frame and its Xing header

KBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),  # MPEG 1
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),  # MPEG 2
    0: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),  # MPEG 2.5
}
RATES = {3: (44_100, 48_000, 32_000, 0), 2: (22_050, 24_000, 16_000, 0), 0: (11_025, 12_000, 8_000, 0)}


def mp3_seconds(data: bytes) -> float | None:
    """Return the duration of a Layer III file, or None if it has no frames.

    Args:
        data: The whole file.
    """
    start = after_tag(data)
    at = _first_frame(data, start)
    if at < 0:
        return None
    version = data[at + 1] >> 3 & 3
    rate = RATES[version][data[at + 2] >> 2 & 3]
    samples = count_samples(data)
    if samples is None:
        samples = _declared_samples(data, xing_at(data, start), _frame_samples(version))
    return samples / rate if samples and rate else None


def _declared_samples(data: bytes, at: int, in_frame: int) -> int | None:
    """Return the samples that the Xing header at ``at`` counts, without those that the encoder has added."""
    flags = int.from_bytes(data[at + 4 : at + 8], "big") if at >= 0 else 0
    if not flags & 1:
        return None
    frames = int.from_bytes(data[at + 8 : at + 12], "big")
    after = at + 8 + sum(size for bit, size in ((1, 4), (2, 4), (4, 100), (8, 4)) if flags & bit)
    added = 0
    if data[after : after + 4] in (b"LAME", b"Lavf", b"Lavc"):
        packed = int.from_bytes(data[after + 21 : after + 24], "big")
        added = (packed >> 12) + (packed & 0xFFF)
    return max(0, frames * in_frame - added)


def count_samples(data: bytes) -> int | None:
    """Count the samples of a Layer III file without a Xing or VBRI header.

    Returns:
        Samples per channel, or None for any other file: its decoder knows the length.
    """
    start = after_tag(data)
    at = _first_frame(data, start)
    if at < 0 or xing_at(data, start) >= 0 or data.find(b"VBRI", start, start + HEAD_BYTES) >= 0:
        return None
    lead = data[at + 1] & 0xFE  # version and layer; the lowest bit only says whether a CRC follows
    sizes = _frame_sizes(lead >> 3 & 3)
    frames = 0
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] & 0xFE == lead:
        size = sizes[data[at + 2]]
        if not size or at + size > len(data):
            break
        frames += 1
        at += size
    return frames * _frame_samples(lead >> 3 & 3)


def _frame_samples(version: int) -> int:
    return 1_152 if version == 3 else 576


def after_tag(data: bytes) -> int:
    """Return where the first frame may begin: after an ID3 tag."""
    if not data.startswith(b"ID3") or len(data) < 10:
        return 0
    return 10 + (data[6] << 21 | data[7] << 14 | data[8] << 7 | data[9])


def xing_at(data: bytes, start: int) -> int:
    """Return the offset of the Xing header, or −1."""
    return max(data.find(b"Xing", start, start + HEAD_BYTES), data.find(b"Info", start, start + HEAD_BYTES))


def _first_frame(data: bytes, start: int) -> int:
    """Return the offset of the first Layer III frame that is followed by another one, or −1."""
    at = start - 1
    while (at := data.find(b"\xff", at + 1, start + HEAD_BYTES)) >= 0 and at + 4 <= len(data):
        version = data[at + 1] >> 3 & 3
        layer = data[at + 1] >> 1 & 3
        if data[at + 1] >= 0xE0 and version != 1 and layer == 1:
            following = at + _frame_sizes(version)[data[at + 2]]
            if following > at and data[following : following + 2] == data[at : at + 2]:
                return at
    return -1


@cache
def _frame_sizes(version: int) -> list[int]:
    """Return the size of a Layer III frame by the third byte of its header (bit rate, sample rate, padding).

    0 means that the byte is not valid.
    """
    slots = 144_000 if version == 3 else 72_000
    sizes = []
    for byte in range(256):
        kbits = KBITS[version][byte >> 4]
        rate = RATES[version][byte >> 2 & 3]
        sizes.append(slots * kbits // rate + (byte >> 1 & 1) if kbits and rate else 0)
    return sizes
