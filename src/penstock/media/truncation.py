"""Is the end of a compressed file there? A look at a few bytes; the audio itself is not decoded.

A crop from the sound first half of a cut file would decode well and hide the damage. What can be told cheaply is told:
FLAC numbers its frames, an Ogg page says how long it is, an MP3's Xing header counts the bytes. An MP3 without one
carries no length, and an Ogg cut between two pages is a shorter Ogg: these pass, as every player has it.
"""

from penstock.media.errors import BadMedia
from penstock.media.flac import check_flac
from penstock.media.mp3 import check_mp3

OGG_PAGE = b"OggS\x00"  # how one starts
LONGEST_OGG_PAGE = 65_307


def check_complete(data: bytes) -> None:
    """Raise :class:`BadMedia` where the end of a FLAC, Ogg or MP3 file is known to be missing."""
    if data.startswith(b"fLaC"):
        check_flac(data)
    elif data.startswith(b"OggS"):
        _check_ogg(data)
    else:
        check_mp3(data)


def _check_ogg(data: bytes) -> None:
    at = data.rfind(OGG_PAGE, max(0, len(data) - LONGEST_OGG_PAGE))
    if at < 0:
        return
    header = data[at : at + 27]
    segments = data[at + 27 : at + 27 + header[26]] if len(header) == 27 else b""
    end = at + 27 + len(segments) + sum(segments)
    whole = len(header) == 27 and len(segments) == header[26] and end <= len(data)
    if not whole or (end < len(data) and OGG_PAGE.startswith(data[end:])):  # nor the first bytes of another page
        raise BadMedia(f"the Ogg file is truncated: its last page runs past the file's {len(data)} bytes")
