"""The state of a run: small, the same for every rank, and refused with a reason where it does not belong."""

import copy
import functools
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.state import StateError
from tests.shards import small_run, write_shards

MIXED = {"assamese": 3, "bengali": 2, "gujarati": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, *, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    if "batch_size" not in options:
        options = {"global_batch_size": 12, **options}
    return penstock.open(small_run(folder, **options), rank=rank, world=world)


def slots(feed: Feed, step: int, world: int = 1) -> set[int]:
    """Which samples of the run the global batch of a step takes."""
    return {slot for rank in range(world) for slot in feed.planned(step, rank, world).slot.tolist()}


def test_it_is_small_and_plain_json_for_twelve_sources_and_several_changes(tmp_path: Path) -> None:
    sizes = {f"language-{number:02}": [3, 2] for number in range(12)}
    write_shards(tmp_path, sizes)
    mixture = [{"weights": "hours"}, *({"at": 1000 * n, "weights": dict.fromkeys(sizes, n)} for n in range(1, 4))]
    feed = opened(tmp_path, mixture=mixture)
    for size in (24, 36, 48):
        later = opened(tmp_path, mixture=mixture, global_batch_size=size)
        later.resume(feed.state(10**9 + size))
        feed = later
    state = feed.state(10**12)
    assert json.loads(json.dumps(state)) == state
    assert len(json.dumps(state)) < 1000


def test_states_that_exist_stay_valid(folder: Path) -> None:
    """Written by the release that knew neither rounds nor file order: a checkpoint must not lose its place."""
    fingerprint = {"seed": 0, "items": "e68dac9296e8c4ec", "sources": "000ab1fb81ee"}
    state = {"step": 5, "samples": 60, "segments": [[0, 0, 12]], "batch_size": None, "lanes": 1, "pool": 2}
    state["fingerprint"] = {**fingerprint, "run": "endless", "mixture": "2f7fc8b75785d74e"}
    assert opened(folder).state(5) == state
    finite = {"run": "2 passes", "mixture": "4f53cda18c2baa0c"}
    assert opened(folder, passes=2).state(2)["fingerprint"] == fingerprint | finite


def test_it_is_the_same_for_every_rank_and_says_where_the_run_is(folder: Path) -> None:
    states = [opened(folder, rank=rank, world=4, batch_size=3).state(7) for rank in range(4)]
    assert all(state == states[0] for state in states)
    assert (states[0]["step"], states[0]["samples"], states[0]["segments"]) == (7, 84, [[0, 0, 12]])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, r"seed \(0 then, 1 now\)"),
        ({"mixture": {"weights": MIXED}}, "mixture"),
        ({"lanes": 2}, r"lanes \(1 then, 2 now\)"),
        ({"pool": 3}, r"pool \(2 then, 3 now\)"),
        ({"passes": 2}, r"run \(endless then, 2 passes now\)"),
        ({"shuffle": False}, r"run \(endless then, endless, in file order now\), pool \(2 then, None now\)"),
    ],
)
def test_a_state_of_another_run_is_refused_and_what_differs_is_named(
    folder: Path, changed: dict[str, Any], named: str
) -> None:
    state = opened(folder).state(5)
    other = opened(folder, **changed)
    with pytest.raises(StateError, match=named) as caught:
        other.resume(state)
    assert "strict=False" in str(caught.value)
    assert "\n" not in str(caught.value)
    differing = set(changed) | ({"run", "mixture"} if "passes" in changed else set())  # passes have no mixture
    differing |= {"run", "pool"} if "shuffle" in changed else set()  # file order has no pool
    for same in {"seed", "items", "mixture", "lanes", "pool", "run"} - differing:
        assert f"{same} (" not in str(caught.value)


def test_other_items_are_named(folder: Path, tmp_path: Path) -> None:
    write_shards(tmp_path, {"assamese": [5, 7, 4], "bengali": [6, 5], "gujarati": [3, 4, 3]})
    with pytest.raises(StateError, match=r"differs in items \("):
        opened(tmp_path).resume(opened(folder).state(5))


def test_two_differences_are_both_named(folder: Path) -> None:
    with pytest.raises(StateError, match=r"seed .*, pool "):
        opened(folder, seed=1, pool=3).resume(opened(folder).state(5))


def test_not_strict_goes_on_from_the_same_sample(folder: Path) -> None:
    state = opened(folder).state(5)
    other = opened(folder, seed=1)
    assert other.resume(state, strict=False) == 5
    assert slots(other, 5) == set(range(60, 72))
    with other.loader(threads=0) as loader:
        loader.load_state_dict(state, strict=False)
        assert next(loader)["ids"] == opened(folder, seed=1).batch(5)["ids"]


@pytest.mark.parametrize("at", [60, 61, 1000])
def test_a_mixture_that_takes_over_after_the_states_last_sample_is_no_mismatch(folder: Path, at: int) -> None:
    planned = opened(folder, mixture=[{"weights": "equal"}, {"at": at, "weights": MIXED}])
    assert planned.resume(opened(folder).state(5)) == 5  # 60 samples were used: 0 … 59
    opened(folder).resume(planned.state(5))


def test_a_mixture_that_took_over_before_is(folder: Path) -> None:
    planned = opened(folder, mixture=[{"weights": "equal"}, {"at": 59, "weights": MIXED}])
    with pytest.raises(StateError, match="mixture"):
        planned.resume(opened(folder).state(5))


def test_weights_do_not_matter_to_a_finite_run(folder: Path) -> None:
    state = opened(folder, passes=2).state(3)
    assert opened(folder, passes=2, mixture={"weights": MIXED}).resume(state) == 3


def test_the_number_of_ranks_and_the_batch_size_are_free(folder: Path) -> None:
    state = opened(folder, world=2, batch_size=6).state(5)
    assert opened(folder, world=3, batch_size=6).resume(state) == 5
    assert opened(folder, batch_size=5).resume(state) == 5
    assert opened(folder, global_batch_size=7).resume(state) == 5


def test_the_batch_size_times_the_world_stays_as_it_was_at_the_first_start(folder: Path) -> None:
    state = opened(folder, world=2, batch_size=6).state(5)
    for world in (1, 3, 4):
        feed = opened(folder, world=world, batch_size=6)
        feed.resume(state)
        assert slots(feed, 5, world) == set(range(60, 72))
        assert feed.state(5) == state


def test_a_new_batch_size_begins_at_the_state_and_outlives_the_next_one(folder: Path) -> None:
    feed = opened(folder, batch_size=12)
    for size, step, first in ((5, 10, 120), (8, 10, 120), (3, 14, 152), (12, 15, 155)):
        state = feed.state(step)
        feed = opened(folder, batch_size=size)
        assert feed.resume(json.loads(json.dumps(state))) == step
        assert slots(feed, step) == set(range(first, first + size))
        assert slots(feed, 3) == set(range(36, 48)), "what was before stays as it was"


def test_a_state_saved_at_the_step_it_was_loaded_at_keeps_the_new_batch_size(folder: Path) -> None:
    first = opened(folder, batch_size=12)
    second = opened(folder, batch_size=8)
    step = second.resume(first.state(10))
    third = opened(folder, batch_size=8)
    third.resume(second.state(step))
    assert slots(third, 10) == slots(second, 10) == set(range(120, 128))


def test_the_state_of_an_earlier_step_has_no_later_change_of_the_batch_size(folder: Path) -> None:
    resumed = opened(folder, batch_size=8)
    resumed.resume(opened(folder, batch_size=12).state(10))
    earlier = resumed.state(6)
    assert (earlier["segments"], earlier["samples"], earlier["batch_size"]) == ([[0, 0, 12]], 72, None)
    assert resumed.state(10)["segments"] == [[0, 0, 12], [10, 120, 8]]
    again = opened(folder, batch_size=8)
    assert again.resume(earlier) == 6
    assert slots(again, 5) == slots(resumed, 5)
    assert slots(again, 6) == set(range(72, 80)), "from the state on, the batch size is that of the config"


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"samples": 71}, "by its segments, step 6 begins at sample 72, not at 71"),
        ({"step": 7}, "by its segments, step 7 begins at sample 84, not at 72"),
        ({"segments": [[0, 0, 12], [9, 108, 8]]}, r"its segment \[9, 108, 8\] begins after its step, 6"),
        ({"batch_size": 5}, "batch_size is 5, and its last segment has global batches of 12"),
        ({"batch_size": 0}, "batch_size is 0, and its last segment has global batches of 12"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(
    folder: Path, changed: dict[str, Any], said: str, strict: bool
) -> None:
    feed = opened(folder, batch_size=12)
    with pytest.raises(StateError, match=f"^this state contradicts itself: {said}; load one as it was saved$"):
        feed.resume({**feed.state(6), **changed}, strict=strict)


@pytest.mark.parametrize("value", [10.7, 10.0, True, np.True_, "10", [10], -1, float("nan")])
@pytest.mark.parametrize(
    "name", ["step", "samples", "epoch", "batches_consumed", "batch_size", "world", "lanes", "pool"]
)
def test_what_is_no_whole_number_is_refused_by_its_name(folder: Path, name: str, value: Any) -> None:
    own = {"batches_consumed": 10, "batch_size": 12, "world": 1}
    feed = opened(folder, batch_size=12)
    state = own if name in ("batches_consumed", "world") else feed.state(10)
    with pytest.raises(StateError, match=f"^not a state of a feed: {name} is .*; expected a non-negative integer$"):
        feed.resume({**state, name: value})


def test_a_number_in_segments_that_is_no_whole_number_is_refused(folder: Path) -> None:
    feed = opened(folder)
    for odd in ([0.0, 0, 12], [0, False, 12], [0, 0, "12"]):
        with pytest.raises(StateError, match=r"a number in segments is .*; expected a non-negative integer"):
            feed.resume({**feed.state(3), "segments": [odd]})


@pytest.mark.parametrize("value", [None, "abc", 7, [7], [[0, 0]], {"a": 1}])
def test_what_is_no_list_of_segments_is_shown(folder: Path, value: Any) -> None:
    feed = opened(folder)
    said = rf"segments is {re.escape(repr(value))}; expected a list of \[step, sample, batch size\]$"
    with pytest.raises(StateError, match=f"^not a state of a feed: {said}"):
        feed.resume({**feed.state(3), "segments": value})


@pytest.mark.parametrize("value", [None, "abc", [1]])
def test_a_fingerprint_that_is_no_dict_is_shown(folder: Path, value: Any) -> None:
    feed = opened(folder)
    with pytest.raises(StateError, match=rf"fingerprint is {re.escape(repr(value))}; expected a dict$"):
        feed.resume({**feed.state(3), "fingerprint": value})


def test_integers_of_numpy_are_valid(folder: Path) -> None:
    feed = opened(folder)
    state = feed.state(np.int64(5))
    assert json.loads(json.dumps(state)) == state
    as_numpy = {**state, "step": np.int32(5), "samples": np.uint64(60), "segments": np.array([[0, 0, 12]])}
    step = opened(folder).resume(as_numpy)
    assert (step, type(step)) == (5, int)
    assert feed.resume({"batches_consumed": np.int64(10), "batch_size": np.int16(4)}) == 10


@pytest.mark.parametrize("step", [10.7, "10", True, -1])
def test_the_state_of_a_step_that_is_no_whole_number_is_an_error(folder: Path, step: Any) -> None:
    with pytest.raises(ValueError, match=r"step is .*; expected a non-negative integer"):
        opened(folder).state(step)


@pytest.mark.parametrize(
    ("state", "first"),
    [
        ({"batches_consumed": 10, "batch_size": 4}, 40 * 3),
        ({"batches_consumed": 10, "batch_size": 4, "world": 2}, 40 * 2),
        ({"batches_consumed": 0, "batch_size": 4}, 0),
    ],
)
def test_a_trainers_own_count_is_read_with_its_world_or_the_current_one(
    folder: Path, state: dict[str, int], first: int
) -> None:
    feed = opened(folder, world=3, batch_size=4)
    step = feed.resume(state)
    assert step == state["batches_consumed"]
    assert slots(feed, step, 3) == set(range(first, first + 12))


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"step": 3},
        {"epoch": 1},
        {"batches_consumed": 3},
        {"batches_consumed": "many", "batch_size": 1},
        {"batches_consumed": -1, "batch_size": 1},
        {"step": -1, "samples": 0, "segments": [[0, 0, 12]], "lanes": 1, "pool": 2, "fingerprint": {}},
        {"step": 3, "segments": [[0, 0]]},
        {"step": 3, "segments": [[5, 0, 12]]},
        {"step": 3, "segments": None},
        {"step": 3, "samples": 36, "segments": [[0, 0, 12]], "lanes": 1, "pool": 2, "fingerprint": None},
        None,
        [1, 2],
    ],
)
def test_what_is_no_state_is_refused_in_one_line(folder: Path, state: Any) -> None:
    feed = opened(folder)
    before = feed.batch(2)["ids"]
    with pytest.raises(StateError, match="not a state of a feed") as caught:
        feed.resume(state)
    assert "\n" not in str(caught.value)
    assert feed.batch(2)["ids"] == before


ODD: list[Any] = [
    *(None, True, -1, 0.5, 10**400, float("inf"), float("-inf"), float("nan"), "", "a", [], {}, [[]], [[0, 0, 0]]),
    *([[0, 0, float("inf")]], [[5, 0, 12]], {"seed": float("nan")}, [1, 2]),
]


@pytest.mark.parametrize("strict", [True, False])
def test_a_state_with_odd_values_is_refused_in_words(folder: Path, strict: bool) -> None:
    feed = opened(folder)
    states = [
        feed.state(7),
        opened(folder, batch_size=12).state(7),
        {"batches_consumed": 7, "batch_size": 12, "world": 1},
    ]
    states.append({**states[0], "epoch": 36})
    draw = random.Random(3)
    for _ in range(1_000):
        state = copy.deepcopy(draw.choice(states))
        state[draw.choice(list(state))] = draw.choice(ODD)
        try:
            step = opened_once(folder).resume(state, strict=strict)
        except StateError as error:
            assert "\n" not in str(error)
        else:
            assert isinstance(step, int) and step >= 0
            assert opened_once(folder).planned(step).slot.dtype.kind == "i"


@pytest.mark.parametrize("state", [None, [], "state.json", 7])
def test_what_is_no_dict_is_named_in_the_message(folder: Path, state: Any) -> None:
    with pytest.raises(StateError) as error:
        opened_once(folder).resume(state)
    assert str(error.value) == f"not a state of a feed: expected a dict, not {state!r}"


def test_an_empty_dict_is_no_state(folder: Path) -> None:
    with pytest.raises(StateError, match="not a state of a feed: it has no 'segments'"):
        opened_once(folder).resume({})


@functools.cache
def opened_once(folder: Path) -> Feed:
    return opened(folder)
