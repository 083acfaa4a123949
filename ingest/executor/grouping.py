"""Grouping rows by source and epoch: a counting sort, because there are far fewer groups than rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints
from sketches.compiled import njit

_MOST_CELLS: Final = 1 << 25  # of (source, epoch); beyond that sorting is cheaper than counting


@dataclass(frozen=True, slots=True)
class Groups:
    """`place` is where each row goes so that groups lie together; group i is then `bounds[i]` to `bounds[i + 1]`."""

    place: Ints
    bounds: Ints
    sources: NDArray[np.int32]
    epochs: Ints  # number of the epoch: its start over its length


def group(sources: NDArray[np.int32], times: Ints, length: int) -> Groups:
    """The groups of rows by source and by epoch of `length`, in the order of both; inside a group rows keep theirs."""
    if len(times) == 0:
        empty = np.empty(0, np.int64)
        return Groups(empty, np.zeros(1, np.int64), empty.astype(np.int32), empty)
    first, last = int(times.min()) // length, int(times.max()) // length
    span = last - first + 1
    if (int(sources.max()) + 1) * span <= _MOST_CELLS:
        cells = (int(sources.max()) + 1) * span
        place, ends = _counted(sources, times, length, first, span, cells)
        begins = np.concatenate(([0], ends[:-1]))
        filled = np.flatnonzero(ends > begins)
        bounds = np.append(begins[filled], len(times))
        return Groups(place, bounds, (filled // span).astype(np.int32), filled % span + first)
    epochs = times // length
    order = np.lexsort((epochs, sources))
    epochs, codes = epochs[order], sources[order]
    changes = np.flatnonzero((epochs[1:] != epochs[:-1]) | (codes[1:] != codes[:-1])) + 1
    begins = np.concatenate(([0], changes))
    place = np.empty(len(times), np.int64)
    place[order] = np.arange(len(times))
    return Groups(place, np.append(begins, len(times)), codes[begins], epochs[begins])


@njit(cache=True, nogil=True)
def put(column: NDArray[Any], place: Ints) -> NDArray[Any]:
    """The column with every row moved to its place. Reads in order, and writes to the end of each group so far."""
    placed = np.empty_like(column)
    for row in range(len(column)):
        placed[place[row]] = column[row]
    return placed


@njit(cache=True, nogil=True)
def _counted(
    sources: NDArray[np.int32], times: Ints, length: int, first: int, span: int, cells: int
) -> tuple[Ints, Ints]:
    rows = len(times)
    cell = np.empty(rows, np.int32)
    position = np.zeros(cells, np.int64)
    for row in range(rows):
        cell[row] = sources[row] * span + times[row] // length - first
        position[cell[row]] += 1
    total = 0
    for at in range(cells):
        count = position[at]
        position[at] = total
        total += count
    place = np.empty(rows, np.int64)
    for row in range(rows):
        place[row] = position[cell[row]]
        position[cell[row]] += 1
    return place, position
