"""The header's tables say what PyAV's demuxer says. What is wrong with them is ``NoBox``, in little time and memory."""

import io
import struct
import tracemalloc
from collections.abc import Callable

import av
import numpy as np
import pytest

from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.header import TRACK, find_moov
from penstock.readers.mp4.track import Track, read_track
from penstock.readers.mp4.video import Video
from tests.readers.mp4.conftest import LENGTHS
from tests.readers.mp4.editing import added, body_of, box, edited, table, without
from tests.videos import ENCODINGS, number_of, run_search

FRAMES = sum(LENGTHS)
STBL = ("moov", "trak", "mdia", "minf", "stbl")


def moov_of(data: bytes) -> bytes:
    return bytes(run_search(data, find_moov)[0])


def track_of(moov: bytes) -> Track:
    return read_track(memoryview(moov))


@pytest.fixture
def moov(video_bytes: Callable[[str], bytes]) -> bytes:
    """A header with all tables: of B-frames, and with an edit list."""
    return moov_of(video_bytes("h264, groups of 12, 2 B-frames"))


@pytest.mark.parametrize("name", ENCODINGS)
def test_frames_are_where_a_demuxer_finds_them(name: str, video_bytes: Callable[[str], bytes]) -> None:
    data = video_bytes(name)
    track, _ = run_search(data, TRACK.search)
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert stream.time_base is not None
        assert track.offsets.tolist() == [packet.pos for packet in packets]
        assert track.sizes.tolist() == [packet.size for packet in packets]
        assert track.keys.tolist() == [packet.is_keyframe for packet in packets]
        seconds = [float((packet.pts or 0) * stream.time_base) for packet in packets]
        np.testing.assert_allclose(track.times / track.ticks_per_second, seconds, atol=1e-9)
        assert (track.coding.width, track.coding.height) == (stream.width, stream.height)
        assert track.coding.config == stream.codec_context.extradata


def test_the_frames_of_all_encodings_are_shown_at_the_frame_rate_from_0_on(
    video_bytes: Callable[[str], bytes],
) -> None:
    for name in ENCODINGS:
        track, _ = run_search(video_bytes(name), TRACK.search)
        shown = np.sort(track.times) / track.ticks_per_second
        np.testing.assert_allclose(shown, np.arange(FRAMES) / 30, atol=1e-9, err_msg=name)


def test_what_comes_back_from_disk_is_the_same_track(video_bytes: Callable[[str], bytes]) -> None:
    for name in ENCODINGS:
        track, _ = run_search(video_bytes(name), TRACK.search)
        again = TRACK.from_bytes(memoryview(TRACK.to_bytes(track)))
        assert (again.coding, again.ticks_per_second) == (track.coding, track.ticks_per_second)
        for field in ("offsets", "sizes", "times", "keys"):
            assert getattr(again, field).tolist() == getattr(track, field).tolist()
            assert getattr(again, field).dtype == getattr(track, field).dtype


def test_offsets_of_eight_bytes_are_read(moov: bytes) -> None:
    far = 5 << 32

    def widened(body: bytes) -> bytes:
        offsets = np.frombuffer(body[8:], ">u4").astype(">u8") + far
        return body[:8] + offsets.astype(">u8").tobytes()

    wide = track_of(edited(moov, "stco", widened, rename="co64"))
    assert wide.offsets.tolist() == (track_of(moov).offsets + far).tolist()


MOVIE_TICKS = 1000
TICKS = 15360
FRAME = TICKS // 30
BEGIN = 2 * FRAME  # of the first frame: two B-frames
EMPTY = 0xFFFFFFFF
ALL = FRAMES * MOVIE_TICKS // 30
NORMAL_RATE = 1 << 16


def with_edits(data: bytes, *rows: tuple[int, int]) -> bytes:
    """Return a file with an edit list: durations in milliseconds, and begins in ticks of the media."""
    moov = moov_of(data)
    assert struct.unpack_from(">I", body_of(moov, "moov", "mvhd"), 12)[0] == MOVIE_TICKS
    assert track_of(moov).ticks_per_second == TICKS
    body = table(*((*row, NORMAL_RATE) for row in rows))
    return data.replace(moov, edited(moov, "elst", lambda _: body))  # it is at the end: no frame moves


@pytest.mark.parametrize(
    "rows",
    [
        [(ALL, BEGIN)],
        [(ALL - 1, BEGIN)],
        [(2 * ALL, BEGIN)],
        [(2 * ALL, 0)],
        [(ALL, BEGIN + 13 * FRAME)],
        [(ALL, BEGIN + 13 * FRAME + FRAME // 2)],
        [(500, EMPTY), (ALL, BEGIN)],
        [(333, EMPTY), (100, EMPTY), (ALL, BEGIN)],
        [(500, EMPTY), (ALL, BEGIN + 13 * FRAME)],
        [],
    ],
    ids=str,
)
def test_an_edit_list_shows_what_ffmpeg_shows(rows: list[tuple[int, int]], video_bytes: Callable[[str], bytes]) -> None:
    data = with_edits(video_bytes("h264, groups of 12, 2 B-frames"), *rows)
    track, _ = run_search(data, TRACK.search)
    numbers = np.argsort(np.argsort(track.times))
    shown = {int(time): int(number) for time, number in zip(track.times, numbers, strict=True) if time >= 0}
    with av.open(io.BytesIO(data)) as container:
        expected = {frame.pts: number_of(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)}
    assert shown == expected


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(ALL // 2, BEGIN), (ALL // 2, BEGIN + FRAMES // 2 * FRAME)], r"in one part \(entries: 2\)"),
        ([(300, BEGIN), (700, BEGIN + 30 * FRAME)], "in one part"),
        ([(ALL, BEGIN), (500, EMPTY)], "in one part"),
        ([(ALL, EMPTY)], "in one part"),
        ([(ALL // 2, BEGIN)], r"ends after 1\.000 s, before the last frame"),
        ([(ALL - 40, BEGIN)], "before the last frame"),
        ([(ALL, 0)], "before the last frame"),
        ([(0, BEGIN)], "before the last frame"),
        ([(ALL, BEGIN + FRAMES * FRAME)], "before the last frame"),
    ],
)
def test_an_edit_list_that_shows_parts_only_is_refused(
    rows: list[tuple[int, int]], reason: str, video_bytes: Callable[[str], bytes]
) -> None:
    data = with_edits(video_bytes("h264, groups of 12, 2 B-frames"), *rows)
    with pytest.raises(NoBox, match=f"its edit list .*{reason}.*write the video anew"):
        run_search(data, TRACK.search)


def test_an_edit_list_of_eight_bytes_is_read(moov: bytes) -> None:
    wide = struct.pack(">B3xIQqI", 1, 1, ALL, BEGIN, NORMAL_RATE)
    assert track_of(edited(moov, "elst", lambda _: wide)).times.tolist() == track_of(moov).times.tolist()


def test_without_a_table_of_key_frames_all_are_key_frames(moov: bytes) -> None:
    assert not track_of(moov).keys.all()
    assert track_of(without(moov, "stss")).keys.all()


def test_frames_of_one_size_need_no_table_of_sizes(moov: bytes) -> None:
    alike = edited(moov, "stsz", lambda _: struct.pack(">4xII", 700, FRAMES))
    assert track_of(alike).sizes.tolist() == [700] * FRAMES


def test_a_sound_track_is_passed_over(moov: bytes) -> None:
    sound = box("trak", box("mdia", box("hdlr", b"\0" * 8 + b"soun" + b"\0" * 12)))
    assert track_of(added(moov, "moov", sound)).offsets.tolist() == track_of(moov).offsets.tolist()
    with pytest.raises(NoBox, match="no video track"):
        track_of(edited(moov, "hdlr", lambda body: body.replace(b"vide", b"soun")))


def test_a_colour_description_is_read(moov: bytes) -> None:
    def told(body: bytes) -> bytes:
        colour = box("colr", b"nclx" + struct.pack(">HHHB", 1, 13, 6, 0x80))
        entry = body[16:] + colour
        return body[:8] + box("avc1", entry)

    assert track_of(without(moov, "colr")).coding.color in [(2, 2, 2, False), track_of(moov).coding.color]
    assert track_of(edited(moov, "stsd", told)).coding.color == (1, 13, 6, True)


def test_a_truncated_file_has_the_frames_before_its_end(video_bytes: Callable[[str], bytes]) -> None:
    data = video_bytes("h264")
    whole, _ = run_search(data, TRACK.search)
    end = int(whole.offsets[40] + whole.sizes[40])
    for cut, frames in ((end, 41), (end - 1, 40), (end + 1, 41)):
        track, _ = run_search(data[:cut], _search_of(data))
        assert track.offsets.tolist() == whole.offsets[:frames].tolist() and len(track.times) == frames
    with pytest.raises(NoBox, match="ends before its first frame"):
        run_search(data[: int(whole.offsets[0])], _search_of(data))


def _search_of(whole: bytes) -> Callable[[int], object]:
    """The search in a file that was cut within its frames: the box around them still announces all of them."""
    moov = memoryview(moov_of(whole))

    def search(size: int) -> object:
        yield (0, size)
        return read_track(moov).within(size)

    return search


def is_usable_or_refused(moov: bytes, size: int) -> bool:
    """Whether a header is read; if it is not, the reason is ``NoBox``. What is read lies in the file."""
    try:
        track = track_of(moov).within(size)
    except NoBox:
        return False
    assert (track.offsets >= 0).all() and (track.offsets + track.sizes <= size).all() and (track.sizes >= 0).all()
    clip = Video("video", size, track, np.array([0.0, 0.5])).clip(0.5, 0.8)
    assert len(clip.shown) <= len(track.times) and all(0 <= start < end <= size for start, end in clip.units)
    return True


def test_every_truncation_of_a_header_is_refused(moov: bytes) -> None:
    size = 10**6
    assert is_usable_or_refused(moov, size)
    usable = [end for end in range(len(moov)) if is_usable_or_refused(moov[:end], size)]
    assert usable == []


def test_every_truncation_of_a_file_is_refused_or_has_fewer_frames(video_bytes: Callable[[str], bytes]) -> None:
    for name in ("h264", "h264 at the end"):
        data = video_bytes(name)
        for end in range(0, len(data), 97):
            try:
                track, _ = run_search(data[:end], TRACK.search)
            except NoBox:
                continue
            assert name == "h264" and 0 < len(track.offsets) < FRAMES


@pytest.mark.parametrize("value", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_no_number_of_a_header_does_harm(moov: bytes, value: int) -> None:
    """Every field of four bytes gets an absurd value, one at a time."""
    tracemalloc.start()
    for at in range(8, len(moov) - 4, 2):
        is_usable_or_refused(moov[:at] + struct.pack(">I", value) + moov[at + 4 :], 10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_no_random_change_of_a_header_does_harm(moov: bytes) -> None:
    random = np.random.default_rng(8)
    usable = 0
    for _ in range(1_000):
        changed = bytearray(moov)
        for at in random.integers(8, len(moov), random.integers(1, 6)).tolist():
            changed[at] = int(random.integers(256))
        usable += is_usable_or_refused(bytes(changed), 10**6)
    assert 50 < usable < 950, "changes are neither all harmless nor all fatal"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("stsz", struct.pack(">4xII", 1, 0xFFFFFFFF)),
        ("stsz", struct.pack(">4xII", 0, 0xFFFFFFFF)),
        ("stts", table((0xFFFFFFFF, 1))),
        ("stts", table((FRAMES - 1, 1))),
        ("ctts", table((0xFFFFFFFF, 1), (0xFFFFFFFF, 1))),
        ("stsc", table((1, 0xFFFFFFFF, 1))),
        ("stsc", table((0xFFFFFFFF, 1, 1))),
        ("stsc", table()),
        ("stss", table((0,))),
        ("stss", table((FRAMES + 1,))),
        ("stsd", table()),
        ("mdhd", bytes(24)),
        ("elst", struct.pack(">B3xIQqIQqI", 1, 2, (1 << 63) - 1, -1, 1, 1, 0, 1)),
    ],
    ids=[
        "4 billion frames of one size",
        "4 billion sizes",
        "4 billion times",
        "a time too few",
        "8 billion delays",
        "4 billion frames in a chunk",
        "frames from a chunk that is not there",
        "no chunks",
        "key frame 0",
        "a key frame after the last frame",
        "no codec",
        "no time unit",
        "nothing shown for 300 million years",
    ],
)
def test_tables_that_contradict_each_other_are_refused(moov: bytes, name: str, body: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(NoBox):
        track_of(edited(moov, name, lambda _: body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("name", ["hdlr", "mdhd", "stbl", "stsz", "stts", "stco", "stsc", "stsd"])
def test_a_header_without_a_table_names_it(moov: bytes, name: str) -> None:
    with pytest.raises(NoBox, match=name if name != "stco" else "co64"):
        track_of(without(moov, name))


def test_offsets_beyond_any_file_are_no_frames_of_it(moov: bytes) -> None:
    for offset in (1 << 63, (1 << 63) - 1, (1 << 64) - 1):

        def far(body: bytes, offset: int = offset) -> bytes:
            count = struct.unpack_from(">I", body, 4)[0]
            return body[:8] + struct.pack(">Q", offset) * count

        with pytest.raises(NoBox, match="truncated"):
            track_of(edited(moov, "stco", far, rename="co64")).within(10**6)


def test_a_fragmented_file_is_refused_with_advice(tmp_path: object) -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")))
        container.mux(stream.encode(None))
    with pytest.raises(NoBox, match="fragmented MP4 is not supported"):
        run_search(file.getvalue(), TRACK.search)
