"""One decoder, fed with packets: every frame comes out under its own number."""

from pathlib import Path

import pytest

from penstock.media.errors import BadMedia
from penstock.media.video.decoder import Decoder
from penstock.readers.mp4.clip import Clip, Piece, pieces
from penstock.readers.mp4.track import Coding
from penstock.readers.ranges import Ranges
from tests.media.video.clips import clips_of
from tests.videos import ENCODINGS, number_of

LENGTHS = (7, 14)


@pytest.fixture(scope="module", params=ENCODINGS)
def clips(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Clip], Ranges]:
    return clips_of(tmp_path_factory.mktemp("video"), LENGTHS, ENCODINGS[request.param])


def decoded(decoder: Decoder, clip: Clip, ranges: Ranges, piece: Piece) -> dict[int, int]:
    """Return the number that each frame shows, by its number in the clip."""
    packets = clip.read(ranges, piece)
    return {number: number_of(frame.rgb()) for number, frame in decoder.frames(packets, piece.first)}


def test_any_frame_is_decoded_from_its_key_frame_on(clips: tuple[list[Clip], Ranges]) -> None:
    own, ranges = clips
    decoder = Decoder(own[0].coding)
    first = 0
    for clip, length in zip(own, LENGTHS, strict=True):
        for place in (0, length - 1, *range(1, length - 1)):  # in no order: the decoder forgets what came before
            frame = int(clip.shown[place])
            [(piece, _)] = pieces(clip.starts, [frame])
            found = decoded(decoder, clip, ranges, piece)
            assert found[frame] == first + place
        first += length


def test_one_pass_yields_all_frames_of_a_clip(clips: tuple[list[Clip], Ranges]) -> None:
    own, ranges = clips
    clip = own[1]
    decoder = Decoder(clip.coding)
    found = {}
    for piece, _ in pieces(clip.starts, clip.shown.tolist()):
        found |= decoded(decoder, clip, ranges, piece)
    assert [found[frame] for frame in clip.shown.tolist()] == list(range(LENGTHS[0], sum(LENGTHS)))


def test_clips_that_were_encoded_alike_share_a_decoder(clips: tuple[list[Clip], Ranges]) -> None:
    own, _ = clips
    assert own[0].coding == own[1].coding


def test_a_codec_that_is_not_known_is_named() -> None:
    with pytest.raises(BadMedia, match="the codec 'mp4v' is not supported; there are avc1, "):
        Decoder(Coding("mp4v", b"", 64, 64))


def test_damaged_packets_are_bad_media_and_the_decoder_can_go_on(tmp_path: Path) -> None:
    [clip], ranges = clips_of(tmp_path, [6], ENCODINGS["h264"])
    decoder = Decoder(clip.coding)
    with pytest.raises(BadMedia, match="a frame can't be decoded"):
        list(decoder.frames([memoryview(b"\xff" * 200)], 0))
    piece = Piece(0, 3)
    assert decoded(decoder, clip, ranges, piece) == {0: 0, 1: 1, 2: 2, 3: 3}
