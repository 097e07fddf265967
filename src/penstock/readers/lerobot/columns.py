"""Columns of Parquet rows as numpy arrays. Knows types and shapes; not what a column means."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.readers.lerobot.info import Feature


def column_array(column: pa.ChunkedArray, feature: Feature) -> NDArray[Any]:
    """Return the values of a column, copied, so that the rest of the table can be freed.

    Args:
        column: Numbers, lists of numbers, nested or not, or strings.
        feature: Type and shape of one value.

    Returns:
        Array of the feature's type, or of objects for strings. Shape (rows,) for scalars, else (rows, *shape).

    Raises:
        ValueError: If values are missing, do not have this shape, or would change as numbers of this type.
    """
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    _check_complete(values)
    if _is_text(values.type) and feature.dtype == "string":
        return np.array(values.to_pylist(), dtype=object)
    rows = len(values)
    kind = values.type
    while _is_list(values.type):
        _check_equally_long(values)
        values = values.flatten()
        _check_complete(values)
    if feature.dtype == "string" or not _is_number(values.type):
        raise ValueError(f"the column has the type {kind}, but meta/info.json says {feature.dtype}")
    array: NDArray[Any] = np.array(values.to_numpy(zero_copy_only=False))
    size = math.prod(feature.shape)
    if len(array) != rows * size:
        raise ValueError(f"{rows} values hold {len(array)} numbers, but a value has the shape {list(feature.shape)}")
    return exact(array.reshape(rows) if feature.shape == (1,) else array.reshape(rows, *feature.shape), feature.dtype)


def exact(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return numbers as numbers of another type. Floats may be rounded to floats; nothing else may change a value.

    Raises:
        ValueError: If a value would change, with its row.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        cast = values.astype(dtype)
        if values.dtype.kind == cast.dtype.kind == "f":
            changed = np.isfinite(values) & ~np.isfinite(cast)
        else:
            changed = (cast.astype(values.dtype) != values) | ((cast < 0) != (values < 0))
    if changed.any():
        place = tuple(np.argwhere(changed)[0].tolist())
        raise ValueError(f"row {place[0]} holds {values[place]}, which {dtype} can't represent")
    return cast


def has_shape(kind: pa.DataType, feature: Feature) -> bool:
    """Return whether values of a type can have the shape of a feature, as far as the type tells."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if _is_text(kind) or feature.dtype == "string":
        return _is_text(kind) and feature.dtype == "string"
    size = 1
    while _is_list(kind):
        if not pa.types.is_fixed_size_list(kind):
            return True
        size *= kind.list_size
        kind = kind.value_type
    return size == math.prod(feature.shape)


def _check_complete(values: pa.Array) -> None:
    if values.null_count:
        raise ValueError("some values are missing")


def _check_equally_long(lists: pa.Array) -> None:
    """Raise if some lists are longer than others: all values together may still be as many as expected."""
    lengths = pc.min_max(pc.list_value_length(lists))
    if lengths["min"] != lengths["max"]:
        raise ValueError(f"some values have {lengths['min']} numbers, and some {lengths['max']}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
