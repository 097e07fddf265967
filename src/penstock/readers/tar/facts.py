"""What a sample says about itself: its source and its duration, from the first bytes of its files. Pure."""

import json
import struct

_RIFF = (b"RIFF", b"RF64")
_ENDLESS = 0xFFFFFFFF


def parse_json(data: bytes) -> tuple[str | None, float | None]:
    """``language`` and ``duration`` of a sample's .json, where present. Raises ValueError where they make no sense."""
    value = json.loads(data)
    if not isinstance(value, dict):
        return None, None
    language, duration = value.get("language"), value.get("duration")
    if language is not None and (not isinstance(language, str) or not language):
        raise ValueError(f"language is {language!r}, not a name")
    if duration is not None and (isinstance(duration, bool) or not isinstance(duration, int | float)):
        raise ValueError(f"duration is {duration!r}, not a number of seconds")
    return language, None if duration is None else float(duration)


def wav_seconds(head: bytes, size: int) -> float | None:
    """The duration of a WAV file of ``size`` bytes from its first bytes, or None if they do not tell."""
    if head[:4] not in _RIFF or head[8:12] != b"WAVE":
        return None
    at, rate = 12, 0
    while at + 8 <= len(head):
        name, length = struct.unpack_from("<4sI", head, at)
        if name == b"fmt " and at + 20 <= len(head):
            (rate,) = struct.unpack_from("<I", head, at + 16)
        if name == b"data":
            # A writer that could not go back to fill the length in leaves 0 or all ones: the file's end counts.
            held = size - at - 8
            return (held if length in (0, _ENDLESS) else min(length, held)) / rate if rate else None
        at += 8 + length + length % 2
    return None
