"""The frames of a batch, decoded as a whole: each group of pictures once, whatever the samples need of it."""

import io
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from penstock.media.video.batch import Wanted, damaged_frames, decode
from penstock.media.video.decoders import Decoders
from penstock.media.video.sinks import Rgb
from penstock.readers.mp4.clip import Clip, Piece
from penstock.readers.ranges import Ranges
from tests.media.video.clips import NAME, clips_of, opened
from tests.videos import ENCODINGS, number_of, with_damage, write_moving_video

LENGTHS = (20, 7, 33)
FIRST = (0, 20, 27)
GROUPED = 64  # frames of a video with groups of 20


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.fixture
def packets(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Counts how often each packet is read and decoded, by its offset in the file."""
    counts: Counter[int] = Counter()
    read = Clip.read

    def counted(self: Clip, ranges: Ranges, piece: Piece) -> Any:
        counts.update(self.offsets[piece.first : piece.last + 1].tolist())
        return read(self, ranges, piece)

    monkeypatch.setattr(Clip, "read", counted)
    return counts


def wanted(sample: int, clip: Clip, places: list[int], ranges: Ranges) -> Wanted:
    out = np.zeros((len(places), clip.coding.height, clip.coding.width, 3), np.uint8)
    return Wanted(sample, clip, clip.shown[places], ranges, Rgb(), out, NAME)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_place_gets_its_frame_and_no_packet_is_decoded_twice(
    name: str, threads: int, executor: ThreadPoolExecutor, packets: Counter[int], tmp_path: Path
) -> None:
    clips, ranges = clips_of(tmp_path, LENGTHS, ENCODINGS[name])
    random = np.random.default_rng(3)
    batch = []
    expected = []
    for sample in range(24):
        at = int(random.integers(len(clips)))
        places = random.integers(0, LENGTHS[at], 4).tolist()
        batch.append(wanted(sample, clips[at], places, ranges))
        expected.append([FIRST[at] + place for place in places])
    assert decode(batch, Decoders(), threads, executor) == {}
    assert [[number_of(frame) for frame in each.out] for each in batch] == expected
    assert packets and max(packets.values()) == 1


def test_only_groups_that_hold_a_wanted_frame_are_decoded(
    executor: ThreadPoolExecutor, packets: Counter[int], tmp_path: Path
) -> None:
    clips, ranges = clips_of(tmp_path, LENGTHS, ENCODINGS["h264"])  # groups of two
    batch = [wanted(0, clips[0], [3, 2, 3], ranges), wanted(1, clips[0], [3, 10], ranges)]
    assert decode(batch, Decoders(), 1, executor) == {}
    needed = {frame for last in (2, 3, 10) for frame in range(int(clips[0].starts[last]), last + 1)}
    assert len(needed) <= 5 and sorted(packets) == sorted(clips[0].offsets[list(needed)].tolist())
    assert [number_of(frame) for frame in batch[1].out] == [3, 10]


def test_a_damaged_group_spoils_its_own_samples_alone(executor: ThreadPoolExecutor, tmp_path: Path) -> None:
    clips, _ = clips_of(tmp_path, LENGTHS, ENCODINGS["h264"])
    key = int(clips[0].starts[10])
    size = int(clips[0].sizes[key])
    data = bytearray((tmp_path / NAME).read_bytes())
    data[int(clips[0].offsets[key]) : int(clips[0].offsets[key]) + size] = b"\xff" * size
    (tmp_path / NAME).write_bytes(data)
    [clip, *_], ranges = opened(tmp_path, LENGTHS)
    batch = [wanted(7, clip, [key], ranges), wanted(8, clip, [2, key], ranges), wanted(9, clip, [key - 2, 0], ranges)]
    found = decode(batch, Decoders(), 1, executor)
    assert set(found) == {7, 8} and all(reason.startswith(f"{NAME}: a frame ") for reason in found.values())
    assert [number_of(frame) for frame in batch[2].out] == [key - 2, 0]


def test_whether_a_frame_is_bad_does_not_depend_on_what_else_a_batch_needs(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    [clip], _ = clips_of(tmp_path, [8], ENCODINGS["h264"])  # groups of two, which are decoded in one go
    begin = int(clip.offsets[4])
    data = bytearray((tmp_path / NAME).read_bytes())
    data[begin + 8 : begin + int(clip.sizes[4])] = bytes(int(clip.sizes[4]) - 8)
    (tmp_path / NAME).write_bytes(data)
    [clip], ranges = opened(tmp_path, [8])
    alone = {frame for frame in range(8) if decode([wanted(0, clip, [frame], ranges)], Decoders(), 1, executor)}
    assert 4 in alone and alone <= {4, 5}
    batch = [wanted(frame, clip, [frame], ranges) for frame in range(8)]
    assert set(decode(batch, Decoders(), 1, executor)) == alone
    assert [number_of(each.out[0]) for each in batch if each.sample not in alone] == sorted(set(range(8)) - alone)


def flagged(data: bytes) -> list[bool]:
    """Return which frames FFmpeg marks as damaged, in the order in which they are shown, or no longer shows."""
    corrupt = [True] * GROUPED
    with av.open(io.BytesIO(data)) as container:
        for frame in container.decode(video=0):
            corrupt[round(float(frame.time or 0) * 30)] = frame.is_corrupt
    return corrupt


@pytest.mark.parametrize(("b_frames", "open_groups"), [(0, False), (3, False), (3, True)])
def test_frames_from_a_damaged_one_on_are_bad_up_to_the_next_group_in_decoding_order(
    b_frames: int, open_groups: bool, executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    data = write_moving_video(tmp_path / NAME, GROUPED, 20, b_frames, open_groups=open_groups)
    [clip], ranges = opened(tmp_path, [GROUPED])
    is_leading = np.maximum.accumulate(np.where(clip.starts == np.arange(GROUPED), clip.starts, 0)) > clip.starts
    assert is_leading.any() == open_groups
    whole = [wanted(place, clip, [place], ranges) for place in range(GROUPED)]
    assert decode(whole, Decoders(), 1, executor) == {}
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(12):
        frame = int(random.integers(GROUPED - 4))
        bad_data = with_damage(data, int(clip.offsets[frame]), int(clip.sizes[frame]), random)
        (tmp_path / NAME).write_bytes(bad_data)
        [clip], ranges = opened(tmp_path, [GROUPED])
        is_flagged = np.zeros(GROUPED, bool)
        is_flagged[clip.shown] = flagged(bad_data)
        behind = {
            place
            for place, number in enumerate(clip.shown.tolist())
            for start in [int(clip.starts[number])]
            if (is_flagged & (clip.starts >= start))[start : number + 1].any()
        }
        decoders = Decoders()
        batch = [wanted(place, clip, [place], ranges) for place in range(GROUPED)]
        bad = set(decode(batch, decoders, 1, executor))
        assert bad >= behind
        refused += len(bad)
        before = [place for place, number in enumerate(clip.shown.tolist()) if number < frame]
        assert all(np.array_equal(batch[place].out, whole[place].out) for place in before) and not bad & set(before)
        some = random.choice(GROUPED, 9, replace=False).tolist()
        assert set(decode([wanted(place, clip, [place], ranges) for place in some], decoders, 1, executor)) == bad & {
            *some
        }, "a frame is bad or good whatever else the batch needs"
    assert refused > 60, "decoders notice most damage"


def test_a_key_frame_that_is_none_is_bad_whatever_else_the_batch_needs(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    write_moving_video(tmp_path / NAME, GROUPED, 20, refresh=True)
    [clip], ranges = opened(tmp_path, [GROUPED])
    batch = [wanted(place, clip, [place], ranges) for place in range(GROUPED)]
    bad = decode(batch, Decoders(), 1, executor)
    alone = {place for place in range(GROUPED) if decode([wanted(0, clip, [place], ranges)], Decoders(), 1, executor)}
    first = int(np.unique(clip.starts)[1])
    assert set(bad) == alone == set(range(first, GROUPED))


def test_of_a_video_that_was_cut_before_an_open_group_only_the_leading_frames_are_bad(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    write_moving_video(tmp_path / "whole.mp4", GROUPED, 20, 3, open_groups=True)
    plain = {"use_editlist": "0"}  # such a list would hide the leading frames
    with (
        av.open(str(tmp_path / "whole.mp4")) as whole,
        av.open(str(tmp_path / NAME), "w", format="mp4", options=plain) as cut,
    ):
        stream = cut.add_stream_from_template(whole.streams.video[0])
        packets = [packet for packet in whole.demux(video=0) if packet.size]
        [_, second, *_] = [number for number, packet in enumerate(packets) if packet.is_keyframe]
        for packet in packets[second:]:
            packet.stream = stream
            cut.mux(packet)
    [clip], ranges = opened(tmp_path, [GROUPED])
    alone = {
        place for place in range(len(clip.shown)) if decode([wanted(0, clip, [place], ranges)], Decoders(), 1, executor)
    }
    assert alone == {0, 1, 2}, "those that are shown before the key frame with which the video begins now"
    batch = [wanted(place, clip, [place], ranges) for place in range(len(clip.shown))]
    assert set(decode(batch, Decoders(), 1, executor)) == alone


def test_damaged_frames_of_a_clip_are_those_that_the_decoder_marks(tmp_path: Path) -> None:
    data = write_moving_video(tmp_path / NAME, GROUPED, 20, 3, open_groups=True)
    [clip], ranges = opened(tmp_path, [GROUPED])
    assert damaged_frames(clip, ranges, Decoders()) == []
    random = np.random.default_rng(2)
    found = 0
    for _ in range(12):
        frame = int(random.integers(GROUPED - 4))
        bad_data = with_damage(data, int(clip.offsets[frame]), int(clip.sizes[frame]), random)
        (tmp_path / NAME).write_bytes(bad_data)
        [clip], ranges = opened(tmp_path, [GROUPED])
        marked = set(clip.shown[flagged(bad_data)].tolist())
        assert set(damaged_frames(clip, ranges, Decoders())) >= marked
        found += bool(marked)
    assert found > 2


def test_a_frame_of_another_size_is_bad(executor: ThreadPoolExecutor, tmp_path: Path) -> None:
    [clip], ranges = clips_of(tmp_path, [4], ENCODINGS["h264"])
    small = wanted(0, clip, [1], ranges)._replace(out=np.zeros((1, 32, 32, 3), np.uint8))
    assert decode([small], Decoders(), 1, executor) == {0: f"{NAME}: a frame has 64 × 64 pixels, not 32 × 32"}


def test_nothing_to_decode_is_nothing(executor: ThreadPoolExecutor) -> None:
    assert decode([], Decoders(), 2, executor) == {}
