"""Columns of any type that LeRobot writes, as arrays."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.readers.lerobot.columns import column_array


def chunked(values: list[object], kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of two chunks, the second of which begins within an array."""
    half = len(values) // 2
    later = pa.array([values[0], *values[half:]], kind).slice(1)
    return pa.chunked_array([pa.array(values[:half], kind), later])


@pytest.mark.parametrize("kind", [pa.float32(), pa.int64(), pa.bool_(), pa.uint8()], ids=str)
def test_scalars_are_one_element_per_row(kind: pa.DataType) -> None:
    values = [value == 1 if kind == pa.bool_() else value for value in (1, 0, 1, 1)]
    found = column_array(chunked(values, kind), (1,))
    assert found.tolist() == values and found.dtype == kind.to_pandas_dtype()


def test_strings_are_objects() -> None:
    for kind in (pa.string(), pa.large_string()):
        assert column_array(chunked(["a", "", "é"], kind), (1,)).tolist() == ["a", "", "é"]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float32()), pa.large_list(pa.float32())], ids=str
)
def test_lists_have_the_shape_of_the_feature(kind: pa.DataType) -> None:
    values = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    found = column_array(chunked(values, kind), (2,))
    assert found.tolist() == values and found.dtype == np.float32


def test_nested_lists_have_the_shape_of_the_feature() -> None:
    values = np.arange(24).reshape(4, 3, 2)
    nested = pa.list_(pa.list_(pa.int64(), 2), 3)
    np.testing.assert_array_equal(column_array(chunked(values.tolist(), nested), (3, 2)), values)
    flat = pa.list_(pa.int64())
    np.testing.assert_array_equal(column_array(chunked(values.reshape(4, 6).tolist(), flat), (3, 2)), values)


def test_lists_of_one_number_are_scalars() -> None:
    assert column_array(chunked([[1.0], [2.0]], pa.list_(pa.float32())), (1,)).tolist() == [1.0, 2.0]


def test_lists_of_other_lengths_are_refused_even_if_they_hold_as_many_numbers() -> None:
    with pytest.raises(ValueError, match="some values have 1 numbers, and some 3"):
        column_array(chunked([[1.0], [1.0, 2.0, 3.0]], pa.list_(pa.float32())), (2,))
    with pytest.raises(ValueError, match=r"2 values hold 6 numbers, and a value has the shape \[2\]"):
        column_array(chunked([[1.0, 2.0, 3.0]] * 2, pa.list_(pa.float32())), (2,))


@pytest.mark.parametrize(
    ("values", "kind", "shape"),
    [
        ([1, None], pa.int64(), (1,)),
        (["a", None], pa.string(), (1,)),
        ([[1.0, 2.0], None], pa.list_(pa.float32(), 2), (2,)),
        ([[1.0, 2.0], [1.0, None]], pa.list_(pa.float32(), 2), (2,)),
    ],
)
def test_a_missing_value_is_refused(values: list[object], kind: pa.DataType, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="some values are missing"):
        column_array(chunked(values, kind), shape)


def test_a_type_without_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="are not supported"):
        column_array(chunked([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])), (1,))
