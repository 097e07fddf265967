"""Windows against their definition: the frame at each time, or the nearest one of the episode."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.manifest.errors import ManifestError
from penstock.readers.lerobot.windows import frame_offsets, new_names, window


@given(st.integers(1, 50), st.data(), st.lists(st.integers(-60, 60), min_size=1, max_size=12))
def test_a_window_has_the_frames_at_its_offsets_and_edge_frames_outside(
    length: int, data: st.DataObject, offsets: list[int]
) -> None:
    frame = data.draw(st.integers(0, length - 1))
    inside, is_pad = window(frame, np.array(offsets), length)
    for place, offset in enumerate(offsets):
        wanted = frame + offset
        if 0 <= wanted < length:
            assert inside[place] == wanted and not is_pad[place]
        else:
            assert inside[place] == (0 if wanted < 0 else length - 1) and is_pad[place]


@given(st.sampled_from([10, 15, 29.97, 30, 50, 60]), st.lists(st.integers(-300, 300), min_size=1, max_size=20))
def test_seconds_become_frames_at_any_rate(fps: float, frames: list[int]) -> None:
    deltas = {"action": [frame / fps for frame in frames]}
    assert frame_offsets(deltas, 1e-4, fps, "robot")["action"].tolist() == frames


def test_a_delta_may_be_off_the_grid_by_the_tolerance_and_no_more() -> None:
    assert frame_offsets({"a": [0.1 + 9e-5]}, 1e-4, 30, "robot")["a"].tolist() == [3]
    with pytest.raises(ManifestError, match=r"delta_timestamps: a: 0\.05 s is not a multiple of 1/30 s"):
        frame_offsets({"a": [0.0, 0.05]}, 1e-4, 30, "robot")
    with pytest.raises(ManifestError, match=r"within 0\.0001 s; the nearest is 0\.1 s"):
        frame_offsets({"a": [0.1 + 2e-4]}, 1e-4, 30, "robot")


@pytest.mark.parametrize("delta", [float("nan"), float("inf")])
def test_a_delta_that_is_no_number_of_seconds_is_refused(delta: float) -> None:
    with pytest.raises(ManifestError, match="delta_timestamps: a: "):
        frame_offsets({"a": [delta]}, 1e-4, 30, "robot")


def test_features_come_under_their_new_names() -> None:
    assert new_names(["a", "b"], {"a": "x"}, "robot") == {"a": "x", "b": "b"}
    with pytest.raises(ManifestError, match="rename: robot has no feature 'c'; it has a, b"):
        new_names(["a", "b"], {"c": "x"}, "robot")
    with pytest.raises(ManifestError, match="rename: two features of robot would be named 'b'"):
        new_names(["a", "b"], {"a": "b"}, "robot")
