"""Checks that an Ogg file (Vorbis, Opus) is complete and undamaged, by its pages. Decodes no audio.

A decoder skips missing and damaged pages and silently returns a shorter clip. Therefore all pages are checked:
their checksums, their numbers, the mark on the last one, and the sample counts (granule positions) that they claim.

    page   OggS 0 flags | granule 8 | serial 4 | number 4 | checksum 4 | n | n segment lengths | segments
"""

import struct
import zlib
from dataclasses import dataclass

from penstock.media.errors import BadMedia

HEADER = struct.Struct("<4sBBqIIIB")
CHECKSUM_AT = 22
NO_PACKET_ENDS = -1  # the granule position of a page in the middle of a long packet
FIRST_PAGE_FLAG = 2
LAST_PAGE_FLAG = 4
MAX_OPUS_PACKET_SAMPLES = 5760  # 120 ms at 48 kHz
# The checksum is a CRC-32 that takes the highest bit first, zlib's takes the lowest: bits are reversed byte by byte.
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(slots=True)
class _LogicalStream:
    """State of one logical stream after some of its pages."""

    longest_packet: int  # samples; 0 if the codec is not known
    pages: int = 0
    granule: int = 0
    unplaced: int = 0  # packets that ended since the last granule position
    ended: bool = False


def check_ogg(data: bytes) -> None:
    """Raise :class:`BadMedia` if a page is damaged or missing, or claims samples that the file cannot hold."""
    bits = memoryview(data.translate(REVERSED))
    streams: dict[int, _LogicalStream] = {}
    at = 0
    while data.startswith(b"OggS\0", at):
        at = _check_page(data, bits, at, streams)
    if not streams or any(not stream.ended for stream in streams.values()):
        what = "is truncated: its last page is missing" if at == len(data) else f"is damaged at byte {at}"
        raise BadMedia(f"the Ogg file {what}")
    if at < len(data) and b"OggS\0".startswith(data[at : at + 5]):  # the first bytes of another stream
        raise _cut(len(data))


def _check_page(data: bytes, bits: memoryview, at: int, streams: dict[int, _LogicalStream]) -> int:
    """Check the page at ``at`` and return where the next one starts."""
    body: int = at + HEADER.size
    if body > len(data):
        raise _cut(len(data))
    _, _, flags, granule, serial, number, checksum, segments = HEADER.unpack_from(data, at)
    lengths = data[body : body + segments]
    end: int = body + segments + sum(lengths)
    if len(lengths) < segments or end > len(data):
        raise _cut(len(data))
    if _checksum(bits[at:end]) != checksum:
        raise BadMedia(f"the Ogg file is damaged: the page at byte {at} does not match its checksum")
    if flags & FIRST_PAGE_FLAG:
        streams[serial] = _LogicalStream(_longest_packet(data[body + segments : end]))
    stream = streams.get(serial)
    if stream is None or stream.ended or number != stream.pages:
        raise BadMedia(f"the Ogg file is damaged: pages are missing before byte {at}")
    stream.pages += 1
    stream.ended = bool(flags & LAST_PAGE_FLAG)
    stream.unplaced += segments - lengths.count(255)
    if granule != NO_PACKET_ENDS:
        _check_granule(stream, granule, at)
    return end


def _check_granule(stream: _LogicalStream, granule: int, at: int) -> None:
    most = stream.granule + stream.unplaced * stream.longest_packet
    begins = stream.granule == 0 and not stream.ended  # a clip that was cut from a longer stream begins anywhere
    if granule < stream.granule or (stream.longest_packet and granule > most and not begins):
        raise BadMedia(
            f"the Ogg file is damaged: the page at byte {at} ends at sample {granule}, which its packets cannot hold"
        )
    stream.granule = granule
    stream.unplaced = 0


def _longest_packet(identification: bytes) -> int:
    """Return the most samples per packet, from the first packet of a stream; 0 for another codec."""
    if identification.startswith(b"\x01vorbis") and len(identification) >= 30:
        return (1 << (identification[28] >> 4)) // 2
    return MAX_OPUS_PACKET_SAMPLES if identification.startswith(b"OpusHead") else 0


def _checksum(page: memoryview) -> int:
    """Return the checksum of a page with reversed bits. Its checksum field counts as zeros."""
    crc = zlib.crc32(page[:CHECKSUM_AT], 0xFFFFFFFF)
    crc = zlib.crc32(bytes(4), crc)
    crc = zlib.crc32(page[CHECKSUM_AT + 4 :], crc) ^ 0xFFFFFFFF
    return int.from_bytes(crc.to_bytes(4, "little").translate(REVERSED), "big")


def _cut(size: int) -> BadMedia:
    return BadMedia(f"the Ogg file is truncated: its last page ends after the {size} bytes of the file")
