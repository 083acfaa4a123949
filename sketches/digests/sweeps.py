"""Sweeps over masses in the order of their values, at many as-of times at once.

What lies below a value is asked for at every moment: by thresholds that move with time, and by quantiles. So masses in
the order of one end of their ranges are cut into blocks, the decayed sums of all blocks come from one product of
matrices, and only the block that a value falls into is gone through mass by mass.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows, Words
from sketches.compiled import njit

_BLOCKS: Final = 32
POSSIBLY: Final = 0
SURELY: Final = 1
ABOUT: Final = 2


class Swept(NamedTuple):
    """Masses in the order of one end of their ranges, and the decayed sums of blocks of them, a line a moment."""

    ends: Words
    node: Rows
    sure: Floats  # what lies in a restriction for sure
    mass: Floats
    size: int  # masses in a block
    least: Floats  # what an event of each range of time counts, a line a moment
    most: Floats
    least_sums: Floats  # of `sure` by `least`
    most_sums: Floats  # of `mass` by `most`

    @classmethod
    def of(cls, ends: Words, order: Rows, node: Rows, sure: Floats, mass: Floats, least: Floats, most: Floats) -> Swept:
        node, sure, mass = node[order], sure[order], mass[order]
        blocks = min(_BLOCKS, max(1, len(least)))
        size = max(1, -(-len(order) // blocks))
        sums = (_block_sums(node, amount, by, size, blocks) for amount, by in ((sure, least), (mass, most)))
        return cls(ends[order], node, sure, mass, size, least, most, *sums)

    def least_split(self, places: Ints) -> tuple[Floats, Floats]:
        """The least sums of the masses before a place, which each moment has, and of the others."""
        return _split(self.least, self.node, self.sure, self.least_sums, self.size, places)

    def greatest_split(self, places: Ints) -> tuple[Floats, Floats]:
        """The greatest sums of the masses before a place, and of the others."""
        return _split(self.most, self.node, self.mass, self.most_sums, self.size, places)

    def reaches(self, mode: int, share: float, slack: float, lost: float) -> Ints:
        """The place at every moment up to which the masses reach a share of all: `POSSIBLY`, `SURELY` or `ABOUT`.

        -1 where no mass can count. What is never reached for sure is so at the last mass that can.
        """
        return _reaches(
            self.least,
            self.most,
            self.node,
            self.sure,
            self.mass,
            self.size,
            self.least_sums,
            self.most_sums,
            mode,
            share,
            slack,
            lost,
        )


def _block_sums(node: Rows, mass: Floats, factors: Floats, size: int, blocks: int) -> Floats:
    """The decayed sums of the masses of each block, one line a moment."""
    ranges = factors.shape[1]
    places = np.arange(len(node)) // size * ranges + node
    table = np.bincount(places, weights=mass, minlength=blocks * ranges).reshape(blocks, ranges)
    return np.ascontiguousarray(factors @ table.T)


@njit(cache=True, nogil=True)
def _split(factors: Floats, node: Rows, mass: Floats, sums: Floats, size: int, places: Ints) -> tuple[Floats, Floats]:
    """The decayed sums of the masses before a place, and from it on, at every moment: sums alone, no differences."""
    below, above = np.zeros(len(places)), np.zeros(len(places))
    blocks = sums.shape[1]
    for at in range(len(places)):
        own = min(places[at] // size, blocks - 1)
        for block in range(own):
            below[at] += sums[at, block]
        for block in range(own + 1, blocks):
            above[at] += sums[at, block]
        for row in range(own * size, min((own + 1) * size, len(mass))):
            if row < places[at]:
                below[at] += mass[row] * factors[at, node[row]]
            else:
                above[at] += mass[row] * factors[at, node[row]]
    return below, above


@njit(cache=True, nogil=True)
def _reaches(
    least: Floats,
    most: Floats,
    node: Rows,
    sure: Floats,
    mass: Floats,
    size: int,
    least_sums: Floats,
    most_sums: Floats,
    mode: int,
    share: float,
    slack: float,
    lost: float,
) -> Ints:
    """What lies behind a mass is summed up from the end: beside a large mass a difference of sums would lose it."""
    places = np.full(len(least), -1)
    blocks = least_sums.shape[1]
    least_rest, most_rest = np.empty(size), np.empty(size)  # what lies behind each mass of one block
    for at in range(len(least)):
        least_after, most_after = _sums_from_the_end(least_sums[at]), _sums_from_the_end(most_sums[at])
        if most_after[0] <= 0.0:
            continue
        some, passed, block = 0.0, 0.0, 0
        while block < blocks and places[at] < 0:
            more, further = some + least_sums[at, block], passed + most_sums[at, block]
            behind_least, behind_most = least_after[block + 1], most_after[block + 1]
            if not _reached(more, further, behind_least, behind_most, mode, share, slack, lost) and block < blocks - 1:
                some, passed, block = more, further, block + 1
                continue
            begin, end = block * size, min((block + 1) * size, len(mass))
            for row in range(end - 1, begin - 1, -1):
                least_rest[row - begin], most_rest[row - begin] = behind_least, behind_most
                behind_least += sure[row] * least[at, node[row]]
                behind_most += mass[row] * most[at, node[row]]
            for row in range(begin, end):
                some += sure[row] * least[at, node[row]]
                passed += mass[row] * most[at, node[row]]
                rests = least_rest[row - begin], most_rest[row - begin]
                if _reached(some, passed, rests[0], rests[1], mode, share, slack, lost):
                    places[at] = row
                    break
            block += 1
        if places[at] < 0:
            row = len(mass) - 1
            while row > 0 and mass[row] * most[at, node[row]] == 0.0:
                row -= 1
            places[at] = row
    return places


@njit(cache=True, nogil=True)
def _sums_from_the_end(amounts: Floats) -> Floats:
    """The sums of each and all after it, and 0."""
    found = np.zeros(len(amounts) + 1)
    for at in range(len(amounts) - 1, -1, -1):
        found[at] = found[at + 1] + amounts[at]
    return found


@njit(cache=True, nogil=True)
def _reached(
    some: float,
    passed: float,
    least_rest: float,
    most_rest: float,
    mode: int,
    share: float,
    slack: float,
    lost: float,
) -> bool:
    """Whether a share is reached by masses that are `some` at the least and `passed` at the most, and others the rest.

    Possibly: the most of them, against that and the least of the others. Surely: the other way round.
    """
    if mode == ABOUT:
        return some + passed >= share * (some + passed + least_rest + most_rest)
    if mode == POSSIBLY:
        below = passed * (1.0 + slack) + (lost if passed > 0.0 else 0.0)
        above = max(least_rest * (1.0 - slack) - lost, 0.0)
    else:
        below = max(some * (1.0 - slack) - lost, 0.0)
        above = most_rest * (1.0 + slack) + (lost if most_rest > 0.0 else 0.0)
    return below + above > 0.0 and below / (below + above) >= share
