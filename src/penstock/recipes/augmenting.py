"""Augmentations of whole clips: functions of the clip and its draw alone, so the same from any worker or rank.

To write your own, inherit from ``Augmentation`` and override what it changes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.waveform import RATE, Samples
from penstock.plan.draws import Ints, Words, words


class Augmentation:
    """A change of clips. By default it changes nothing.

    Attributes:
        key: Options that change lengths, as text; empty if there are none.

    Examples:
        >>> import numpy as np
        >>> from penstock.recipes import Augmentation
        >>> class Softer(Augmentation):
        ...     def wave(self, samples, draw):
        ...         return samples * np.float32(np.random.default_rng(draw).uniform(0.5, 1.0))
    """

    key: str = ""

    def wave(self, samples: Samples, draw: int) -> Samples:  # noqa: ARG002
        """Return the changed waveform.

        Args:
            samples: Waveform at 16 kHz, which may be overwritten.
            draw: Random 64-bit number of this sample and this augmentation.
        """
        return samples

    def features(self, rows: Samples, draw: int) -> Samples:  # noqa: ARG002
        """Return the changed features.

        Args:
            rows: W2V-BERT features of the clip, shape [rows, 160], which may be overwritten.
            draw: Random 64-bit number of this sample and this augmentation.
        """
        return rows

    def lengths(self, lengths: Ints, draws: Words) -> Ints:  # noqa: ARG002
        """Return the lengths of clips after ``wave``, rounded up, for batches by length.

        Args:
            lengths: Lengths of clips, in thousandths of a second.
            draws: Draw of each clip, as ``wave`` gets it.
        """
        return lengths


class Speed(Augmentation):
    """Plays clips faster or slower, which changes the pitch as well.

    Args:
        factors: Speeds, of which each clip takes one at random, such as ``[0.9, 1.0, 1.1]``.

    Raises:
        ValueError: If there is no factor, or one is not between 0.5 and 2.
    """

    def __init__(self, factors: Sequence[float]) -> None:
        numbers = all(type(factor) in (int, float) for factor in factors)
        if not factors or not numbers or not all(0.5 <= factor <= 2 for factor in factors):
            raise ValueError(f"speed: takes factors between 0.5 and 2, such as [0.9, 1.0, 1.1], not {list(factors)}")
        self._factors = np.array(factors, dtype=np.float64)
        self.key = f"speed {self._factors.tolist()}"

    def wave(self, samples: Samples, draw: int) -> Samples:
        factor = float(self._chosen(np.array([draw], dtype=np.uint64))[0])
        if factor == 1 or not len(samples):
            return samples
        import soxr

        changed: Samples = soxr.resample(samples, factor * RATE, RATE)
        return changed

    def lengths(self, lengths: Ints, draws: Words) -> Ints:
        return np.ceil(lengths / self._chosen(draws)).astype(np.int64)

    def _chosen(self, draws: Words) -> NDArray[np.float64]:
        count = np.uint64(len(self._factors))
        return self._factors[((draws >> np.uint64(32)) * count >> np.uint64(32)).astype(np.int64)]


class SpecAugment(Augmentation):
    """Sets some consecutive rows and some consecutive mel bins of the features to zero, their mean.

    Args:
        time_masks: Number of masks of rows.
        time_share: Largest share of the rows of a clip that a mask covers.
        bin_masks: Number of masks of mel bins.
        bins: Largest number of the 80 mel bins that a mask covers.

    Raises:
        ValueError: If a number is of another type, or out of its range.
    """

    def __init__(self, *, time_masks: int = 2, time_share: float = 0.05, bin_masks: int = 2, bins: int = 27) -> None:
        whole = all(type(number) is int and number >= 0 for number in (time_masks, bin_masks, bins))
        if not whole or bins > 80 or type(time_share) not in (int, float) or not 0 <= time_share <= 1:
            raise ValueError(
                "spec_augment: time_share is between 0 and 1, bins is an integer up to 80, masks are integers from 0 on"
            )
        self._time = (time_masks, time_share)
        self._bins = (bin_masks, bins)

    def features(self, rows: Samples, draw: int) -> Samples:
        numbers = iter(words(draw, np.arange(2 * (self._time[0] + self._bins[0]))).tolist())
        for _ in range(self._time[0]):
            start, stop = _mask(len(rows), int(len(rows) * self._time[1]), next(numbers), next(numbers))
            rows[start:stop] = 0.0
        by_bin = rows.reshape(len(rows), 2, 80)  # two frames per row
        for _ in range(self._bins[0]):
            start, stop = _mask(80, self._bins[1], next(numbers), next(numbers))
            by_bin[:, :, start:stop] = 0.0
        return rows


def _mask(length: int, longest: int, first: int, second: int) -> tuple[int, int]:
    """Return the bounds of a mask of 0 … ``longest`` places."""
    size = (first * (longest + 1)) >> 64
    start = (second * (length - size + 1)) >> 64
    return start, start + size


class Augmentations:
    """Several augmentations, one after the other, each with its own draw.

    Args:
        given: Augmentations.
    """

    def __init__(self, given: Sequence[Augmentation] = ()) -> None:
        self._given = tuple(given)
        self.key = ", ".join(each.key for each in self._given if each.key)

    def wave(self, samples: Samples, draw: int) -> Samples:
        for number, each in enumerate(self._given):
            samples = each.wave(samples, _own(draw, number))
        return np.ascontiguousarray(samples, dtype=np.float32)

    def features(self, rows: Samples, draw: int) -> Samples:
        for number, each in enumerate(self._given):
            rows = each.features(rows, _own(draw, number))
        return rows

    def lengths(self, lengths: Ints, draws: Words) -> Ints:
        for number, each in enumerate(self._given):
            lengths = each.lengths(lengths, words(draws, np.array([number])))
        return lengths


def _own(draw: int, number: int) -> int:
    return int(words(draw, np.array([number]))[0])


_SPEC_AUGMENT = ("time_masks", "time_share", "bin_masks", "bins")


def built_in(name: str, value: object) -> Augmentation:
    """Return the augmentation that a config names.

    Args:
        name: ``speed`` or ``spec_augment``.
        value: Factors of speed; arguments of ``SpecAugment``, or true.

    Raises:
        ValueError: If there is none of this name, or its value is wrong.
    """
    if name == "speed" and isinstance(value, list):
        return Speed(value)
    if name == "spec_augment" and (value is True or isinstance(value, dict)):
        given = {} if value is True else value
        unknown = [str(key) for key in given if key not in _SPEC_AUGMENT]
        if unknown:
            raise ValueError(f"spec_augment: {unknown[0]} is not one of {', '.join(_SPEC_AUGMENT)}")
        return SpecAugment(**given)
    raise ValueError(
        f"takes speed: [0.9, 1.0, 1.1] and spec_augment: true or {{time_masks: 2, …}}, not {name}: {value!r}"
    )
