"""Augmentations of whole clips: drawn by the sample, with the length that was planned."""

import numpy as np
import numpy.typing as npt
import pytest

from penstock.recipes.augmenting import Augmentation, Augmentations, SpecAugment, Speed, built_in

RATE = 16_000


def tone(seconds: float, hertz: float) -> npt.NDArray[np.float32]:
    return np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE).astype(np.float32)


def pitch(samples: npt.NDArray[np.float32]) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples)))))) * RATE / len(samples)


def draws(count: int) -> npt.NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 1 << 64, count, dtype=np.uint64)


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0, 1.1, 2.0])
def test_speed_changes_length_and_pitch(factor: float) -> None:
    found = Speed([factor]).wave(tone(1.5, 440), 7)
    assert len(found) == pytest.approx(1.5 * RATE / factor, abs=1)
    assert pitch(found) == pytest.approx(440 * factor, rel=0.01)


def test_each_speed_is_drawn_as_often_as_the_others() -> None:
    speed = Speed([0.8, 1.0, 1.25])
    lengths = speed.lengths(np.full(30_000, 1000), draws(30_000))
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [800, 1000, 1250]
    assert np.abs(counts - 10_000).max() < 500


def test_planned_lengths_are_those_of_the_augmented_clips() -> None:
    """For several augmentations, too: each has its own draw, the same in the plan and in the batch."""
    both = Augmentations([Speed([0.9, 1.1]), Speed([0.8, 1.0, 1.2])])
    some = draws(40)
    lengths = np.random.default_rng(1).integers(200, 900, 40)
    planned = both.lengths(lengths, some)
    for milliseconds, draw, expected in zip(lengths.tolist(), some.tolist(), planned.tolist(), strict=True):
        found = len(both.wave(np.zeros(milliseconds * RATE // 1000, np.float32), draw)) / RATE * 1000
        assert expected - 2 < found <= expected
    assert len(np.unique(np.round(planned / lengths, 1))) > 3


def test_spec_augment_masks_rows_and_bins_and_nothing_else() -> None:
    masks = SpecAugment(time_masks=1, time_share=0.2, bin_masks=1, bins=10)
    rows = np.ones((50, 160), np.float32)
    seen = set()
    for draw in draws(50).tolist():
        found = masks.features(rows.copy(), draw)
        assert np.array_equal(found, masks.features(rows.copy(), draw))
        gone = np.flatnonzero((found == 0).all(1))
        bins = np.flatnonzero((found == 0).all(0))
        assert len(gone) <= 10
        assert np.array_equal(bins[: len(bins) // 2] + 80, bins[len(bins) // 2 :]), "both frames of a row"
        assert len(bins) <= 20
        assert set(np.unique(found).tolist()) <= {0.0, 1.0}
        assert (found == 0).sum() == len(gone) * 160 + (50 - len(gone)) * len(bins)
        seen.add((len(gone), len(bins)))
    assert len(seen) > 20


def test_an_augmentation_of_ones_own_gets_its_own_draw() -> None:
    seen: list[int] = []

    class Noting(Augmentation):
        def wave(self, samples: npt.NDArray[np.float32], draw: int) -> npt.NDArray[np.float32]:
            seen.append(draw)
            return samples

    Augmentations([Noting(), Noting()]).wave(np.zeros(8, np.float32), 5)
    Augmentations([Noting(), Noting()]).wave(np.zeros(8, np.float32), 5)
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("speed", [], "takes factors between 0.5 and 2"),
        ("speed", [0.1], "takes factors between 0.5 and 2"),
        ("speed", 0.9, "takes speed: .* and spec_augment: .*, not speed: 0.9"),
        ("spec_augment", {"masks": 2}, "masks is not one of time_masks, time_share"),
        ("spec_augment", {"bins": 90}, "bins is an integer up to 80"),
        ("speed", ["a"], "takes factors between 0.5 and 2"),
        ("spec_augment", {"time_masks": 1.5}, "masks are integers"),
        ("echo", True, "takes speed: .* and spec_augment: .*, not echo: True"),
    ],
)
def test_wrong_values_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        built_in(name, value)
