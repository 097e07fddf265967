"""Columns of any type that LeRobot writes, as arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from penstock.readers.lerobot import columns
from penstock.readers.lerobot.info import Feature


def column_array(column: pa.ChunkedArray, shape: tuple[int, ...], dtype: str | None = None) -> NDArray[Any]:
    """Read a column of numbers of its own type, or of the one that ``meta/info.json`` says."""
    kind = column.type
    while isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        kind = kind.value_type
    own = {"double": "float64", "float": "float32", "large_string": "string"}.get(str(kind), str(kind))
    return columns.column_array(column, Feature(dtype or own, shape, None, {}, False))


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
    with pytest.raises(ValueError, match=r"2 values hold 6 numbers, but a value has the shape \[2\]"):
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
    for values, kind in (([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])), (["1", "2"], pa.string())):
        with pytest.raises(ValueError, match=r"the column has the type .*, but meta/info\.json says float32"):
            column_array(chunked(values, kind), (1,), "float32")
    with pytest.raises(ValueError, match=r"the column has the type int64, but meta/info\.json says string"):
        column_array(chunked([1, 2], pa.int64()), (1,), "string")


def test_a_single_number_does_not_stand_for_several() -> None:
    with pytest.raises(ValueError, match=r"2 values hold 2 numbers, but a value has the shape \[3\]"):
        column_array(chunked([1.0, 2.0], pa.float32()), (3,))


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        ([0.0, 225.0], pa.float32(), "int8"),
        ([0.0, 0.5], pa.float32(), "int64"),
        ([0.0, float("nan")], pa.float32(), "int64"),
        ([0.0, 1e300], pa.float64(), "float32"),
        ([0.0, 70_000.0], pa.float32(), "float16"),
        ([0.0, 1e30], pa.float64(), "int64"),
        ([0, 300], pa.int64(), "uint8"),
        ([0, -1], pa.int64(), "uint64"),
        ([0, 2**63 + 5], pa.uint64(), "int64"),
        ([0, 2**24 + 1], pa.int64(), "float32"),
        ([0, 2**63 - 1], pa.int64(), "float64"),
        ([0, 2], pa.int64(), "bool"),
    ],
)
def test_a_cast_that_would_change_a_value_names_the_row(values: list[object], kind: pa.DataType, dtype: str) -> None:
    with pytest.raises(ValueError, match=rf"row 1 holds .*, which {dtype} can't represent"):
        column_array(chunked(values, kind), (1,), dtype)
    with pytest.raises(ValueError, match=rf"row 1 holds .*, which {dtype} can't represent"):
        column_array(chunked([[values[0]] * 2, values], pa.list_(kind)), (2,), dtype)


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        ([0.0, 225.0], pa.float32(), "uint8"),
        ([0.0, float("inf"), float("-inf")], pa.float64(), "float32"),
        ([0, 1, 1], pa.int64(), "bool"),
        ([True, False], pa.bool_(), "float32"),
        ([-3, 2**24], pa.int64(), "float32"),
    ],
)
def test_values_that_another_type_holds_come_as_that_type(values: list[object], kind: pa.DataType, dtype: str) -> None:
    found = column_array(chunked(values, kind), (1,), dtype)
    assert found.tolist() == values and found.dtype == dtype


def test_floats_are_rounded_to_the_floats_of_the_feature() -> None:
    found = column_array(chunked([0.1, 0.2], pa.float64()), (1,), "float32")
    assert found.tolist() == np.array([0.1, 0.2], np.float32).tolist()
