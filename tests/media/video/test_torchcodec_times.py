"""A frame that torchcodec returns in place of another one is refused. A stand-in returns what torchcodec would."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch

from penstock.media.video.batch import Wanted
from penstock.media.video.sinks import Rgb
from penstock.media.video.torchcodec import TorchcodecDecoders
from tests.media.video.clips import NAME, opened
from tests.videos import write_moving_video

FRAMES = 48


class Seeking:
    """Seeks by FFmpeg, and returns the first frame that is not before the wanted time, as torchcodec does."""

    def __init__(self, file: Any, **_: Any) -> None:
        self._container: Any = av.open(file)

    def get_frames_played_at(self, seconds: Sequence[float]) -> SimpleNamespace:
        frames = [self._frame(each) for each in seconds]
        pixels = [torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1) for frame in frames]
        return SimpleNamespace(
            data=torch.stack(pixels), pts_seconds=torch.tensor([frame.time for frame in frames], dtype=torch.float64)
        )

    def _frame(self, seconds: float) -> Any:
        stream = self._container.streams.video[0]
        wanted = int(seconds / stream.time_base)
        self._container.seek(wanted, stream=stream)
        return next(frame for frame in self._container.decode(stream) if frame.pts >= wanted)


@pytest.mark.parametrize("open_groups", [False, True])
def test_no_frame_is_served_in_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_groups: bool
) -> None:
    module = ModuleType("torchcodec.decoders")
    module.VideoDecoder = Seeking  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", module)
    write_moving_video(tmp_path / NAME, FRAMES, 12, 3, open_groups=open_groups)
    with av.open(str(tmp_path / NAME)) as container:
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    [clip], ranges = opened(tmp_path, [FRAMES])
    pixels = np.zeros((FRAMES, *expected[0].shape), np.uint8)
    wanted = [
        Wanted(place, clip, clip.shown[[place]], ranges, Rgb(), pixels[place][None], NAME) for place in range(FRAMES)
    ]
    with ThreadPoolExecutor(1) as executor:
        bad = TorchcodecDecoders().decode(wanted, 1, executor)
    for place in set(range(FRAMES)) - set(bad):
        assert np.array_equal(pixels[place], expected[place])
    assert bool(bad) == open_groups, "FFmpeg skips frames in front of the key frame that it seeks to"
    assert all(reason.startswith(f"{NAME}: torchcodec returned the frame at ") for reason in bad.values())
