"""What FFmpeg must not open. Some of its formats are lists of other files and URLs."""

from pathlib import Path

import pytest

from penstock.media.container import check_whole, open_container
from penstock.media.errors import BadMedia
from tests.media.movies import VIDEOS, moving, video


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile '{path}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{path}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n",
        '<?xml version="1.0"?><MPD type="static"><Period><BaseURL>{path}</BaseURL></Period></MPD>',
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    ],
    ids=["concat", "playlist", "playlist-url", "dash", "sdp"],
)
def test_lists_of_other_files_are_not_opened(text: str) -> None:
    data = text.format(path=VIDEOS[0]).encode()
    with pytest.raises(BadMedia, match="FFmpeg cannot read the file"), open_container(data):
        pass


@pytest.mark.parametrize("form", ["mpegts", "flv", "mpeg"])
def test_formats_that_are_not_listed_are_refused(form: str) -> None:
    data = video(moving(5), form, {"mpeg": "mpeg1video"}.get(form, "libx264"))
    with pytest.raises(BadMedia, match="FFmpeg cannot read the file"), open_container(data):
        pass


@pytest.mark.parametrize("path", VIDEOS, ids=lambda path: path.name)
def test_a_whole_file_is_accepted_and_any_beginning_of_it_is_not(path: Path) -> None:
    data = path.read_bytes()
    check_whole(data)
    check_whole(data + b"\0\0\0")  # a few bytes after the end do no harm
    for size in (12, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(BadMedia, match=rf"truncated: it has {size:,} of its"):
            check_whole(data[:size])


def test_what_is_appended_to_a_file_does_no_harm() -> None:
    for form, codec in (("mp4", "libx264"), ("matroska", "libx264"), ("avi", "mpeg4")):
        data = video(moving(5), form, codec)
        for more in (bytes(100), b"a note of some kind, as cameras write it", b"\xff" * 40):
            check_whole(data + more)
            with open_container(data + more) as container:
                assert sum(packet.size > 0 for packet in container.demux(video=0)) == 5


def test_a_file_whose_writer_did_not_know_its_size_is_accepted() -> None:
    data = bytearray(video(moving(5), "avi", "mpeg4"))
    for size in (0, 0x7FFF_0000, 0xFFFF_FFFF):
        data[4:8] = size.to_bytes(4, "little")
        check_whole(bytes(data))


def test_very_many_boxes_are_not_counted() -> None:
    check_whole(b"\0\0\0\x08free" * 200_000 + b"\xff\xff\xff\xffmdat")


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\x08ftyp", b"\x1aE\xdf\xa3", b"\x1aE\xdf\xa3\x80", b"RIFF", b"RIFF\0\0\0\0"]
)
def test_a_few_bytes_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(BadMedia), open_container(data):
        pass
