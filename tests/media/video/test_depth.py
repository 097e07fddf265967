"""Distances and the 12-bit codes of a video."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.video.depth import Quantised, distances

CODES = np.arange(4096, dtype=np.uint16)


def test_what_a_dataset_does_not_say_is_as_lerobot_has_it() -> None:
    assert Quantised.of({}) == Quantised(0.01, 10.0, 3.5, True)
    said = {"video.depth_min": 0.1, "video.depth_max": 5, "video.shift": 1, "video.use_log": False}
    assert Quantised.of(said) == Quantised(0.1, 5.0, 1.0, False)


@given(st.floats(0.001, 1), st.floats(2, 60), st.floats(0.1, 5), st.booleans(), st.sampled_from(["m", "mm"]))
def test_codes_become_the_distances_that_were_encoded(
    nearest: float, farthest: float, shift: float, logarithmic: bool, unit: str
) -> None:
    quantised = Quantised(nearest, farthest, shift, logarithmic)
    found = distances(CODES, quantised, unit)  # type: ignore[arg-type]
    share = CODES / 4095
    if logarithmic:
        low = math.log(nearest + shift)
        exact = np.exp(low + share * (math.log(farthest + shift) - low)) - shift
    else:
        exact = nearest + share * (farthest - nearest)
    if unit == "mm":
        np.testing.assert_allclose(found, exact * 1000, atol=0.6, rtol=1e-5)
        assert (found == np.round(found)).all()
    else:
        np.testing.assert_allclose(found, exact, atol=1e-4, rtol=1e-5)
    assert found.dtype == np.float32 and (np.diff(found) >= 0).all()


def test_millimetres_fit_16_bits() -> None:
    assert distances(CODES, Quantised(1, 100, 1, False), "mm").max() == pytest.approx(65535)
