"""The bound holds, the least recently used leave first, what is in use stays, and refusals say what would be enough."""

import threading
import time
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.cache.account import CONTROL
from penstock.store.cache.admission import Admission, CacheInUse, CacheTooSmall
from penstock.store.cache.entry import CacheEntry

BOUND = 100


def door(folder: Path, max_bytes: int = BOUND, evicted: list[int] | None = None) -> Admission:
    (folder / CONTROL).mkdir(exist_ok=True)
    return Admission(folder, max_bytes, 10, (evicted if evicted is not None else []).append)


def enter(admission: Admission, folder: Path, name: str, size: int, patience: float = 0) -> CacheEntry:
    entry = admission.enter(folder / "s3" / "deep" / f"{name}~1.data", size, patience)
    entry.touch(time.time_ns())
    return entry


def names(admission: Admission) -> list[str]:
    return [Path(resident.path).name.partition("~")[0] for resident in admission.residents()]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=60))
def test_it_is_an_exact_lru_that_skips_what_is_pinned(
    tmp_path_factory: pytest.TempPathFactory, uses: list[tuple[str, bool]]
) -> None:
    """Against a model: each use opens an object; a kept one stays pinned for the next two uses."""
    folder = tmp_path_factory.mktemp("lru")
    admission = door(folder)
    model: OrderedDict[str, int] = OrderedDict()
    kept: list[tuple[str, CacheEntry]] = []
    for name, keep in uses:
        size = 5 + 4 * "abcdefgh".index(name)
        entry = enter(admission, folder, name, size)
        if name not in model:
            enough = BOUND if sum(model.values()) + size <= BOUND else BOUND * 95 // 100
            for other in list(model):
                if sum(model.values()) + size > enough and other not in [pinned for pinned, _ in kept]:
                    del model[other]
            model[name] = size
        model.move_to_end(name)
        if keep:
            kept.append((name, entry))
        else:
            entry.close()
        if len(kept) > 2:
            kept.pop(0)[1].close()
        assert names(admission) == list(model)
        assert sum(model.values()) <= BOUND
    for _, entry in kept:
        entry.close()


def test_an_object_larger_than_the_bound_is_refused_with_what_would_be_enough(tmp_path: Path) -> None:
    with pytest.raises(CacheTooSmall, match=r"may hold 100 bytes, but big needs 101.*at least 101") as refused:
        enter(door(tmp_path), tmp_path, "big", 101, patience=60)
    assert refused.value.enough == 101


def test_a_pinned_working_set_larger_than_the_bound_is_refused_with_what_would_be_enough(tmp_path: Path) -> None:
    admission = door(tmp_path)
    pinned = [enter(admission, tmp_path, name, 45) for name in "ab"]
    with pytest.raises(CacheInUse, match=r"c beside 90 pinned bytes needs 120.*at least 120") as refused:
        enter(admission, tmp_path, "c", 30)
    assert refused.value.enough == 120
    for entry in pinned:
        entry.close()
    enter(admission, tmp_path, "c", 30).close()


def test_who_finds_no_room_waits_until_something_is_let_go(tmp_path: Path) -> None:
    admission = door(tmp_path)
    pinned = enter(admission, tmp_path, "a", 80)
    entered: list[CacheEntry] = []
    waiter = threading.Thread(target=lambda: entered.append(enter(admission, tmp_path, "b", 80, patience=60)))
    waiter.start()
    time.sleep(0.1)
    assert names(admission) == ["a"]
    pinned.close()
    waiter.join()
    assert names(admission) == ["b"]
    entered[0].close()


def test_a_smaller_bound_than_last_time_evicts_at_the_start(tmp_path: Path) -> None:
    for name in "abc":
        enter(door(tmp_path), tmp_path, name, 30).close()
    evicted: list[int] = []
    smaller = door(tmp_path, 70, evicted)
    smaller.trim()
    assert names(smaller) == ["b", "c"]
    assert evicted == [30]


def test_nothing_is_left_of_what_is_evicted(tmp_path: Path) -> None:
    admission = door(tmp_path)
    enter(admission, tmp_path, "a", 30).close()
    assert all(admission.remove(resident) for resident in admission.residents())
    assert [path.name for path in tmp_path.iterdir()] == [CONTROL]


def test_a_reservation_that_nobody_filled_counts_and_can_be_evicted(tmp_path: Path) -> None:
    admission = door(tmp_path)
    enter(admission, tmp_path, "a", 60).close()
    assert sum(resident.size for resident in admission.residents()) == 60
    enter(admission, tmp_path, "b", 60).close()
    assert names(admission) == ["b"]
