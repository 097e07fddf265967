"""Arrays of a pickle that lie beside it come back, and all who load them map the same bytes."""

import os
import pickle

import numpy as np
import pyarrow as pa

from penstock.runtime.mappedpickle import dump_mapped, load_mapped


def test_everything_comes_back_and_arrays_are_not_copied() -> None:
    numbers = np.arange(100_000)
    things = {"a": numbers, "b": [np.zeros(0), np.arange(3.0)], "c": pa.array(["x", "yz"]), "d": "text"}
    pieces = list(dump_mapped(things))
    fd = os.memfd_create("test")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.writelines(pieces)
        first = load_mapped(fd)
        second = load_mapped(fd)
        assert (
            first["a"].tolist() == numbers.tolist() and first["b"][1].tolist() == [0, 1, 2] and not len(first["b"][0])
        )
        assert first["c"].to_pylist() == ["x", "yz"] and first["d"] == "text"
        at = next(number for number, piece in enumerate(pieces) if len(piece) == numbers.nbytes)
        os.pwrite(fd, (7).to_bytes(8, "little"), sum(map(len, pieces[:at])))
    finally:
        os.close(fd)
    assert first["a"][0] == second["a"][0] == 7  # both see what is in the file
    assert not first["a"].flags.writeable


def test_the_pickle_itself_does_not_grow_with_arrays() -> None:
    small, large = (list(dump_mapped({"a": np.arange(count)})) for count in (10, 10**6))
    assert abs(len(small[2]) - len(large[2])) < 64 < len(pickle.dumps(np.arange(10)))
