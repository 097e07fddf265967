"""``exclude`` in a config: names, identity, states, and what it leaves of a run."""

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from tests.feed.made import entry, made_run

SOURCES = (entry("a", *[5] * 8), entry("b", *[4] * 6))


def run(*exclude: dict[str, Any], **options: Any) -> Feed:
    return made_run(*SOURCES, pool=3, exclude=list(exclude), **options)


def ids(feed: Feed, steps: int) -> list[list[str]]:
    return [feed.batch(step)["ids"] for step in range(steps)]


def test_other_samples_stay_where_they_were() -> None:
    plain = ids(run(), 40)
    found = ids(run({"at": 40, "items": ["a-7", "b/2"]}), 40)
    gone = {"a-7", *(f"b-{row}" for row in range(8, 12))}
    assert found[:10] == plain[:10]
    pairs = list(zip(chain.from_iterable(plain), chain.from_iterable(found), strict=True))
    assert {was for was, now in pairs if was != now} == gone
    assert not gone & {now for _, now in pairs[40:]}


def test_where_finds_the_items_that_take_the_places_of_others() -> None:
    feed = run({"items": ["a-7", "a-8", "a-12"]})
    used = [(item, step, slot) for step, batch in enumerate(ids(feed, 30)) for slot, item in enumerate(batch)]
    for item in ("a-7", "a-9", "a-11", "b-3"):
        found = [(item, use.step, use.slot) for _, use in feed.where(item, range(4)) if use.step < 30]
        assert sorted(found) == [use for use in used if use[0] == item]


def test_a_state_from_before_the_first_change_is_accepted_and_a_later_one_refused() -> None:
    before = run()
    after = run({"at": 24, "items": ["a-7"]})
    assert after.resume(before.state(6)) == 6
    with pytest.raises(penstock.StateError, match=r"exclude \(none then, .*load a state of sample 24 or before$"):
        after.resume(before.state(7))
    assert after.resume(after.state(7)) == 7
    with pytest.raises(penstock.StateError, match=r"exclude \(some items then, none now\); keep .*`at`$"):
        before.resume(after.state(7))
    assert before.resume(after.state(6)) == 6


def test_a_later_entry_of_another_source_leaves_earlier_states_valid() -> None:
    one = run({"items": ["a-7"]})
    two = run({"items": ["a-7"]}, {"at": 40, "items": ["b-3"]})
    assert two.resume(one.state(6)) == 6
    with pytest.raises(penstock.StateError, match="exclude"):
        two.resume(one.state(11))


def test_the_identity_does_not_depend_on_how_items_are_written(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("b/2\na-7\n\n")
    one = run({"at": 4, "items": ["a-7", "b/2"]})
    other = run({"at": 9, "items": ["a-7"]}, {"at": 4, "items": str(tmp_path / "names.txt")})
    assert one.identity == other.identity


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(penstock.ConfigError, match="exclude: no source has an item or a group named 'a-99', 'c/1'"):
        run({"items": ["a-1", "a-99", "c/1"]})


def test_a_name_that_is_no_text_is_an_error() -> None:
    with pytest.raises(penstock.ConfigError, match=r"exclude.0.items: the name 725 is not a text; write it in quotes"):
        run({"items": [725]})


def test_a_source_that_is_excluded_whole_is_an_error() -> None:
    with pytest.raises(penstock.ConfigError, match=r"exclude: 24 items of source 'b' are excluded.*weight 0"):
        run({"items": [f"b/{group}" for group in range(6)]})


def test_a_finite_run_marks_the_places_as_padding() -> None:
    feed = run({"items": ["a/1"]}, passes=1, shuffle=False)
    batches = [feed.batch(step) for step in range(16)]
    assert sum(int(batch["valid"].sum()) for batch in batches) == 64 - 5
    assert batches[1]["valid"].tolist() == [True, False, False, False]


def test_another_process_excludes_the_same() -> None:
    feed = run({"items": ["a-7", "b/2"]})
    assert ids(pickle.loads(pickle.dumps(feed)), 20) == ids(feed, 20)
