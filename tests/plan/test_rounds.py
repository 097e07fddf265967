"""Rounds against the loop they stand for: the same samples in the same order, found without a loop."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.endless import Endless
from penstock.plan.order import Order, Source
from penstock.plan.plan import Plan
from penstock.plan.rounds import Rounds, granted
from penstock.plan.timeline import Timeline
from tests.plan.indexes import PrefixIndex
from tests.plan.runs import rows

Records = Iterator[tuple[int, int]]
"""Pass and number of each record of a source."""

MODALITIES = ("text", "image", "video", "audio")


@dataclass(frozen=True)
class Caps:
    """What the rounds of a run are made from."""

    sizes: tuple[tuple[int, ...], ...]  # of the groups of each source
    modalities: tuple[str, ...]
    limits: tuple[int | None, ...]
    max_per_modality: dict[str, int]
    max_per_epoch: int | None
    repeat: int

    def counts(self) -> list[int | None]:
        return granted(
            self.limits,
            self.modalities,
            max_per_modality=self.max_per_modality,
            max_per_epoch=self.max_per_epoch,
        )

    def order(self, *, growing: bool = False) -> Endless:
        sources = [
            Source(
                f"source-{number}",
                PrefixIndex(np.array(sizes)) if growing else np.array(sizes),
                repeat=self.repeat,
                shuffled=False,
            )
            for number, sizes in enumerate(self.sizes)
        ]
        return Endless(sources, Rounds(self.counts(), repeat=self.repeat), residents=2, seed=1, arranged=False)


def random_caps(draw: random.Random) -> Caps:
    number = draw.randint(1, 7)
    least = draw.choice([0, 1, 1])
    capped = draw.random() < 0.7  # every source; else the epoch is
    return Caps(
        sizes=tuple(tuple(draw.randint(1, 9) for _ in range(draw.randint(1, 4))) for _ in range(number)),
        modalities=tuple(draw.choice(MODALITIES) for _ in range(number)),
        limits=tuple(draw.randint(least, 12) if capped or draw.random() < 0.5 else None for _ in range(number)),
        max_per_modality={each: draw.randint(least, 20) for each in MODALITIES if draw.random() < 0.4},
        max_per_epoch=draw.randint(1, 60) if not capped or draw.random() < 0.5 else None,
        repeat=draw.randint(1, 3),
    )


def some_caps(seed: int) -> Caps:
    """Random ones that leave a sample."""
    draw = random.Random(seed)
    caps = random_caps(draw)
    while not any(caps.counts()):
        caps = random_caps(draw)
    return caps


def some_rounds(seed: int) -> Rounds:
    caps = some_caps(seed)
    return Rounds(caps.counts(), repeat=caps.repeat)


def looped(caps: Caps, epochs: int) -> list[list[tuple[int, int, int, int]]]:
    """Every epoch by the loop of the document: (source, pass, record, repeat) of all that it yields.

    Two things differ: iterators go on from epoch to epoch, and an epoch in which every source is capped ends.
    """
    passes = dict.fromkeys(range(len(caps.sizes)), -1)

    def get_iterator(source: int) -> Records:
        passes[source] += 1
        return ((passes[source], record) for record in range(sum(caps.sizes[source])))

    iterators = {source: get_iterator(source) for source in passes}
    return [list(one_epoch(caps, iterators, get_iterator)) for _ in range(epochs)]


def one_epoch(
    caps: Caps, iterators: dict[int, Records], get_iterator: Callable[[int], Records]
) -> Iterator[tuple[int, int, int, int]]:
    unique_samples = 0
    dataset_counts = Counter[int]()
    modality_counts = Counter[str]()
    most = float("inf") if caps.max_per_epoch is None else caps.max_per_epoch
    while unique_samples < most:
        before = unique_samples
        for source, modality in enumerate(caps.modalities):
            limit = caps.limits[source]
            if limit is not None and dataset_counts[source] >= limit:
                continue
            if modality_counts[modality] >= caps.max_per_modality.get(modality, float("inf")):
                continue
            try:
                record = next(iterators[source])
            except StopIteration:
                iterators[source] = get_iterator(source)
                record = next(iterators[source])
            dataset_counts[source] += 1
            modality_counts[modality] += 1
            unique_samples += 1
            for repeat in range(caps.repeat):
                yield source, *record, repeat
            if unique_samples >= most:
                break
        if unique_samples == before:
            return


def planned(caps: Caps, order: Order, slots: range) -> list[tuple[int, int, int, int]]:
    """(source, pass, record, repeat) of some slots."""
    before = [np.cumsum([0, *sizes]) for sizes in caps.sizes]
    found = rows(order.look_up(np.arange(slots.start, slots.stop)))
    return [
        (source, epoch, int(before[source][group]) + item, repeat) for _, source, epoch, repeat, group, item in found
    ]


@pytest.mark.parametrize("seed", range(30))
def test_rounds_are_the_documents_loop(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        caps = random_caps(draw)
        epochs = looped(caps, 3)
        if not epochs[0]:
            with pytest.raises(ValueError, match="an epoch has no samples"):
                caps.order()
            continue
        assert Rounds(caps.counts(), repeat=caps.repeat).epoch == len(epochs[0]), caps
        found = planned(caps, caps.order(growing=draw.random() < 0.3), range(3 * len(epochs[0])))
        assert found == [sample for epoch in epochs for sample in epoch], caps


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_any_slot_is_found_alone_and_back(seed: int, asked: list[int]) -> None:
    rounds = some_rounds(seed)
    together = np.stack(rounds.draws(np.array(asked)))
    for place, slot in enumerate(asked):
        source, draw, own = (int(found[0]) for found in rounds.draws(np.array([slot])))
        assert (source, draw, own) == tuple(together[:, place].tolist())
        assert rounds.slot(source, draw, None) == rounds.slot(source, draw, 0) == slot


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9), st.integers(0, 10**12), st.integers(0, 200))
def test_what_was_drawn_before_a_slot_is_what_a_walk_counts(seed: int, start: int, more: int) -> None:
    rounds = some_rounds(seed)
    number = len(rounds.counts)
    source, draw, _ = rounds.draws(np.arange(start, start + more))
    sources, before = rounds.drawn(start, None)
    assert sources == [each for each, count in enumerate(rounds.counts) if count]
    for each in range(number):  # the draws of a stretch are the next ones
        assert draw[source == each].tolist() == list(range(before[each], before[each] + np.sum(source == each)))
    drawn = np.bincount(source, minlength=number)
    assert rounds.drawn(start + more, 0)[1].tolist() == (before + drawn).tolist()
    assert rounds.quotas(start, start + more).tolist() == drawn.tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_slots_of_undoes_look_up(seed: int, start: int) -> None:
    caps = some_caps(seed)
    order = caps.order()
    for slot, source, epoch, repeat, group, item in rows(order.look_up(np.arange(start, start + 12))):
        slots = sorted(order.slots_of(source, group, item, epoch))
        assert len(slots) == caps.repeat
        assert slots[repeat] == slot


def test_a_source_that_a_cap_leaves_out_has_no_slot() -> None:
    rounds = Rounds([2, 0, 1])
    assert rounds.slot(1, 0, None) is None
    assert rounds.draws(np.arange(6))[0].tolist() == [0, 2, 0, 0, 2, 0]


def test_a_cap_in_the_middle_of_a_round_stops_what_comes_after_it() -> None:
    modalities = ("image", "text", "image", "image")
    caps = granted([None, 5, None, None], modalities, max_per_modality={"image": 5}, max_per_epoch=None)
    assert caps == [2, 5, 2, 1]
    cut = granted([None, 5, None, None], modalities, max_per_modality={"image": 5}, max_per_epoch=7)
    assert cut == [2, 2, 2, 1]
    assert Rounds(cut).draws(np.arange(7))[0].tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_without_any_cap_rounds_go_on_for_ever() -> None:
    rounds = Rounds(granted([None] * 3, ("",) * 3, max_per_modality={}, max_per_epoch=None), repeat=2)
    assert rounds.epoch is None
    source, draw, _ = rounds.draws(np.arange(12))
    assert source.tolist() == [0, 0, 1, 1, 2, 2] * 2
    assert draw.tolist() == [0, 1] * 3 + [2, 3] * 3


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([0, 0], "an epoch has no samples"),
        ([3, None], "an epoch would never end"),
        ([1 << 62, 1 << 62], "at most"),
    ],
)
def test_counts_that_make_no_epoch_are_refused(counts: list[int | None], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rounds(counts)


def test_large_caps_cost_nothing() -> None:
    counts = granted([10**15, 10**12, None], ("a", "a", "b"), max_per_modality={"a": 10**15}, max_per_epoch=10**16)
    assert counts == [10**15 - 10**12, 10**12, 9 * 10**15]
    rounds = Rounds(counts)
    far = 10**16 + 10**15
    source, draw, _ = rounds.draws(np.array([far]))
    assert rounds.slot(int(source[0]), int(draw[0]), None) == far


def test_batches_end_with_the_epoch_and_keep_the_order_of_the_slots() -> None:
    caps = Caps(((4,), (9,), (3,)), ("text",) * 3, (3, 5, 4), {}, None, 1)
    order = caps.order()
    plan = Plan(order, uneven=True, epoch=12)
    timeline = Timeline.constant(5, plan.epoch)
    batches = [plan.batch(step, 0, 1, timeline) for step in range(9)]
    assert [len(batch.slot) for batch in batches] == [5, 5, 2] * 3
    found = [sample for batch in batches for sample in rows(batch)]
    assert [slot for slot, *_ in found] == list(range(36))
    assert [source for _, source, *_ in found[:12]] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2, 1]
    for step, batch in enumerate(batches):  # also split over ranks, and back
        parts = [row for rank in range(3) for row in rows(plan.batch(step, rank, 3, timeline))]
        assert parts == rows(batch)
        for place, (_, source, epoch, _, group, item) in enumerate(rows(batch)):
            [use] = plan.uses(source, group, item, range(epoch, epoch + 1), world=1, timeline=timeline)
            assert (use.step, use.slot) == (step, place)


def test_shuffled_sources_keep_their_own_order_in_rounds() -> None:
    """Which item comes is up to the source's pool, as in a mixture; whose turn it is, to the rounds."""
    sizes = np.full(6, 4)
    sources = [Source(name, sizes, repeat=2) for name in "ab"]
    order = Endless(sources, Rounds([5, 9], repeat=2), residents=3, seed=4, arranged=False)
    found = np.array(rows(order.look_up(np.arange(28 * 24))))
    for source in range(2):
        own = found[found[:, 1] == source]
        assert own[:, 3].tolist() == [0, 1] * (len(own) // 2)
        for epoch in range(len(own) // 48):
            uses = own[own[:, 2] == epoch]
            assert len(np.unique(uses[:, 3:], axis=0)) == 48  # every item exactly once per pass, with its repeat


def test_what_is_resident_is_every_source_of_the_rounds_also_those_that_are_capped_now() -> None:
    caps = Caps(((2, 2, 2), (2, 2, 2), (2, 2)), ("text",) * 3, (1, 6, 0), {}, None, 1)
    order = caps.order()
    assert order.residents(np.arange(5)) == [(0, 0), (0, 1), (1, 1), (1, 2)]
    assert order.residents(np.arange(7, 12)) == [(0, 0), (0, 1), (1, 1), (1, 2)]
    assert order.residents(np.arange(14, 19)) == [(0, 1), (0, 2), (1, 1), (1, 2)]
