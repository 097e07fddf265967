"""Sources and weights that come in the middle of a run: it is the run that knew of them from the start."""

import json
import pickle
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.feed import Feed
from tests.feed.made import entry, made_run

Sources = list[dict[str, Any]]
Mixtures = list[dict[str, Any]]

# Two sources that lanes split. In weights by items, periods are short: all sizes are multiples of 9.
SIZES = {"web": [5, 6, 7], "books": [4, 3, 2], "studio": [9, 9], "radio": [600] * 9, "notes": [900] * 4}


@st.composite
def histories(draw: st.DrawFn) -> tuple[Sources, Mixtures, dict[str, Any]]:
    """All sources and mixtures of a run that changes several times, and its other options.

    A source is appended to the config, under ``known``, at the sample at which it comes or before that.
    """
    names = draw(st.permutations(list(SIZES)))
    first = draw(st.integers(1, 3))
    samples = np.cumsum(draw(st.lists(st.integers(12, 90), min_size=1, max_size=4))).tolist()
    sources = [entry(name, *SIZES[name]) for name in names[:first]]
    for name in names[first:]:
        at = draw(st.sampled_from(samples))
        known = draw(st.sampled_from([sample for sample in [0, *samples] if sample <= at]))
        sources.append({**entry(name, *SIZES[name], at=at), "known": known})
    sources.sort(key=lambda source: source.get("known", 0))
    weights = st.sampled_from(["items", "equal", None]) | st.fixed_dictionaries(
        {name: st.integers(0, 5) for name in SIZES}
    ).filter(lambda given: any(given[name] for name in names[:first]))
    mixtures: Mixtures = [{"weights": draw(weights)}]
    for at, following in zip(samples, [*samples[1:], 10**6], strict=True):
        if draw(st.booleans()):
            mixtures.append({"at": at, "weights": draw(weights)})
            if draw(st.integers(0, 3)) == 3:
                mixtures[-1] |= {"until": min(at + draw(st.integers(3, 60)), following - 1), "stages": 3}
    lanes = draw(st.sampled_from([1, 2]))
    pool = draw(st.sampled_from(["auto", 2]))
    return sources, mixtures, {"lanes": lanes, "pool": pool}


def known_at(sample: int, sources: Sources, mixtures: Mixtures) -> tuple[Sources, Mixtures]:
    """What a config can say at a sample: no mixture that comes later, and no source that was not known."""
    listed = [without_known(source) for source in sources if source.get("known", 0) <= sample]
    names = [source["name"] for source in listed]
    found = []
    for mixture in mixtures:
        weights = mixture["weights"]
        if isinstance(weights, dict):
            weights = {name: weight for name, weight in weights.items() if name in names}
        if mixture.get("at", 0) <= sample:
            found.append({**mixture, "weights": weights})
    return listed, found


def without_known(source: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in source.items() if key != "known"}


def told(batch: dict[str, Any]) -> tuple[Any, ...]:
    """All of a batch, as what can be compared."""
    return batch["step"], batch["ids"], batch["sources"], batch["draws"], batch["rows"].tolist()


@settings(deadline=None, max_examples=20)
@given(histories())
def test_a_run_that_learns_of_changes_as_they_come_is_the_run_that_knew_them(
    case: tuple[Sources, Mixtures, dict[str, Any]],
) -> None:
    sources, mixtures, options = case
    whole = made_run(*map(without_known, sources), mixture=mixtures, **options)
    samples = sorted({each.get(key, 0) for each in [*sources, *mixtures] for key in ("at", "known")})
    state: dict[str, Any] | None = None
    for sample, following in zip(samples, [*samples[1:], samples[-1] + 80], strict=True):
        listed, known = known_at(sample, sources, mixtures)
        feed = made_run(*listed, mixture=known, **options)
        start = 0 if state is None else feed.resume(state)
        stop = following // 4  # the next change comes in the batch after the last one
        for step in range(start, stop):
            assert told(feed.batch(step)) == told(whole.batch(step))
            assert feed.state(step) == whole.state(step)
        state = json.loads(json.dumps(feed.state(stop)))
        assert state == whole.state(stop)
        assert whole.resume(state) == stop


@settings(deadline=None, max_examples=30)
@given(histories())
def test_every_prefix_of_every_segment_is_within_the_bound(case: tuple[Sources, Mixtures, dict[str, Any]]) -> None:
    sources, mixtures, options = case
    run = made_run(*map(without_known, sources), mixture=mixtures, **options)
    changes = run.identity.mixture
    end = changes[-1][0] + 150
    drawn = run.plan.order.look_up(np.arange(end)).source
    for (start, counts), stop in zip(changes, [*(at for at, _ in changes[1:]), end], strict=True):
        positive = sum(count > 0 for count in counts)
        bound = 1 - Fraction(1, 2 * positive - 2) if positive > 1 else Fraction(0)
        for source, count in enumerate(counts):
            found = np.cumsum(drawn[start:stop] == source) * sum(counts)
            due = np.arange(1, stop - start + 1) * count
            assert Fraction(int(abs(found - due).max(initial=0)), sum(counts)) <= bound


def test_no_source_is_drawn_before_it_comes_whatever_the_weights() -> None:
    sources = [entry("web", 5, 6), entry("books", 4, at=30), entry("studio", 9, at=77)]
    for weights in ("items", "equal", None, {"web": 1, "books": 2, "studio": 3}):
        run = made_run(*sources, mixture={"weights": weights})
        assert [at for at, _ in run.identity.mixture] == [0, 30, 77]
        drawn = run.plan.order.look_up(np.arange(300)).source
        assert set(drawn[:30]) == {0} and set(drawn[30:77]) == {0, 1} and set(drawn[77:]) == {0, 1, 2}


def test_sources_come_in_the_mixture_of_their_time() -> None:
    mixture = [{"weights": {"web": 1, "studio": 1}}, {"at": 50, "weights": {"web": 1}}, {"at": 60, "weights": "equal"}]
    run = made_run(entry("web", 5), entry("books", 4), entry("studio", 9, at=55), mixture=mixture)
    assert run.identity.mixture == ((0, (1, 0, 0)), (50, (1, 0, 0)), (60, (1, 1, 1))), "at 55 nothing changes"


def test_hours_of_a_later_source_do_not_decide_the_weights_before_it() -> None:
    """By default weights are hours where they are known of all sources: of those that are there."""
    first = entry("web", 5, hours={"web": 7}), entry("books", 5, hours={"books": 1})
    later = entry("studio", 5, at=40)
    assert made_run(*first).identity.mixture == ((0, (7, 1)),)
    with pytest.raises(penstock.ConfigError, match="weights by hours, but the hours of studio are unknown"):
        made_run(*first, later)
    mixture = [{}, {"at": 40, "weights": {"web": 7, "books": 1, "studio": 2}}]
    assert made_run(*first, later, mixture=mixture).identity.mixture == ((0, (7, 1, 0)), (40, (7, 1, 2)))


def test_a_limit_counts_in_the_weight_of_a_later_source() -> None:
    run = made_run(entry("web", 40), entry("books", 40, limit=10, at=8), mixture={"weights": "items"})
    assert run.identity.mixture == ((0, (1, 0)), (8, (4, 1)))


def test_weights_are_approached_in_equal_stages() -> None:
    mixture = [{"weights": {"web": 1}}, {"at": 100, "until": 400, "stages": 4, "weights": {"web": 1, "books": 1}}]
    run = made_run(entry("web", 5, 6), entry("books", 4), mixture=mixture)
    assert run.identity.mixture == ((0, (1, 0)), (100, (7, 1)), (200, (3, 1)), (300, (5, 3)), (400, (1, 1)))


def test_stages_may_let_a_source_in_and_another_one_out() -> None:
    mixture = [{"weights": {"web": 1}}, {"at": 10, "until": 12, "stages": 3, "weights": {"books": 5}}]
    run = made_run(entry("web", 5, 6), entry("books", 4, at=10), mixture=mixture, lanes=2)
    assert run.identity.mixture == ((0, (1, 0)), (10, (2, 1)), (11, (1, 2)), (12, (0, 1)))


def test_a_source_that_comes_between_stages_is_refused() -> None:
    mixture = [{"weights": "equal"}, {"at": 10, "until": 90, "weights": "equal"}]
    with pytest.raises(
        penstock.ConfigError, match="sources: books comes at sample 50, between `at: 10` and `until: 90`"
    ):
        made_run(entry("web", 5, 6), entry("books", 4, at=50), mixture=mixture)
    made_run(entry("web", 5, 6), entry("books", 4, at=91), mixture=mixture)


def test_a_mixture_without_any_source_yet_is_refused() -> None:
    with pytest.raises(penstock.ConfigError, match="at sample 0 there is no source yet that has a weight"):
        made_run(entry("web", 5), entry("books", 4, at=50), mixture={"weights": {"books": 1}})


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (3, 0), (None, 2)])
def test_loaders_of_all_kinds_have_the_pool_of_the_state(threads: int | None, workers: int) -> None:
    web = entry("web", *[5000] * 20)
    notes = entry("notes", *[600] * 40)
    old = made_run(web, mixture={"weights": {"web": 1}})
    mixture = [{"weights": {"web": 1}}, {"at": 40, "weights": {"web": 1, "notes": 1}}]
    pinned = made_run(web, notes, mixture=mixture, pool=16)
    with made_run(web, notes, mixture=mixture).loader(threads=threads, workers=workers) as loader:
        loader.load_state_dict(old.state(5))
        assert [batch["ids"] for batch in islice(loader, 12)] == [pinned.batch(step)["ids"] for step in range(5, 17)]
        assert loader.state_dict() == pinned.state(17)


def test_a_pickled_feed_keeps_the_pool_of_the_state() -> None:
    run = made_run(entry("web", *[5000] * 20))
    run.resume({**run.state(5), "pool": 19})
    assert run.identity.pool == 19
    again: Feed = pickle.loads(pickle.dumps(run))
    assert again.identity == run.identity
    assert again.batch(7)["ids"] == run.batch(7)["ids"]


def test_a_sampler_whose_workers_have_started_refuses_another_pool() -> None:
    run = made_run(entry("web", *[5000] * 20))
    sampler = iter(run.steps())
    with pytest.raises(penstock.StateError, match="this state has another pool, and workers that have started"):
        sampler.load_state_dict({**run.state(5), "pool": 19})
    assert (run.identity.pool, run.state(0)["step"]) == (16, 0)
    sampler.load_state_dict(run.state(5))
    assert next(sampler) == 5
