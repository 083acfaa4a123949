"""The types of arrays that all modules speak of, and the one form in which arrays go into compiled kernels."""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]  # hashes, codes and other patterns of 64 bits
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]  # row numbers
Levels = NDArray[np.uint8]  # small numbers: levels of a ladder, heights in a tree
Bytes = NDArray[np.uint8]
Column = NDArray[Any]  # values: integers, floats or hashes of keys
Limits = tuple[Floats, Floats, Floats]  # value, lower and upper limit, one entry per as-of time

_Number = TypeVar("_Number", bound=np.generic)
_HALF: Final = 0.5
_ROOM: Final = 62  # bits of a whole number
_REUSED: Final = 31 << 20  # bytes
_ONE_THREAD: Final = 1 << 18  # products of a matrix product that numpy's library does not deal out to threads


def frozen(column: NDArray[_Number]) -> NDArray[_Number]:
    """The column read-only, contiguous and aligned: numba compiles a kernel anew for every other way to hold numbers.

    Read-only because bytes and Arrow's columns are.
    """
    view = np.require(column, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view


def distinct_sorted(column: NDArray[_Number]) -> NDArray[_Number]:
    """The different numbers in order: `np.unique` without the masked arrays, which it imports and which take long.

    >>> distinct_sorted(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(column)
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def stable_order(column: Column) -> Rows:
    """The order of the numbers, equal ones in the order in which they stand.

    Whole numbers that leave room for the place behind them are sorted with it: a tenth of the time.

    >>> stable_order(np.array([3, 1, 3, -5])).tolist()
    [3, 1, 0, 2]
    """
    if column.dtype.kind not in "iu" or column.dtype.itemsize < np.dtype(np.int32).itemsize or not len(column):
        return np.argsort(column, kind="stable")
    least, bits = int(column.min()), len(column).bit_length()
    if (int(column.max()) - least).bit_length() + bits > _ROOM:
        return np.argsort(column, kind="stable")
    above = column.astype(np.int64) - np.int64(least) if column.dtype.kind == "i" else (column - least).astype(np.int64)
    return np.sort(above << bits | np.arange(len(column))) & ((1 << bits) - 1)


def all_once(column: Ints) -> bool:
    """Whether this is a column of ones that takes no memory: `numpy.broadcast_to` of a 1."""
    return column.strides == (0,) and len(column) > 0 and int(column[0]) == 1


def apart(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Limits moved apart where whole numbers have more digits than floats: then each stands for its neighbours too.

    >>> [float(limit[0]) - 2.0**60 for limit in apart(np.array([2.0**60]), np.array([2.0**60]))]
    [-128.0, 256.0]
    """
    wide = np.maximum(np.abs(lower), np.abs(upper)) >= 2.0**53
    return (
        np.where(wide, np.nextafter(lower, -np.inf), lower),
        np.where(wide, np.nextafter(upper, np.inf), upper),
    )


def power_of_two(size: float) -> float:
    """The least power of two from a size on, by which floats are divided without rounding; 1 for 0.

    >>> power_of_two(5.0), power_of_two(4.0), power_of_two(0.0)
    (8.0, 4.0, 1.0)
    """
    part, exponent = math.frexp(size)
    return math.ldexp(1.0, min(exponent - (part == _HALF), 1023))


def places(values: Column, bounds: Column) -> Rows:
    """How many of the sorted values are below each bound; whole numbers are compared with all their digits.

    >>> places(np.array([2**60 - 1, 2**60, 2**60 + 1]), np.array([2.0**60, np.inf])).tolist()
    [1, 3]
    """
    if values.dtype.kind != "i" or bounds.dtype.kind == "i":
        return np.searchsorted(values, bounds, side="left")
    least = np.ceil(bounds.astype(np.float64))
    known = (least >= -(2.0**63)) & (least < 2.0**63)
    found = np.searchsorted(values, np.where(known, least, 0.0).astype(np.int64), side="left")
    return np.where(known, found, np.where(least < 0.0, 0, len(values)))


def ranges(starts: Rows, stops: Rows) -> tuple[Rows, Rows]:
    """All numbers of many ranges in one array, and for each of them the number of its range.

    >>> [one.tolist() for one in ranges(np.array([5, 9, 0]), np.array([8, 9, 2]))]
    [[5, 6, 7, 0, 1], [0, 0, 0, 2, 2]]
    """
    lengths = np.maximum(stops - starts, 0)
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(which)) + (starts - before)[which], which


def reuse_freed_memory() -> None:
    """Have columns that are freed used again for the next ones, where the C library is glibc; else nothing changes.

    Else each column of some megabytes would be mapped anew and cleared page by page, which takes as long as computing
    it. glibc stops that for sizes up to those of which one was freed once, and at most 32 MB.
    """
    np.empty(_REUSED, np.uint8)  # is freed at once, and never touched


def product(left: Floats, right: Floats) -> Floats:
    """The product of two matrices in one thread, a few columns after the other.

    Dealt out to threads it would wait for cores that are busy, many times as long as it takes by itself.
    """
    found = np.empty((left.shape[0], right.shape[1]))
    step = max(1, _ONE_THREAD // max(1, left.size))
    for start in range(0, right.shape[1], step):
        columns = slice(start, start + step)
        np.matmul(left, right[:, columns], out=found[:, columns])
    return found
