"""Arrow columns in forms that the checks of events and fields share: plain types, text, numpy columns, decimals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sketches.arrays import Flags


def plain_type(column: pa.DataType) -> pa.DataType:
    return column.value_type if pa.types.is_dictionary(column) else column


def is_text(column: pa.DataType) -> bool:
    return bool(pa.types.is_string(column) or pa.types.is_large_string(column) or pa.types.is_string_view(column))


def is_bytes(column: pa.DataType) -> bool:
    return bool(pa.types.is_binary(column) or pa.types.is_large_binary(column))


def simplified(array: pa.Array) -> pa.Array:
    """The same column in a type that Arrow's functions know: they do not know views, extensions and half floats."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        entries = simplified(array.dictionary)
        if not (is_text(entries.type) or is_bytes(entries.type)):
            return entries.take(array.indices)
        same = entries.type == array.type.value_type
        return array if same else pa.DictionaryArray.from_arrays(array.indices, entries)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.large_binary())
    return array.cast(pa.float32()) if pa.types.is_float16(array.type) else array


def as_text(array: pa.Array) -> pa.Array:
    """A column as text, the same on every machine: times with a zone are written in UTC, without a list of zones."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return pc.binary_join_element_wise(array.cast(pa.timestamp(array.type.unit)).cast(pa.string()), "Z", "")
    return array if is_text(array.type) else array.cast(pa.string(), safe=False)  # bytes may be text that is not UTF-8


def as_utf8(array: pa.Array) -> pa.Array:
    """A column of text in which bytes that are not UTF-8 are replaced by the replacement character."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.large_binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in raw], pa.large_string())
    return array


def to_numpy(array: pa.Array) -> NDArray[Any]:
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def rounded_down(array: pa.Array) -> tuple[NDArray[np.int64], Flags, Flags]:
    """Decimals rounded down exactly, which of them were whole, and which fit in 64 bits; others end at the limits."""
    signs = to_numpy(array.cast(pa.float64(), safe=False))
    wide, down = array, array
    if array.type.scale > 0:
        wide = array.cast(pa.decimal256(76, array.type.scale))  # rounding down may take a digit more
        down = pc.floor(wide)
    near = np.abs(signs) <= 2.0**63
    numbers = to_numpy(pc.if_else(near, down, pa.scalar(0, down.type)).cast(pa.int64(), safe=False))
    fits = near & ((numbers < 0) == (signs < 0))  # beyond the limits by less than a float can tell, the sign flips
    limits = np.iinfo(np.int64)
    return np.where(fits, numbers, np.where(signs < 0, limits.min, limits.max)), to_numpy(pc.equal(down, wide)), fits
