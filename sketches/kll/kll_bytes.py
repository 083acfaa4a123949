"""The bytes of Apache DataSketches' KLL sketches, read and written by numpy alone.

A KLL sketch keeps some of its values at levels: one at level h stands for 2^h rows. The bytes are the same in C++,
Java and Python, all numbers little-endian::

    preamble 4-byte words u8 | serial version u8 | 15 u8 | flags u8 | k u16 | m u8 | unused u8
    rows u64 | least k that was merged u16 | levels u8 | unused u8 | where each level begins u32 each
    least value | greatest value | values, those of level 0 first

The first eight bytes are all of an empty sketch, and one value follows them in a sketch of one row. Values are 64-bit
floats, 32-bit floats or 64-bit whole numbers; the bytes do not tell which. Bytes from outside are checked whole: the
lengths against each other, the levels' sum against the rows, the order of the values. The library's own code sees only
bytes that `KllBytes.to_bytes` writes.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column
from sketches.errors import CorruptError
from sketches.event_rules import MAX_VALUE
from sketches.records import dataclass

LEAST_K: Final = 8
MOST_K: Final = 65_535
ITEMS: Final[dict[str, np.dtype[Any]]] = {
    "double": np.dtype("<f8"),
    "float": np.dtype("<f4"),
    "bigint": np.dtype("<i8"),
}
MOST_ROWS: Final = 1 << 53  # beyond it sums of rows would not be whole

_FAMILY: Final = 15
_NARROWEST: Final = 8  # m: values at the narrowest level
_EMPTY, _SORTED, _SINGLE = 1, 2, 4  # flags
_SHORT: Final = 8
_FULL: Final = 20
_MOST_LEVELS: Final = 60
_LEAST_NORMAL: Final = 2.0**-1022


@dataclass(frozen=True, slots=True, eq=False)
class KllBytes:
    """A KLL sketch, taken apart: its values from level 0 on, how many each level has, its least and greatest value."""

    k: int
    least_k: int  # of all sketches that were merged into it: what its rank error follows from
    rows: int
    counts: tuple[int, ...]  # of values, by level
    values: Column
    least: float | int
    greatest: float | int

    @classmethod
    def read(cls, data: bytes, items: str) -> KllBytes:
        """The sketch in these bytes, of this kind of values; `CorruptError` where anything in them cannot be."""
        if len(data) < _SHORT:
            raise CorruptError(f"a KLL sketch takes at least {_SHORT} bytes, and these are {len(data)}")
        words, version, family, flags, k, narrowest, _ = struct.unpack_from("<BBBBHBB", data)
        if family != _FAMILY:
            raise CorruptError("the bytes are not a KLL sketch of Apache DataSketches")
        if not (LEAST_K <= k <= MOST_K and narrowest == _NARROWEST):
            raise CorruptError(f"a KLL sketch has k = {k} and m = {narrowest}; k must be 8 to 65,535, and m 8")
        if (words, version, bool(flags & _EMPTY)) == (2, 1, True) and len(data) == _SHORT:
            return cls(k, k, 0, (), np.empty(0, ITEMS[items]), 0, 0)
        if (words, version, bool(flags & _EMPTY)) == (2, 2, False):
            values = _values(data, _SHORT, 1, items)
            return cls(k, k, 1, (1,), values, values[0].item(), values[0].item())
        if (words, version, bool(flags & _EMPTY)) != (5, 1, False) or len(data) < _FULL:
            raise CorruptError(f"a KLL sketch of {len(data)} bytes has the version {version} and {words} words before")
        return cls._of_levels(data, k, items)

    @classmethod
    def _of_levels(cls, data: bytes, k: int, items: str) -> KllBytes:
        rows, least_k, levels, _ = struct.unpack_from("<QHBB", data, _SHORT)
        if not (LEAST_K <= least_k <= k and 1 <= levels <= _MOST_LEVELS and 1 <= rows <= MOST_ROWS):
            raise CorruptError(f"a KLL sketch of {rows} rows has {levels} levels and was merged with k = {least_k}")
        body = _FULL + 4 * levels
        if len(data) < body:
            raise CorruptError(f"a KLL sketch is cut short: {levels} levels in {len(data)} bytes")
        begins = [*struct.unpack_from(f"<{levels}I", data, _FULL), _room(k, levels)]
        counts = tuple(end - begin for begin, end in pairwise(begins))
        if min(counts) < 0 or sum(count << level for level, count in enumerate(counts)) != rows:
            raise CorruptError(f"the levels of a KLL sketch do not stand for its {rows} rows")
        found = _values(data, body, 2 + sum(counts), items)
        least, greatest, values = found[0], found[1], found[2:]
        if least > greatest or values.min() < least or values.max() > greatest:
            raise CorruptError("values of a KLL sketch lie outside its least and greatest one")
        falls = np.flatnonzero(values[1:] < values[:-1]) + 1
        edges = np.cumsum(counts)
        if len(falls) and not np.isin(falls[falls >= counts[0]], edges).all():
            raise CorruptError("the values of a level of a KLL sketch are not in order")
        return cls(k, least_k, rows, counts, values, least.item(), greatest.item())

    def to_bytes(self) -> bytes:
        """The bytes as the library writes them."""
        if self.rows == 0:
            return struct.pack("<BBBBHBB", 2, 1, _FAMILY, _EMPTY, self.k, _NARROWEST, 0)
        if self.rows == 1:
            head = struct.pack("<BBBBHBB", 2, 2, _FAMILY, _SINGLE, self.k, _NARROWEST, 0)
            return head + self.values.tobytes()
        lowest = self.values[: self.counts[0]]
        flags = _SORTED if bool((lowest[1:] >= lowest[:-1]).all()) else 0
        head = struct.pack("<BBBBHBB", 5, 1, _FAMILY, flags, self.k, _NARROWEST, 0)
        head += struct.pack("<QHBB", self.rows, self.least_k, len(self.counts), 0)
        begins = _room(self.k, len(self.counts)) - sum(self.counts) + np.cumsum([0, *self.counts[:-1]])
        ends = np.array([self.least, self.greatest], self.values.dtype)
        return head + begins.astype("<u4").tobytes() + ends.tobytes() + self.values.tobytes()

    @property
    def exact(self) -> bool:
        """Whether every row is kept."""
        return len(self.values) == self.rows

    @property
    def weights(self) -> NDArray[np.float64]:
        """For how many rows each value stands."""
        return np.repeat(np.exp2(np.arange(len(self.counts), dtype=np.float64)), self.counts)

    def seen_as(self, dtype: Any) -> KllBytes:
        """The same sketch with its values as numbers of another type, which must hold them."""
        ends = np.array([self.least, self.greatest], self.values.dtype).astype(dtype)
        least, greatest = ends.tolist()
        return KllBytes(self.k, self.least_k, self.rows, self.counts, self.values.astype(dtype), least, greatest)


def _values(data: bytes, start: int, count: int, items: str) -> Column:
    """The numbers behind `start`, which must be all of the rest; refuses those that no value can be."""
    dtype = ITEMS[items]
    if len(data) != start + count * dtype.itemsize:
        raise CorruptError(
            f"a KLL sketch of {items} values takes {start + count * dtype.itemsize} bytes, and these are {len(data)}"
        )
    values: Column = np.frombuffer(data, dtype, count, start)
    if items == "bigint":
        return values
    if not bool((np.abs(values.astype(np.float64)) <= MAX_VALUE).all()):  # NaN is not, either
        raise CorruptError(f"a KLL sketch holds a value that is not a number of at most {MAX_VALUE:g}")
    if items == "double" and bool(((values != 0.0) & (np.abs(values) < _LEAST_NORMAL)).any()):
        raise CorruptError('a KLL sketch holds numbers below 1e-307, as those of whole numbers do (items = "bigint")')
    return values


@lru_cache(maxsize=1024)
def _room(k: int, levels: int) -> int:
    """How many values fit into so many levels: about two thirds as many in each as in the one above it."""
    return sum(max(_NARROWEST, _two_thirds(k, depth)) for depth in range(levels))


def _two_thirds(k: int, depth: int) -> int:
    """k·(2/3)^depth, rounded as the library does: in two steps where the power of three would not fit 64 bits."""
    if depth <= 30:
        power: int = 3**depth
        return (((k << 1) << depth) // power + 1) >> 1
    half = depth // 2
    return _two_thirds(_two_thirds(k, half), depth - half)


def rank_error(k: int, *, ends: int = 1) -> float:
    """How far off ranks are at the most, of all rows, in 99% of the sketches, as the library has measured; and shares
    between two ends."""
    return 2.446 / math.pow(k, 0.9433) if ends == 2 else 2.296 / math.pow(k, 0.9723)


def k_for(error: float) -> int:
    """The least k with this rank error."""
    k = int(np.ceil((2.296 / error) ** (1.0 / 0.9723) * (1.0 - 1e-12)))
    return min(max(k, LEAST_K), MOST_K)
