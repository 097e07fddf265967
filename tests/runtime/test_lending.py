import gc
import os
import threading

import numpy as np
import torch

from penstock.runtime.lending import Buffers, lend

SHAPE = (4, 5_000)


def test_memory_is_used_again_once_nobody_holds_the_array() -> None:
    buffers = Buffers()
    first = buffers.empty(SHAPE, np.float32)
    address = first.ctypes.data
    del first
    assert buffers.empty(SHAPE, np.float32).ctypes.data == address


def test_what_is_held_in_any_way_never_changes() -> None:
    """Held as a tensor, a view of a tensor, an array made from a tensor, or a row of the array."""
    buffers, held = Buffers(), list[tuple[object, float]]()
    for number in range(40):
        array = buffers.empty(SHAPE, np.float32)
        array[:] = number
        tensor = torch.from_numpy(array)
        keep = (tensor, tensor[1], tensor.numpy()[2:, 7], array[3], tensor.view(-1).numpy().reshape(2, -1)[0])
        held.append((keep[number % 5], float(number)))
        del array, tensor, keep
        if number % 3 == 0:
            del held[len(held) // 2]
    gc.collect()
    for kept, number in held:
        assert (np.asarray(kept) == number).all()


def test_another_shape_gets_memory_of_its_own() -> None:
    buffers = Buffers()
    del_me = buffers.empty(SHAPE, np.float32)
    del del_me
    assert buffers.empty((3, 7), np.int64).shape == (3, 7)
    assert buffers.empty((0, 7), np.float32).size == 0


def test_the_child_of_a_fork_does_not_write_into_what_its_parent_uses() -> None:
    buffers = Buffers()
    for _ in range(2):
        buffers.empty(SHAPE, np.float32).fill(1)  # leaves a free buffer
    child = os.fork()
    if child == 0:
        buffers.empty(SHAPE, np.float32).fill(3)
        os._exit(0)
    mine = buffers.empty(SHAPE, np.float32)
    mine.fill(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (mine == 2).all()


def test_threads_never_get_the_same_memory() -> None:
    buffers, wrong = Buffers(), list[int]()

    def work(number: int) -> None:
        for _ in range(500):
            array = buffers.empty(SHAPE, np.float32)
            array[:] = number
            if not (array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_lender_is_told_once_when_the_last_holder_lets_go() -> None:
    told = list[bool]()
    memory = bytearray(64)
    view = lend(memory, lambda: told.append(True))
    array = np.frombuffer(view[8:16], np.uint8)
    row = array[1:3]
    del view, array
    assert told == []
    row[:] = 9
    del row
    assert told == [True]
    assert memory[9:11] == b"\x09\x09"
