"""Whether a compressed file is truncated. Decodes no audio.

A crop from the intact first half of a truncated file would decode without an error. What is cheap to check is checked:
FLAC numbers its frames, Ogg its pages, the Xing header of an MP3 counts the bytes. An MP3 without that header has no
length and is accepted.
"""

from penstock.media.audio.flac_blocks import check_flac
from penstock.media.audio.mp3 import check_mp3
from penstock.media.audio.ogg import check_ogg


def check_complete(data: bytes) -> None:
    """Raise :class:`BadMedia` if the end of a FLAC or MP3 file is known to be missing, or a page of an Ogg file."""
    if data.startswith(b"fLaC"):
        check_flac(data)
    elif data.startswith(b"OggS"):
        check_ogg(data)
    else:
        check_mp3(data)
