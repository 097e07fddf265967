"""Whether a compressed file is truncated, from a few of its bytes. Decodes no audio.

A crop from the intact first half of a truncated file would decode without an error. What is cheap to check is checked:
FLAC numbers its frames, an Ogg page has a length, the Xing header of an MP3 counts the bytes. An MP3 without that
header has no length, and an Ogg that is cut between two pages is a valid shorter Ogg: these are accepted.
"""

from penstock.media.errors import BadMedia
from penstock.media.flac import check_flac
from penstock.media.mp3 import check_mp3

OGG_PAGE = b"OggS\x00"  # the first bytes of a page
LONGEST_OGG_PAGE = 65_307  # bytes


def check_complete(data: bytes) -> None:
    """Raise :class:`BadMedia` if the end of a FLAC, Ogg or MP3 file is known to be missing."""
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
    if not whole or (end < len(data) and OGG_PAGE.startswith(data[end:])):  # or part of another page follows
        raise BadMedia(f"the Ogg file is truncated: its last page ends after the {len(data)} bytes of the file")
