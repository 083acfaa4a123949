"""How wide an interval of `wbmh` and `division` will be, before anybody asks; of `wbmh` relative to the answer.

How long blocks are at each age follows from the decay that they are made for. What values leave in doubt is a part of
the tail that is asked for, and nothing where a block holds so few events of it that each value keeps a range of its
own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.blocks.grid import Grid
from sketches.digests.dyadic_tree import compression_factor
from sketches.digests.expected_widths import of_part
from sketches.holdings import Faded, measured_share, restricted_share
from sketches.promise import Built
from sketches.question import Question

# As in `sketches.digests.expected_widths`; measured by the same command.
_FILLED: Final = 0.75  # of the length that a block may have
_CUT: Final = 0.5  # of what a range of values may carry


def tail_width(question: Question, built: Built, grid: Grid, ends: int) -> float:
    """The width to expect; `ends` is how many ends the ranges of values have that are asked for."""
    faded = built.stored.faded(question)
    length = _lengths(faded, grid)
    blurred = _blurred(faded, grid.unit.seconds(_FILLED * np.maximum(length - 1.0, 0.0)))
    share, left = measured_share(question, built.share), restricted_share(question)
    tail = min(share * left, 1.0 - share * left) if ends else 0.0
    cut = _CUT * grid.error * _coarse(faded, length, tail, grid) * min(ends, 1)
    if question.aggregate in ("quantile", "median"):
        return min(1.0, 2.0 * share * (1.0 - share) * blurred + min(share, 1.0 - share) * cut)
    if ends > 1 or question.threshold is not None:  # each end cuts a part of what is beyond it
        cut *= ends * 0.5 / max(share * left, 1e-9)
    if question.aggregate in ("selectivity", "rank"):
        return min(1.0, share * (2.0 * (1.0 - share) * blurred + cut))
    width = max(blurred + cut, faded.least)
    return 2.0 * width if question.averages else width


def part_width(question: Question, built: Built, grid: Grid) -> float:
    """The width to expect of `division`: values are in doubt by a part of all that counts."""
    faded = built.stored.faded(question)
    length = _lengths(faded, grid)
    blurred = _blurred(faded, grid.unit.seconds(_FILLED * np.maximum(length - 1.0, 0.0)))
    cut = _CUT * grid.error * _coarse(faded, length, 1.0, grid)
    return of_part(question, built, max(blurred, faded.least), cut)


def _lengths(faded: Faded, grid: Grid) -> Floats:
    """How many times the block may have in which a cell of time lies."""
    age = np.maximum(faded.held.end - faded.times, 0.0)
    return grid.lengths[np.searchsorted(grid.reach, age, side="right") - 1].astype(np.float64)


def _blurred(faded: Faded, seconds: Floats) -> float:
    """What times leave in doubt, over all that counts: as `Faded.uncertain`, but a block may hold many epochs."""
    if faded.total <= 0.0:
        return 0.0
    half = seconds / 2.0
    near, far = faded.age - half, faded.age + half
    least = np.where((near >= 0.0) | (half == 0.0), faded.decay(np.minimum(far, faded.first.max())), 0.0)
    most = np.where(far >= 0.0, faded.decay(np.maximum(near, 0.0)), 0.0)
    return float(faded.events @ np.maximum(most - least, 0.0)) / faded.total


def _coarse(faded: Faded, length: Floats, tail: float, grid: Grid) -> float:
    """The share of what counts that lies in blocks with so many events of a tail that values share ranges."""
    seconds = grid.unit.seconds(_FILLED * length)
    held = tail * faded.density * seconds / np.maximum(faded.of_epoch(faded.held.parts), 1.0)
    mass = faded.events * faded.factor
    return float(mass[held > 2.0 * compression_factor(grid.error)].sum() / faded.total) if faded.total > 0.0 else 0.0
