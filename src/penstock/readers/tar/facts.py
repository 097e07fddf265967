"""The source and the duration of a sample, from the first bytes of its files. Knows no shard; pure functions."""

import struct
from reprlib import repr as shortened

from penstock.runtime.jsontext import load_json

HEAD_BYTES = 4_096  # of a sound file, enough for its header
TAIL_BYTES = 65_536  # of an Ogg file, at least its last page
_OPUS_RATE = 48_000  # of Opus positions, whatever the rate of the recording
_RIFF = (b"RIFF", b"RF64")
_UNKNOWN_LENGTH = 0xFFFFFFFF


def parse_json(data: bytes) -> tuple[str | None, float | None]:
    """Return ``language`` and ``duration`` of a sample's .json; None for a key that is missing.

    Raises:
        ValueError: If the data is not JSON, or a value has the wrong type.
    """
    value = load_json(data)
    if not isinstance(value, dict):
        return None, None
    language = value.get("language")
    duration = value.get("duration")
    if language is not None and (not isinstance(language, str) or not language):
        raise ValueError(f"language is {shortened(language)}, not a name")
    if duration is not None and (isinstance(duration, bool) or not isinstance(duration, int | float)):
        raise ValueError(f"duration is {shortened(duration)}, not a number of seconds")
    try:
        return language, None if duration is None else float(duration)
    except OverflowError:
        raise ValueError("duration is a number with hundreds of digits, not a number of seconds") from None


def wav_seconds(head: bytes, size: int) -> float | None:
    """Return the duration of a WAV file, or None if its header does not give it.

    Args:
        head: First bytes of the file.
        size: Size of the file, in bytes.
    """
    if head[:4] not in _RIFF or head[8:12] != b"WAVE":
        return None
    at = 12
    rate = 0  # bytes per second
    while at + 8 <= len(head):
        name, length = struct.unpack_from("<4sI", head, at)
        if name == b"fmt " and at + 20 <= len(head):
            (rate,) = struct.unpack_from("<I", head, at + 16)
        if name == b"data":
            # A writer that cannot seek back leaves 0 or all ones: the data then ends with the file.
            held = size - at - 8
            return (held if length in (0, _UNKNOWN_LENGTH) else min(length, held)) / rate if rate else None
        at += 8 + length + length % 2
    return None


def flac_seconds(head: bytes) -> float | None:
    """Return the duration of a FLAC file, or None if its header does not give it.

    Args:
        head: First bytes of the file.
    """
    if head[:4] != b"fLaC" or len(head) < 26 or head[4] & 0x7F:  # the first block is STREAMINFO, type 0
        return None
    (bits,) = struct.unpack_from(">Q", head, 18)  # rate: 20 bits, channels: 3, width: 5, samples: 36
    rate = bits >> 44
    samples = bits & ((1 << 36) - 1)
    return samples / rate if rate and samples else None


def ogg_seconds(head: bytes, tail: bytes) -> float | None:
    """Return the duration of an Ogg file with Vorbis or Opus, or None if its pages do not give it.

    Args:
        head: First bytes of the file.
        tail: Last bytes of the file.
    """
    last = tail.rfind(b"OggS")
    if head[:4] != b"OggS" or last < 0 or len(tail) < last + 14 or len(head) < 48:
        return None
    packet = 27 + head[26]  # after the page header and its table of segments
    (position,) = struct.unpack_from("<q", tail, last + 6)
    if head[packet : packet + 8] == b"OpusHead":
        (skipped,) = struct.unpack_from("<H", head, packet + 10)
        rate = _OPUS_RATE
    elif head[packet : packet + 7] == b"\x01vorbis":
        (rate,) = struct.unpack_from("<I", head, packet + 12)
        skipped = 0
    else:
        return None
    samples = position - skipped
    return samples / rate if rate and samples > 0 and head[14:18] == tail[last + 14 : last + 18] else None
