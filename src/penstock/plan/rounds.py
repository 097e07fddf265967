"""Rounds: every source gives one sample per round, in order, until a cap stops it. Knows no items.

A source that a cap has stopped does not come back in the same epoch. So a source with c samples per epoch is in rounds
0 … c - 1, and the counts of all sources determine everything. Between two counts, all rounds are alike:

    counts 3, 1, 4        round 0   round 1   round 2   round 3
    source 0                 A         A         A
    source 1                 B
    source 2                 C         C         C         C
                          phase 0   phase 1 ---------   phase 2

Every epoch has the same counts, and positions in a source go on from epoch to epoch.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints

_MAX_EPOCH_SLOTS = 1 << 62  # slots are 64-bit integers


class Rounds:
    """The source of every slot of a run in rounds. There is one lane.

    Args:
        counts: Samples per source and epoch, from ``granted``. If all are None, there are no epochs: rounds never end.
        repeat: Number of slots in a row for each sample. The streams of the sources must have the same ``repeat``.

    Attributes:
        counts: Samples per source and epoch; per round if there are no epochs.
        repeat: Number of slots in a row for each sample.
        epoch: Slots per epoch; None if there are no epochs.

    Raises:
        ValueError: If an epoch has no sample, or too many for 64-bit integers, or if only some counts are known.
    """

    lanes = 1

    def __init__(self, counts: Sequence[int | None], *, repeat: int = 1) -> None:
        known = [count for count in counts if count is not None]
        if known and len(known) < len(counts):
            raise ValueError("some sources have no cap: an epoch would never end; cap all of them, or the epoch")
        if len(known) == len(counts) and not any(known):
            raise ValueError("an epoch has no samples: every source, or its modality, has the cap 0")
        self.counts = tuple(known) if known else (1,) * len(counts)
        slots = sum(self.counts) * repeat
        if slots > _MAX_EPOCH_SLOTS:
            raise ValueError(f"an epoch of {slots} samples; at most {_MAX_EPOCH_SLOTS} are supported")
        self.repeat = repeat
        self.epoch = slots if known else None
        self._counts = np.array(self.counts, dtype=np.int64)
        self._samples = int(self._counts.sum())  # per epoch, without repeats
        ends = np.unique(self._counts[self._counts > 0])  # the round after the last one of each phase
        taking = [np.flatnonzero(self._counts >= end) for end in ends]
        self._round = np.concatenate([[0], ends[:-1]])  # the first of each phase
        self._width = np.array([len(sources) for sources in taking])  # sources per round of each phase
        samples = (ends - self._round) * self._width
        self._start = np.cumsum(samples) - samples  # the first sample of each phase
        self._taking = np.concatenate(taking)  # the sources of one round of each phase, phase after phase
        self._first = np.cumsum(self._width) - self._width  # where those of each phase begin

    def draws(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the source of each slot and the number of earlier draws from it, twice: there is one lane."""
        nth, repeat = np.divmod(slots, self.repeat)
        epoch, sample = np.divmod(nth, self._samples)
        phase = self._start.searchsorted(sample, side="right") - 1
        rounds, place = np.divmod(sample - self._start[phase], self._width[phase])
        source = self._taking[self._first[phase] + place]
        before = epoch * self._counts[source] + self._round[phase] + rounds
        index = before * self.repeat + repeat
        return source, index, index

    def drawn(self, stop: int, lane: int | None) -> tuple[list[int], Ints]:  # noqa: ARG002
        """Return the sources of the rounds, and the number of draws from each before a slot."""
        nth, repeat = divmod(stop, self.repeat)
        epoch, sample = divmod(nth, self._samples)
        phase = int(self._start.searchsorted(sample, side="right")) - 1
        rounds, place = divmod(sample - int(self._start[phase]), int(self._width[phase]))
        first = int(self._first[phase])
        number = int(self._round[phase]) + rounds
        samples = epoch * self._counts + np.minimum(self._counts, number)
        samples[self._taking[first : first + place]] += 1  # those that had their turn in this round
        drawn = samples * self.repeat
        drawn[self._taking[first + place]] += repeat
        return np.flatnonzero(self._counts).tolist(), drawn

    def slot(self, source: int, draw: int, lane: int | None) -> int | None:  # noqa: ARG002
        """Return the slot of a draw from a source, or None if the source is in no round."""
        count = self.counts[source]
        if not count:
            return None
        nth, repeat = divmod(draw, self.repeat)
        epoch, number = divmod(nth, count)
        phase = int(self._round.searchsorted(number, side="right")) - 1
        first = int(self._first[phase])
        width = int(self._width[phase])
        place = int(self._taking[first : first + width].searchsorted(source))
        sample = int(self._start[phase]) + (number - int(self._round[phase])) * width + place
        return (epoch * self._samples + sample) * self.repeat + repeat

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the number of draws from each source in the slots start … stop - 1."""
        _, before = self.drawn(start, None)
        _, after = self.drawn(stop, None)
        return (after - before).astype(np.float64)


def granted(
    limits: Sequence[int | None],
    modalities: Sequence[str],
    *,
    max_per_modality: Mapping[str, int],
    max_per_epoch: int | None,
) -> list[int | None]:
    """Return the number of samples per source and epoch.

    A cap may be reached in the middle of a round: then later sources of the same modality, or all later sources, have
    no turn in it.

    Args:
        limits: Cap of each source; None for no cap.
        modalities: Modality of each source.
        max_per_modality: Caps over all sources of a modality. Other modalities have none.
        max_per_epoch: Cap over all sources; None for no cap.

    Returns:
        One count per source; None if no cap applies to the source.
    """
    counts = list(limits)
    for modality, most in max_per_modality.items():
        own = [source for source, its in enumerate(modalities) if its == modality]
        for source, count in zip(own, _dealt([counts[source] for source in own], most), strict=True):
            counts[source] = count
    return counts if max_per_epoch is None else list(_dealt(counts, max_per_epoch))


def _dealt(limits: Sequence[int | None], total: int) -> list[int]:
    """Deal ``total`` samples to sources in rounds, up to their limits; fewer if all limits are reached."""
    most = [total if limit is None else min(limit, total) for limit in limits]
    rounds = 0  # that are complete
    left = total
    for reached, limit in enumerate(sorted(most)):
        taking = len(most) - reached
        if (limit - rounds) * taking > left:
            more, left = divmod(left, taking)
            rounds += more
            break
        left -= (limit - rounds) * taking
        rounds = limit
    else:
        return most
    counts = [min(limit, rounds) for limit in most]
    taking_more = [source for source, limit in enumerate(most) if limit > rounds]
    for source in taking_more[:left]:
        counts[source] += 1
    return counts
