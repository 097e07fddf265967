"""Columns of Parquet rows as numpy arrays. Knows types and shapes; not what a column means."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def column_array(column: pa.ChunkedArray, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the values of a column, copied, so that the rest of the table can be freed.

    Args:
        column: scalars, or lists, nested or not, of numbers; or strings.
        shape: of one value, if values are lists.

    Returns:
        An array of one element per row for scalars, of objects for strings, else of shape (rows, *shape).

    Raises:
        ValueError: If the lists do not have this shape.
    """
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return np.array(values.to_pylist(), dtype=object)
    rows = len(values)
    is_list = False
    while _is_list(values.type):
        if values.null_count:
            raise ValueError("some values are missing")
        values = values.flatten()
        is_list = True
    array: NDArray[Any] = np.array(values.to_numpy(zero_copy_only=False))
    if array.dtype == object:
        raise ValueError(f"values of type {values.type} are not supported")
    if not is_list:
        return array
    if len(array) != rows * int(np.prod(shape)):
        raise ValueError(f"{rows} values hold {len(array)} numbers, and a value has the shape {list(shape)}")
    return array.reshape(rows, *shape)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
