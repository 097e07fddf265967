"""Columns of Parquet rows as numpy arrays. Knows types and shapes; not what a column means."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.readers.lerobot.info import Feature


def column_array(column: pa.ChunkedArray, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the values of a column, copied, so that the rest of the table can be freed.

    Args:
        column: scalars, or lists, nested or not, of numbers; or strings.
        shape: of one value, if values are lists.

    Returns:
        An array of one element per row for scalars, of objects for strings, else of shape (rows, *shape). Lists of
        one number count as scalars.

    Raises:
        ValueError: If values are missing, or do not have this shape.
    """
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    _check_complete(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return np.array(values.to_pylist(), dtype=object)
    rows = len(values)
    is_list = False
    while _is_list(values.type):
        _check_equally_long(values)
        values = values.flatten()
        _check_complete(values)
        is_list = True
    array: NDArray[Any] = np.array(values.to_numpy(zero_copy_only=False))
    if array.dtype == object:
        raise ValueError(f"values of type {values.type} are not supported")
    if not is_list:
        return array
    if len(array) != rows * int(np.prod(shape)):
        raise ValueError(f"{rows} values hold {len(array)} numbers, and a value has the shape {list(shape)}")
    return array.reshape(rows) if shape == (1,) else array.reshape(rows, *shape)


def has_shape(kind: pa.DataType, feature: Feature) -> bool:
    """Return whether values of a type can have the shape of a feature, as far as the type tells."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or feature.dtype == "string":
        return bool(is_text and feature.dtype == "string")
    size = 1
    while _is_list(kind):
        if not pa.types.is_fixed_size_list(kind):
            return True
        size *= kind.list_size
        kind = kind.value_type
    return size == int(np.prod(feature.shape))


def _check_complete(values: pa.Array) -> None:
    if values.null_count:
        raise ValueError("some values are missing")


def _check_equally_long(lists: pa.Array) -> None:
    """Raise if some lists are longer than others: all values together may still be as many as expected."""
    lengths = pc.min_max(pc.list_value_length(lists))
    if lengths["min"] != lengths["max"]:
        raise ValueError(f"some values have {lengths['min']} numbers, and some {lengths['max']}")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
