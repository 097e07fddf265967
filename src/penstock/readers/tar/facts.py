"""The source and the duration of a sample, from the first bytes of its files. Knows no shard; pure functions."""

import struct
from reprlib import repr as shortened

from penstock.runtime.jsontext import load_json

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
