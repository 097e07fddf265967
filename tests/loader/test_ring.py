"""A batch that was made in its slot is there already; all others are copied into it."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock.loader.ring import FreeSlots, Slot
from penstock.runtime.lending import Buffers, making_in


def carried(slot: Slot, make: Callable[[], Any]) -> tuple[Any, int]:
    """What a trainer gets of what ``make`` makes in the slot, and how much of the slot its arrays took."""
    with making_in(slot):
        batch = make()
    start, end = slot.write(batch)
    return Slot(slot.fd).copy((start, end)), start


def filled(buffers: Buffers, shape: tuple[int, ...], value: float) -> Any:
    array = buffers.empty(shape, np.float32)
    array[:] = value
    return array


def test_arrays_that_were_made_in_the_slot_are_not_moved() -> None:
    slot, buffers, places = Slot.create(), Buffers(), []

    def make() -> Any:
        wav = filled(buffers, (4, 1_000), 3)
        places.append(wav.__array_interface__["data"][0])
        return {"wav": wav, "length": np.arange(4)}

    for _ in range(3):
        batch, end = carried(slot, make)
        assert (batch["wav"] == 3).all() and batch["length"].tolist() == [0, 1, 2, 3]
        assert end == 16_000 + 64, "the slot holds the first once, and the second in a line of its own"
    assert len(set(places[1:])) == 1, "the slot is used again from its beginning"
    slot.close()


def test_a_slot_grows_under_arrays_that_were_made_in_it() -> None:
    slot, buffers = Slot.create(), Buffers()
    batch, _ = carried(slot, lambda: [filled(buffers, (size,), size) for size in (10, 100_000, 1_000_000, 7)])
    assert [(len(array), set(array.tolist())) for array in batch] == [
        (size, {float(size)}) for size in (10, 100_000, 1_000_000, 7)
    ]
    slot.close()


def test_parts_of_what_was_made_in_the_slot_and_foreign_arrays_are_copied() -> None:
    slot, buffers = Slot.create(), Buffers()

    def make() -> Any:
        wav = filled(buffers, (4, 100), 5)
        wav[1] = 6
        filled(buffers, (50,), 9)  # made, and not part of the batch
        return {"row": wav[1], "turned": np.full((3, 2), 7).T, "wav": wav}

    batch, _ = carried(slot, make)
    assert (batch["row"] == 6).all() and (batch["turned"] == 7).all()
    assert batch["wav"][:, 0].tolist() == [5, 6, 5, 5]
    slot.close()


@pytest.mark.parametrize("tensor", [False, True], ids=["array", "tensor"])
def test_transposed_views_of_what_was_made_in_the_slot_are_not_moved(tensor: bool) -> None:
    torch = pytest.importorskip("torch") if tensor else None
    slot, buffers, made = Slot.create(), Buffers(), list[Any]()

    def make() -> Any:
        frames = buffers.empty((2, 3, 4, 5), np.uint8)
        frames[:] = np.arange(120).reshape(frames.shape)
        made.append(np.moveaxis(frames, -1, -3))
        return made[0] if torch is None else torch.from_numpy(made[0])

    with making_in(slot):
        batch = make()
    where = slot.write(batch)
    assert where[0] == 128, "the slot holds the frames once"
    for got in (Slot(slot.fd).copy(where), Slot(slot.fd).lend(where, bool)):
        assert np.array_equal(np.asarray(got), made[0])
        assert np.asarray(got).strides == made[0].strides
    slot.close()


@pytest.mark.parametrize("cut", [np.s_[:, :2], np.s_[::-1], np.s_[:, ::2], np.s_[:2]], ids=str)
def test_parts_at_the_beginning_of_what_was_made_arrive_as_they_were(cut: Any) -> None:
    slot, buffers = Slot.create(), Buffers()
    made = list[Any]()

    def make() -> Any:
        array = buffers.empty((4, 6), np.int64)
        array[:] = np.arange(24).reshape(4, 6)
        made.append(array.copy())
        return [array[cut], array.T[cut], np.broadcast_to(array[0], (3, 6))]

    batch, _ = carried(slot, make)
    wanted = [made[0][cut], made[0].T[cut], np.broadcast_to(made[0][0], (3, 6))]
    assert all(np.array_equal(got, array) for got, array in zip(batch, wanted, strict=True))
    slot.close()


def test_outside_of_the_block_buffers_are_their_own_again() -> None:
    slot, buffers = Slot.create(), Buffers()
    with making_in(slot):
        inside = filled(buffers, (10,), 1)
    outside = filled(buffers, (10,), 2)
    assert (inside == 1).all() and (outside == 2).all()
    slot.close()


def test_the_slot_given_back_last_is_taken_first() -> None:
    free = FreeSlots.create(4)
    taken = [free.take() for _ in range(4)]
    assert sorted(taken) == [0, 1, 2, 3]
    for slot in (2, 0, 3):
        free.give_back(slot)
    elsewhere = FreeSlots(free.fd)
    assert [elsewhere.take(), free.take(), elsewhere.take()] == [3, 0, 2]


KINDS: list[Any] = [
    np.array(3.5),  # no dimension
    np.zeros((0, 4), np.float32),
    np.array([b"ab", b"c"]),
    np.array(["2026-11-16"], "M8[D]"),
    np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")]),
    np.arange(6, dtype=">i2").reshape(2, 3)[:, ::2],
    np.array([{"any": "thing"}, None], object),
    np.ma.masked_array([1, 2], [False, True]),
    memoryview(b"bytes").tobytes(),
    bytearray(b"more"),
]


@pytest.mark.parametrize("kind", KINDS, ids=[str(getattr(kind, "dtype", type(kind))) for kind in KINDS])
def test_whatever_a_recipe_makes_arrives_as_it_was(kind: Any) -> None:
    slot = Slot.create()
    [got, again], _ = carried(slot, lambda: [kind, kind])
    assert type(got) is type(kind) and again is got
    assert getattr(got, "dtype", None) == getattr(kind, "dtype", None)
    assert np.shape(got) == np.shape(kind) and np.array_equal(got, kind)
    slot.close()


def test_who_keeps_one_array_of_a_copy_does_not_keep_the_others() -> None:
    slot, buffers = Slot.create(), Buffers()
    batch, _ = carried(slot, lambda: {"wav": filled(buffers, (4, 100_000), 1), "length": np.arange(4)})
    assert batch["length"].base is None and batch["length"].flags.owndata
    slot.close()


def test_no_slot_is_given_out_twice() -> None:
    free = FreeSlots.create(2)
    assert {free.take(), free.take()} == {0, 1}
    with pytest.raises(RuntimeError, match="all 2 slots of a worker are in use"):
        free.take()


def test_a_batch_without_arrays_is_given_back_at_once() -> None:
    slot, released = Slot.create(), list[bool]()
    where = slot.write({"ids": ["a"]})
    assert slot.lend(where, lambda: released.append(True)) == {"ids": ["a"]} and released == [True]
    slot.close()


def test_a_forked_child_that_drops_a_batch_gives_nothing_back() -> None:
    free = FreeSlots.create(2)
    taken = {free.take(), free.take()}
    free.give_back(0)
    if not (child := os.fork()):
        free.give_back(1)  # as when its copy of the batch goes
        os._exit(0)
    os.waitpid(child, 0)
    assert taken == {0, 1} and free.take() == 0
    free.give_back(1)
    assert free.take() == 1
