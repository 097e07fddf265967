"""Whether an MP3 is whole. Decodes no audio."""

from penstock.media.errors import BadMedia
from penstock.readers.mp3frames import after_tag, xing_at

SLACK_BYTES = 256  # bytes that may be missing: a trailing tag that was counted and then stripped


def check_mp3(data: bytes) -> None:
    """Raise :class:`BadMedia` if the Xing header counts more bytes than there are."""
    start = after_tag(data)
    at = xing_at(data, start)
    flags = int.from_bytes(data[at + 4 : at + 8], "big") if at >= 0 else 0
    if flags & 2:
        field = at + 8 + (4 if flags & 1 else 0)
        counted = int.from_bytes(data[field : field + 4], "big")
        if start + counted > len(data) + SLACK_BYTES:
            raise BadMedia(f"the MP3 is truncated: its header counts {counted} bytes, it has {len(data) - start}")
