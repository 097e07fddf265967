"""Videos that are written for tests and demos: every frame is shown at its time."""

from pathlib import Path

import av
import pytest

from penstock.media.video.encoding import Encoding
from tests.videos import FPS, number_of, write_numbered


@pytest.mark.parametrize("lengths", [[1, 1], [2, 1, 3], [1, 5]], ids=str)
@pytest.mark.parametrize("encoding", [Encoding("h264", 4, b_frames=2), Encoding("hevc", 4, b_frames=1)], ids=str)
def test_every_frame_is_shown_at_its_time_however_short_clips_with_b_frames_are(
    encoding: Encoding, lengths: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "video.mp4"
    write_numbered(path, lengths, encoding)
    with av.open(str(path)) as video:
        frames = [(frame.time, number_of(frame.to_ndarray(format="rgb24"))) for frame in video.decode(video=0)]
    assert frames == [(pytest.approx(number / FPS, abs=1e-6), number) for number in range(sum(lengths))]
