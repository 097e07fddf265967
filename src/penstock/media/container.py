"""Files with video or sound, opened by FFmpeg (PyAV) within limits. Knows neither frames nor samples.

FFmpeg guesses the format of a file. Some formats, such as playlists, list other files and URLs, which it then opens.
Only formats that contain their data are allowed, and no protocol.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import av
from av.container import InputContainer

from penstock.media.errors import BadMedia

FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,aac"  # as FFmpeg names them
OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "none"}
UNKNOWN_SIZE = 0x7FFF_0000  # sizes from here on: the writer did not know the size
MAX_BOXES = 100_000  # boxes of an MP4 file to follow
BOXES = {b"ftyp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"mfra", b"sidx", b"styp", b"uuid", b"meta"}


@contextmanager
def open_container(data: bytes) -> Iterator[InputContainer]:
    """Open a file in memory. FFmpeg's errors inside of the block become :class:`BadMedia`.

    Raises:
        BadMedia: If it is not an MP4, MOV, MKV, WebM, AVI or AAC file, or is truncated.
    """
    if not data:
        raise BadMedia("the file is empty")
    check_whole(data)
    try:
        # Titles and names are not used, so their encoding does not matter.
        with av.open(BytesIO(data), "r", options=OPTIONS, metadata_errors="replace") as container:
            yield container
    except BadMedia:
        raise
    except (av.FFmpegError, EOFError, ValueError, OverflowError) as error:
        raise BadMedia(f"FFmpeg cannot read the file: {error}") from error


def check_whole(data: bytes) -> None:
    """Raise :class:`BadMedia` if the file is known to be truncated. Decoders would return what there is."""
    end = 0
    if data[4:8] in BOXES:
        end = _end_of_boxes(data)
    elif data.startswith(b"RIFF"):
        size = int.from_bytes(data[4:8], "little")
        end = 8 + size if size < UNKNOWN_SIZE else 0
    elif data.startswith(b"\x1aE\xdf\xa3"):
        end = _end_of_segment(data)
    if end > len(data):
        raise BadMedia(f"the file is truncated: it has {len(data):,} of its {end:,} bytes")


def _end_of_boxes(data: bytes) -> int:
    """Return the end of the last box of an MP4 or MOV file: size 4 | kind 4 | size 8 if the first one is 1 | …"""
    at = 0
    for _ in range(MAX_BOXES):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if data[at + 4 : at + 8] not in BOXES or size < 8:  # something was appended; 0: to the end of the file
            break
        at += size
    return at


def _end_of_segment(data: bytes) -> int:
    """Return the end of a Matroska file's segment, which holds all but a header; 0 if it is not given."""
    at = _element(data, 0)[1]
    kind = data[at : at + 4]
    start, end = _element(data, at)
    unknown = end - start == (1 << (7 * (start - at - 4))) - 1  # all bits set: written live
    return end if kind == b"\x18S\x80g" and not unknown else 0


def _element(data: bytes, at: int) -> tuple[int, int]:
    """Return start and end of the content of a Matroska element with an identifier of 4 bytes."""
    at += 4
    first = data[at] if at < len(data) else 0x80
    width = 9 - first.bit_length()  # of the size: one byte more per leading 0 bit
    size = int.from_bytes(data[at : at + width], "big") & ((1 << (7 * width)) - 1)
    return at + width, at + width + size
