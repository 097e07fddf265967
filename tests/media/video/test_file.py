import io
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from penstock.media.errors import BadMedia
from penstock.media.video import file as videofile
from penstock.media.video.file import evenly, file_frames
from penstock.media.video.frames import video_frames
from tests.media.movies import VIDEOS, all_frames, moving, picture, saved, video

KINDS = [
    ("mp4", "libx264", {}),
    ("mp4", "libx264", {"x264-params": "open-gop=1:bframes=4:b-pyramid=normal"}),
    ("mp4", "libx265", {"x265-params": "log-level=none:open-gop=1:keyint=12"}),
    ("mov", "mpeg4", {}),
    ("mov", "mjpeg", {}),
    ("matroska", "libx264", {"x264-params": "open-gop=1:bframes=3"}),
    ("webm", "libvpx", {"auto-alt-ref": "1", "lag-in-frames": "10"}),
    ("webm", "libvpx-vp9", {"auto-alt-ref": "1", "lag-in-frames": "10"}),
    ("avi", "mpeg4", {"bf": "2"}),
    ("avi", "libx264", {"x264-params": "bframes=3"}),
    ("mp4", "libsvtav1", {"svtav1-params": "hierarchical-levels=3:keyint=16"}),
]


def same(found: list[NDArray[np.uint8]], every: list[NDArray[np.uint8]]) -> bool:
    """Whether the frames are those of a plain decode, and evenly spaced."""
    return all(
        np.array_equal(frame, every[index]) for frame, index in zip(found, evenly(len(every), len(found)), strict=True)
    )


@pytest.mark.parametrize(("form", "codec", "options"), KINDS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_format_gives_the_frames_of_a_full_decode(form: str, codec: str, options: dict[str, str]) -> None:
    data = video(moving(60), form, codec, **options)
    every = all_frames(data)
    assert len(every) == 60
    for count in (1, 2, 5, 32, 60, 70):
        assert same(file_frames(data, count, np.copy), every)


def test_groups_of_pictures_without_a_wanted_frame_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    plain = videofile._decoded
    monkeypatch.setattr(videofile, "_decoded", lambda codec, run: decoded.append(len(run)) or plain(codec, run))
    data = video(moving(240), gop=10, bf="0", sc_threshold="0")
    assert same(file_frames(data, 4, np.copy), all_frames(data))
    assert decoded == [1, 10, 10, 10]  # frames 0, 79, 159 and 239: the first of a group, and the last of three


@given(st.data())
def test_each_run_starts_at_a_keyframe_and_covers_what_is_wanted(draw: st.DataObject) -> None:
    keys = draw.draw(st.lists(st.booleans(), min_size=1, max_size=40))
    times = draw.draw(st.permutations(range(len(keys)))) if draw.draw(st.booleans()) else list(range(len(keys)))
    wanted = draw.draw(st.sets(st.sampled_from(times), min_size=1))
    runs = list(videofile._runs(times, keys, wanted))
    covered = [position for run in runs for position in range(run.start, run.stop)]
    assert covered == sorted(set(covered))
    for run in runs:
        assert run.start == 0 or keys[run.start]
        assert times[run.stop - 1] in wanted
        for position in range(run.start, run.stop):
            earlier = [key for key in range(position + 1) if keys[key] and times[key] <= times[position]]
            assert times[position] not in wanted or run.start <= max(earlier, default=0)
    assert wanted <= {times[position] for position in covered}


def test_frames_at_uneven_times_are_counted_and_not_timed() -> None:
    times = np.cumsum(np.random.default_rng(0).integers(1, 30, 50)).tolist()
    data = video(moving(50), pts=times)
    every = all_frames(data)
    assert len(every) == 50 and same(file_frames(data, 7, np.copy), every)


def test_frames_that_an_edit_list_cuts_off_are_not_counted() -> None:
    data = video(moving(60), pts=list(range(-7, 53)))  # what is before 0 is cut off
    every = all_frames(data)
    assert len(every) == 53
    for count in (3, 32, 60):
        assert same(file_frames(data, count, np.copy), every)


@pytest.mark.parametrize("form", ["webm", "avi"])
def test_packets_that_show_no_frame_are_not_counted(form: str) -> None:
    data = bytearray(video(moving(40), form, "libvpx", gop=100))
    with av.open(io.BytesIO(data)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    for packet in (packets[5], packets[13], packets[22]):
        data[data.index(packet)] &= ~0x10  # of a VP8 frame: whether to show it, or to keep it as a reference
    every = all_frames(bytes(data))
    assert len(packets) == 40 and len(every) == 37
    for count in (1, 5, 37, 44):
        assert same(file_frames(bytes(data), count, np.copy), every)


def test_a_wrong_number_of_frames_in_the_header_does_not_matter() -> None:
    data = bytearray(video(moving(40), "avi", "mpeg4"))
    for name in (b"avih", b"strh"):
        at = data.index(name)
        at += 8 + (16 if name == b"avih" else 32)
        assert int.from_bytes(data[at : at + 4], "little") == 40
        data[at : at + 4] = (7).to_bytes(4, "little")
    assert same(file_frames(bytes(data), 10, np.copy), all_frames(bytes(data)))


def test_a_live_recording_without_lengths_is_read() -> None:
    for form, codec in (("webm", "libvpx-vp9"), ("matroska", "libx264")):
        data = video(moving(30), form, codec, container={"live": "1"})
        assert same(file_frames(data, 8, np.copy), all_frames(data))
    data = video(moving(30), "mp4", container={"movflags": "frag_keyframe+empty_moov"})
    assert same(file_frames(data, 8, np.copy), all_frames(data))


def test_a_title_in_any_encoding_does_not_matter() -> None:
    data = video(moving(5), title="a title in UTF-8")
    assert data.count(b"a title in UTF-8") == 1
    renamed = data.replace(b"a title in UTF-8", b"caf\xe9, in Latin-1")
    assert same(file_frames(renamed, 3, np.copy), all_frames(data))


def test_an_error_of_the_caller_is_not_taken_for_a_bad_video() -> None:
    def fail(_: NDArray[np.uint8]) -> None:
        raise TypeError("the caller's own")

    for data in (video(moving(5)), saved(Image.fromarray(picture(8, 8)), "GIF")):
        with pytest.raises(TypeError, match="the caller's own"):
            video_frames(data, 2, fail)


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
@pytest.mark.parametrize("mirrored", [False, True])
def test_videos_are_turned_upright_by_their_display_matrix(degrees: int, mirrored: bool) -> None:
    frame = np.full((48, 64, 3), 20, np.uint8)
    frame[:16, :16] = 235
    found = file_frames(video([frame] * 3, rotation=(degrees, mirrored, False)), 1, np.copy)[0]
    shown = np.rot90(frame[:, ::-1] if mirrored and degrees in (0, 180) else frame, degrees // 90)
    shown = shown[:, ::-1] if mirrored and degrees in (90, -90) else shown
    assert found.shape == shown.shape and found.flags.c_contiguous
    assert np.abs(found.astype(int) - shown).mean() < 8  # lossy
    plain = file_frames(video([frame] * 3), 1, np.copy)[0]
    assert sorted(found.ravel().tolist()) == sorted(plain.ravel().tolist())


@pytest.mark.parametrize("faststart", [False, True])
@pytest.mark.parametrize(
    ("form", "codec"),
    [("mp4", "libx264"), ("mov", "mpeg4"), ("matroska", "libx264"), ("webm", "libvpx-vp9"), ("avi", "mpeg4")],
)
def test_a_truncated_video_is_an_error_wherever_it_ends(form: str, codec: str, faststart: bool) -> None:
    container = {"movflags": "faststart"} if faststart and form in ("mp4", "mov") else {}
    data = video(moving(40), form, codec, container=container)
    for share in (0.02, 0.2, 0.5, 0.8, 0.95, 0.999):
        with pytest.raises(BadMedia, match=r"truncated|cannot read the file"):
            file_frames(data[: int(len(data) * share)], 4, np.copy)


@pytest.mark.parametrize("path", VIDEOS, ids=lambda path: path.name)
def test_a_truncated_real_video_is_an_error(path: Path) -> None:
    data = path.read_bytes()
    for share in (0.3, 0.9, 0.999):
        with pytest.raises(BadMedia, match=r"truncated"):
            file_frames(data[: int(len(data) * share)], 4, np.copy)


@pytest.mark.parametrize("path", VIDEOS, ids=lambda path: path.name)
@pytest.mark.parametrize("size", [10, 50_000])
def test_a_damaged_video_is_an_error(path: Path, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[100_000 : 100_000 + size] = bytes(size)
    with pytest.raises(BadMedia, match=r"damaged|cannot read"):
        file_frames(bytes(data), 2, np.copy)


def test_a_video_of_too_many_or_no_frames_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = video(moving(20))
    monkeypatch.setattr(videofile, "MAX_FRAMES", 19)
    with pytest.raises(BadMedia, match="more than 19 frames"):
        file_frames(data, 4, np.copy)


def test_huge_frames_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = video(moving(3, 480, 640), codec="mpeg4")
    monkeypatch.setattr("penstock.media.image.file.MAX_PIXELS", 640 * 480 - 1)
    with pytest.raises(BadMedia, match="640 × 480; up to 307,199 pixels"):
        file_frames(data, 2, np.copy)
    monkeypatch.setattr(videofile, "check_size", lambda *_: None)  # as if the header gave a smaller size
    monkeypatch.setattr(videofile, "MAX_PIXELS", 640 * 480 // 2)
    with pytest.raises(BadMedia, match="FFmpeg cannot read the file"):
        file_frames(data, 2, np.copy)
