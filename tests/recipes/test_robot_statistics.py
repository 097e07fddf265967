"""Statistics of several datasets against those of all their values together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.recipes.robot_statistics import Statistics, as_arrays, merged


def statistics_of(values: np.ndarray) -> Statistics:
    own = {name: getattr(values, name)(axis=0) for name in ("min", "max", "mean", "std")}
    return {"action": {**own, "count": np.array([len(values)], float), "q50": np.quantile(values, 0.5, axis=0)}}


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(0, 1000), st.floats(-1e3, 1e3))
def test_merged_statistics_are_those_of_all_values(sizes: list[int], seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    parts = [random.normal(shift * number, 1 + number, (size, 3)) for number, size in enumerate(sizes)]
    found = merged([statistics_of(part) for part in parts])["action"]
    everything = np.concatenate(parts)
    for name in ("min", "max"):
        np.testing.assert_array_equal(found[name], getattr(everything, name)(axis=0))
    scale = 1 + np.abs(everything).max()
    for name in ("mean", "std"):
        np.testing.assert_allclose(found[name], getattr(everything, name)(axis=0), atol=1e-9 * scale)
    assert found["count"].tolist() == [len(everything)]


def test_quantiles_of_several_datasets_are_left_out_and_of_one_are_kept() -> None:
    one = statistics_of(np.arange(6.0).reshape(2, 3))
    assert merged([one]) == one and "q50" in merged([one])["action"]
    assert set(merged([one, one])["action"]) == {"min", "max", "mean", "std", "count"}


def test_features_that_not_all_have_in_one_shape_are_left_out() -> None:
    one = statistics_of(np.ones((2, 3)))
    assert merged([one, {}]) == {}
    assert merged([one, statistics_of(np.ones((2, 4)))]) == {}
    incomplete = {"action": {"mean": np.ones(3)}}
    assert merged([one, incomplete]) == {}


def test_statistics_come_under_new_names_as_arrays() -> None:
    raw = {"cam": {"mean": [[[0.5]], [[0.25]]], "count": [7]}, "unknown": {"mean": [1]}}
    found = as_arrays(raw, {"cam": "top"})
    assert set(found) == {"top"} and found["top"]["mean"].shape == (2, 1, 1)
    assert found["top"]["count"].tolist() == [7.0]


def test_merging_nothing_but_empty_datasets_gives_no_division_by_zero() -> None:
    empty = {"action": {name: np.zeros(1) for name in ("min", "max", "mean", "std", "count")}}
    assert merged([empty, empty]) == {}
