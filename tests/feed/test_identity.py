"""Which states a run accepts whose sources change: those that saw nothing else, by the names of what they drew."""

import json
from typing import Any

import pytest

from penstock.feed import Feed
from penstock.feed.identity import Identity
from penstock.feed.state import StateError
from tests.feed.made import entry, made_run

WEB = entry("web", 5, 6, 7)
BOOKS = entry("books", 4, 3)
STUDIO = entry("studio", 9, 8)
SAMPLES = 60


def old_run(**options: Any) -> Feed:
    return made_run(WEB, BOOKS, **options)


@pytest.fixture
def state() -> dict[str, Any]:
    """After 60 samples of two sources, through a file."""
    found: dict[str, Any] = json.loads(json.dumps(old_run().state(SAMPLES // 4)))
    return found


def refused(feed: Feed, state: dict[str, Any]) -> str:
    with pytest.raises(StateError) as caught:
        feed.resume(state)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("at", [SAMPLES, SAMPLES + 1, 10**6])
def test_a_source_that_comes_at_the_state_or_later_is_accepted(state: dict[str, Any], at: int) -> None:
    later = made_run(WEB, BOOKS, {**STUDIO, "at": at})
    assert later.resume(state) == SAMPLES // 4
    assert later.state(SAMPLES // 4) == state


@pytest.mark.parametrize("sources", [[WEB, BOOKS, STUDIO], [WEB, BOOKS, {**STUDIO, "at": SAMPLES - 9}]])
def test_a_source_that_would_have_been_drawn_is_refused_with_what_to_write(
    state: dict[str, Any], sources: list[dict[str, Any]]
) -> None:
    said = refused(made_run(*sources), state)
    assert "it differs in items (new: studio; list new sources last, with `at: 60` or later in each of " in said
    assert "mixture" not in said, "which differs only because of the source"


def test_a_rare_source_that_was_not_drawn_yet_is_refused_with_what_to_write() -> None:
    """It has a weight, but its first slot is after the state: only the mixture tells."""
    state = made_run(WEB, BOOKS, mixture={"weights": {"web": 1000, "books": 1000}}).state(SAMPLES // 4)
    rare = {"weights": {"web": 1000, "books": 1000, "studio": 1}}
    said = refused(made_run(WEB, BOOKS, STUDIO, mixture=rare), state)
    assert "if studio came later, list them last, with `at: 60` or later)" in said
    assert made_run(WEB, BOOKS, {**STUDIO, "at": SAMPLES}, mixture=rare).resume(state) == SAMPLES // 4


@pytest.mark.parametrize("at", [0, SAMPLES])
def test_a_source_in_the_middle_of_the_list_is_refused(state: dict[str, Any], at: int) -> None:
    said = refused(made_run(WEB, {**STUDIO, "at": at} if at else STUDIO, BOOKS), state)
    assert "new: studio; list new sources last, with `at: 60` or later in each of their entries" in said


def test_a_source_within_an_entry_is_refused_unless_it_is_its_last() -> None:
    """Rows of an entry are numbered in order, and what is random of a sample is drawn by its row."""
    mixture = {"weights": {"web": 1, "books": 1}}
    several = entry("", sizes={"books": [4, 3], "web": [5, 6]})
    state = made_run(several, mixture=mixture).state(15)
    last = entry("", sizes={"books": [4, 3], "web": [5, 6], "zulu": [9]})
    assert made_run(last, mixture=mixture).resume(state) == 15
    middle = entry("", sizes={"books": [4, 3], "studio": [9], "web": [5, 6]})
    assert "new: studio; list new sources last" in refused(made_run(middle, mixture=mixture), state)


def test_a_dropped_source_stays_listed(state: dict[str, Any]) -> None:
    mixture = [{}, {"at": SAMPLES, "weights": {"web": 1}}]
    assert made_run(WEB, BOOKS, mixture=mixture).resume(state) == SAMPLES // 4
    assert "2 sources then, 1 now; a source that is no longer drawn stays listed, with weight 0" in refused(
        made_run(WEB), state
    )


def test_weights_that_are_edited_in_place_are_refused_with_what_to_write(state: dict[str, Any]) -> None:
    said = refused(old_run(mixture={"weights": "equal"}), state)
    assert "now; keep the old weights in the list, and give the new ones `at: 60` or later)" in said


def test_data_that_changed_is_refused_once_it_was_drawn_and_not_before() -> None:
    mixture = {"weights": {"web": 2, "books": 1, "studio": 1}}
    sources = [WEB, BOOKS, {**STUDIO, "at": SAMPLES}]
    changed = made_run(WEB, BOOKS, {**STUDIO, "at": SAMPLES, "data": "again"}, mixture=mixture)
    run = made_run(*sources, mixture=mixture)
    first = next(step for step in range(99) if any(line.source == "studio" for line in run.lines(step)))
    for step in range(40):
        if step <= first:
            assert changed.resume(run.state(step)) == step
        else:
            assert "differs in items (of studio)" in refused(changed, run.state(step))


def test_data_before_a_drawn_source_of_the_same_entry_counts_though_never_drawn() -> None:
    """Its size moves the rows of the sources after it."""
    mixture = {"weights": {"web": 1}}
    state = made_run(entry("", sizes={"books": [4, 3], "web": [5, 6]}), mixture=mixture).state(15)
    longer = made_run(entry("", sizes={"books": [4, 4], "web": [5, 6]}), mixture=mixture)
    assert "differs in items (of books)" in refused(longer, state)
    apart = [entry("books", 4, 3), entry("web", 5, 6)]
    state = made_run(*apart, mixture=mixture).state(15)
    assert made_run(entry("books", 4, 4), apart[1], mixture=mixture).resume(state) == 15


def test_a_source_that_was_never_drawn_may_go() -> None:
    mixture = {"weights": {"web": 1, "books": 1}}
    state = made_run(WEB, BOOKS, STUDIO, mixture=mixture).state(15)
    assert made_run(WEB, BOOKS, mixture=mixture).resume(state) == 15
    assert "new: studio" not in refused(made_run(WEB, mixture={"weights": {"web": 1}}), state)


@pytest.mark.parametrize("options", [{"mixture": "rounds"}, {"passes": 2}])
def test_rounds_and_finite_runs_refuse_one_more_source(options: dict[str, Any]) -> None:
    state = old_run(**options).state(3)
    said = refused(made_run(WEB, BOOKS, STUDIO, **options), state)
    assert "new: studio; rounds and finite runs have all of their sources from the start" in said


def earlier_form(identity: Identity, samples: int) -> dict[str, Any]:
    """The fingerprint that earlier releases wrote: of all sources that are listed."""
    past = [change for change in identity.mixture if change[0] < samples]
    return identity._fingerprint(identity.sources, past)


@pytest.mark.parametrize("mixture", [{}, {"weights": {"web": 3, "books": 1}}])
@pytest.mark.parametrize("step", [0, 1, 15])
def test_states_of_earlier_releases_which_knew_all_sources_stay_valid(mixture: dict[str, Any], step: int) -> None:
    """Not all sources are drawn at once, and one never is."""
    run = made_run(WEB, BOOKS, STUDIO, mixture=mixture, global_batch_size=1)
    state = run.state(step)
    before = earlier_form(run.identity, step)
    assert (before == state["fingerprint"]) == (step == 15 and not mixture), "else this test shows nothing"
    saved = {**state, "fingerprint": before}
    assert run.resume(saved) == step
    more = made_run(WEB, BOOKS, STUDIO, entry("radio", 3, at=15), mixture=mixture, global_batch_size=1)
    assert more.resume(saved) == step
    changed = made_run(WEB, BOOKS, {**STUDIO, "data": "again"}, mixture=mixture, global_batch_size=1)
    assert "differs in items (of studio)" in refused(changed, saved)
    if step:
        early = made_run(WEB, BOOKS, STUDIO, entry("radio", 3), mixture={"weights": "equal"}, global_batch_size=1)
        refused(early, saved)


def test_earlier_states_of_more_sources_than_have_digits_stay_valid() -> None:
    sources = [entry(f"s{number}", 2) for number in range(120)]
    run = made_run(*sources, mixture={"weights": {"s0": 1}}, global_batch_size=1)
    saved = {**run.state(5), "fingerprint": earlier_form(run.identity, 5)}
    assert (
        made_run(*sources, entry("new", 3, at=9), mixture={"weights": {"s0": 1}}, global_batch_size=1).resume(saved)
        == 5
    )


def test_a_state_stays_small_with_a_hundred_sources_of_a_long_history() -> None:
    sources = [entry(f"language-{number}", 7, at=1000 * number) for number in range(100)]
    mixture = [{"weights": "equal"}, {"at": 50_500, "until": 50_900, "weights": "equal", "temperature": 2}]
    run = made_run(*sources, mixture=mixture)
    state = run.state(10**9)
    assert len(json.dumps(state)) < 1000
    assert run.resume(state) == 10**9


def test_the_pool_is_that_of_the_state(caplog: pytest.LogCaptureFixture) -> None:
    """Weights by name need no ``at`` of the source; ``auto`` then knows other sizes than at the start."""
    large = entry("web", *[5000] * 20)
    mixture = [{"weights": {"web": 1}}]
    old = made_run(large, mixture=mixture)
    state = old.state(100)
    mixture.append({"at": 400, "weights": {"web": 1, "notes": 1}})
    notes = entry("notes", *[600] * 40)
    new = made_run(large, notes, mixture=mixture)
    assert (state["pool"], new.identity.pool) == (16, 110)
    assert new.resume(state) == 100
    assert (
        "pool: auto is 110 for these sources, but the run began with 16 and keeps it; write `pool: 16`" in caplog.text
    )
    assert new.identity.pool == 16
    assert new.state(100) == state
    assert repr([new.batch(step) for step in range(99)]) == repr([old.batch(step) for step in range(99)])
    assert "pool (16 then, 20 now)" in refused(made_run(large, notes, mixture=mixture, pool=20), state)
    assert made_run(large, notes, mixture=mixture, pool=16).resume(state) == 100


def test_a_pool_that_is_none_is_refused(state: dict[str, Any]) -> None:
    for pool in (0, -1, "16", None, True, 1 << 70):
        assert "pool" in refused(old_run(), {**state, "pool": pool})


def test_a_state_that_is_refused_leaves_the_pool_as_it_was(state: dict[str, Any]) -> None:
    run = old_run(seed=6)
    plan = run.plan
    refused(run, {**state, "pool": 3})
    assert run.plan is plan
    assert run.resume({**state, "pool": 3}, strict=False) == SAMPLES // 4
    assert run.plan is plan
