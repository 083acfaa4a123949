"""Masses under one exponential decay, by range of values: a q-digest of numbers, Space-Saving counters of keys.

All masses are as of one time. Scaling them moves that time: the lazy scaling of paper C §4.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Levels, Words, frozen
from sketches.compiled import njit
from sketches.digests.dyadic_forest import CODE_BITS
from sketches.digests.dyadic_tree import ALL, PATHS_FORMAT, fold
from sketches.digests.tallies import changes, mask_of, steps_of, unsteps
from sketches.encoding.envelope import Reader, Writer
from sketches.encoding.packing import unzigzag, zigzag
from sketches.errors import CorruptError
from sketches.records import dataclass

_DENSE: Final = 4  # a table over all values pays while it has at most so many entries an event
_BUCKETS: Final = 1 << 16  # a table of so many masses stays in the cache
_FEW: Final = 10_000
MOST_MASS: Final = 1e290  # what all events weigh at the most
LEAST_MASS: Final = 1e-280  # what an event weighs at the least: 0 would forget that it was there


@dataclass(frozen=True, slots=True)
class Masses:
    """Decayed masses by range of codes, as of one time, in the order of codes, the wider range before the narrower.

    Of numbers a q-digest: a mass's events lie in its range. Of keys Space-Saving: a range is one key, and `astray` is
    the most that any key, kept or not, may weigh beyond its counter. `total` is what all events weigh; nothing of it is
    lost.
    """

    code: Words
    height: Levels
    mass: Floats
    total: float
    astray: float
    events: int

    @classmethod
    def none(cls) -> Masses:
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint8), np.empty(0), 0.0, 0.0, 0)

    def scaled(self, factor: float) -> Masses:
        """The summary of the same events, each weighing so many times what it did (C §7.3)."""
        if factor == 1.0:
            return self
        mass = np.maximum(self.mass * factor, LEAST_MASS)
        total = max(self.total * factor, float(mass.sum()))  # events of weight 0 may be all that is not long ago
        return replace(self, mass=mass, total=total, astray=self.astray * factor)

    @classmethod
    def merged(cls, parts: Sequence[Masses]) -> Masses:
        """All parts' masses, which are as of the same time; not yet compressed."""
        code, height, mass = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "height", "mass")
        )
        order = np.lexsort((~height, code))
        first = changes((code[order], height[order]))
        summed = np.add.reduceat(mass[order], first) if len(first) else mass
        kept = order[first]
        return cls(
            code[kept],
            height[kept],
            summed,
            sum(part.total for part in parts),
            sum(part.astray for part in parts),
            sum(part.events for part in parts),
        )

    def digested(self, share: float) -> Masses:
        """A q-digest in as few ranges as its accuracy allows (`sketches.digests.dyadic_tree.fold`)."""
        if len(self.mass) < 2:
            return self
        bounds, none = np.array([0, len(self.mass)], np.int64), np.zeros(1)
        code, height = fold(bounds, self.code, self.height, self.mass, self.mass, none, none, CODE_BITS, share, ALL)
        return Masses.merged([replace(self, code=code, height=height)])

    def saved(self, counters: int) -> Masses:
        """The heaviest keys, each lighter by the mass of the heaviest key that is dropped; `astray` grows by that mass.

        Of `counters + 1` keys or more each loses the same, so `astray` stays below total/(counters + 1): the argument
        of Misra and Gries, whose counters are those of Space-Saving less the smallest one (Agarwal et al. 2012).
        """
        if len(self.mass) <= counters:
            return self
        least = float(np.partition(self.mass, len(self.mass) - counters - 1)[len(self.mass) - counters - 1])
        kept = self.mass > least
        return replace(
            self,
            code=self.code[kept],
            height=self.height[kept],
            mass=self.mass[kept] - least,
            astray=self.astray + least,
        )


def write_masses(writer: Writer, held: Masses) -> None:
    writer.varint(len(held.mass))
    writer.varint(held.events)
    writer.f64(held.total)
    writer.f64(held.astray)
    writer.column(zigzag(steps_of(held.code)))
    writer.column(held.height.astype(np.uint64))
    writer.column(held.mass.view(np.uint64))


def read_masses(reader: Reader) -> Masses:
    rows = reader.varint()
    if rows > reader.remaining:  # every mass takes some bits
        raise CorruptError(f"{rows} masses are announced, but only {reader.remaining} bytes are left")
    events, total, astray = reader.varint(), reader.f64(), reader.f64()
    code = unsteps(unzigzag(reader.column(rows)))
    height = reader.column(rows)
    folded = reader.column(rows) if reader.version < PATHS_FORMAT else np.zeros(rows, np.uint64)
    mass = reader.column(rows).view(np.float64)
    if rows and (height.max() > CODE_BITS or (code & mask_of(height)).any() or folded.max() > 1):
        raise CorruptError("a range of values is not dyadic")
    if not (np.isfinite(mass).all() and (mass >= 0.0).all() and math.isfinite(total) and math.isfinite(astray)):
        raise CorruptError("a mass is not a number")
    if not (0.0 <= total < MOST_MASS and 0.0 <= astray <= total and mass.sum() <= total * (1.0 + 1e-6)):
        raise CorruptError("the masses do not add up")
    if len(changes((code, height, folded))) != rows:
        raise CorruptError("a range is named twice")
    held = Masses(code, height.astype(np.uint8), mass, total, astray, events)
    return held if reader.version >= PATHS_FORMAT else Masses.merged([held])


def by_code(codes: Words, masses: Floats, most: float) -> tuple[Words, Floats, NDArray[np.bool_], int]:
    """The distinct codes in order and what the events of each weigh; of wide domains only as far as it matters.

    Where a table over all values would be large, one over the dyadic ranges of a height is made first, and only ranges
    above 1/most of all are looked into; the codes of the others stand for their ranges (the third column, the height).
    """
    least, greatest = int(codes.min()), int(codes.max())
    wide = max(_DENSE * len(codes), _BUCKETS)
    if greatest - least < wide:
        return *_tally(frozen(codes), frozen(masses), np.uint64(least), greatest - least + 1, 0), _none(), 0
    height = 0
    if len(codes) >= _FEW and most > 0.0:
        while (greatest >> height) - (least >> height) >= _BUCKETS:
            height += 1
    if height == 0:
        order = np.argsort(codes, kind="stable")
        return *_runs(frozen(codes), frozen(masses), order), _none(), 0
    begin = least >> height
    ranges, sums = _tally(frozen(codes), frozen(masses), np.uint64(begin), (greatest >> height) - begin + 1, height)
    light = sums <= sums.sum() / most
    heavy = np.zeros((greatest >> height) - begin + 1, bool)
    heavy[(ranges[~light] - np.uint64(begin)).astype(np.intp)] = True
    inside = np.flatnonzero(heavy[((codes >> np.uint64(height)) - np.uint64(begin)).astype(np.intp)])
    order = inside[np.argsort(codes[inside], kind="stable")]
    exact, exact_sums = _runs(frozen(codes), frozen(masses), order)
    points = np.concatenate((ranges[light] << np.uint64(height), exact))
    coarse = np.arange(len(points)) < np.count_nonzero(light)
    sorted_points = np.argsort(points, kind="stable")
    both = np.concatenate((sums[light], exact_sums))
    return points[sorted_points], both[sorted_points], coarse[sorted_points], height


def _none() -> NDArray[np.bool_]:
    return np.zeros(0, bool)


@njit(cache=True, nogil=True)
def _tally(codes: Words, masses: Floats, least: np.uint64, span: int, height: int) -> tuple[Words, Floats]:
    """The distinct codes, or ranges of a height, in order, and what their events weigh: by a table over all of them."""
    sums, seen = np.zeros(span), np.zeros(span, np.uint8)
    for row in range(len(codes)):
        place = (codes[row] >> np.uint64(height)) - least
        sums[place] += masses[row]
        seen[place] = 1
    found = np.flatnonzero(seen)
    return found.astype(np.uint64) + least, sums[found]


@njit(cache=True, nogil=True)
def _runs(codes: Words, masses: Floats, order: NDArray[np.intp]) -> tuple[Words, Floats]:
    """The same of codes in an order that sorts them."""
    distinct, sums = np.empty(len(order), np.uint64), np.empty(len(order))
    made = 0
    for row in order:
        if made and distinct[made - 1] == codes[row]:
            sums[made - 1] += masses[row]
        else:
            distinct[made], sums[made] = codes[row], masses[row]
            made += 1
    return distinct[:made], sums[:made]
