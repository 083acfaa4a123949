"""Which rows of a batch are worth keeping, in one compiled pass: hashing, shortening, comparing with the cuts.

The same as `event_hashes`, `shortened` and `worth_keeping` one after the other, without their columns in between, which
take longer to write and read than all that is computed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Ints, Words
from sketches.compiled import njit
from sketches.hashing import event_hash

_TOP: Final = np.uint64(1 << 63)
_ONE: Final = np.uint64(1)


@njit(cache=True, nogil=True)
def sampled_rows(
    columns: tuple[Words, Ints, NDArray[Any], Ints],
    sources: NDArray[np.int32],
    salt: np.uint64,
    masks: Words,
    cuts: tuple[Ints, Ints, Ints, int],
    begin: int,
    end: int,
) -> tuple[Ints, Words]:
    """The rows from `begin` to before `end` that are above the cut of one of their levels, of their source or of the
    stream, and their shortened hashes.

    `columns` are those of `Events.columns`: empty weights mean that all weigh 1. `cuts` are those of the weight's
    levels, of the count's, of sources and of the stream; `masks` are the kept bits of a hash by its exponent.
    """
    ids, times, values, weights = columns
    of_weight, of_count, of_sources, fine = cuts
    least = _ONE << np.uint64(64 - len(masks))
    rows = np.empty(len(ids), np.int64)
    hashes = np.empty(len(ids), np.uint64)
    kept = 0
    for row in range(len(ids)):
        time = times[row]
        if time < begin or time >= end:
            continue
        weight = weights[row] if len(weights) else 1
        hashed = max(event_hash(ids[row], np.uint64(time), np.uint64(values[row]), np.uint64(weight), salt), least)
        exponent = _zeros(hashed)
        hashed &= masks[exponent]
        keep = time > fine or time > of_count[exponent]
        if not keep and weight > 0:
            level = exponent
            if weight > 1:
                zeros = _zeros(np.uint64(weight))
                level += 64 - zeros - ((hashed << np.uint64(exponent)) >= (np.uint64(weight) << np.uint64(zeros)))
            keep = time > of_weight[level]
        if not keep and len(of_sources):
            keep = time > of_sources[sources[row]]
        if keep:
            rows[kept] = row
            hashes[kept] = hashed
            kept += 1
    return rows[:kept], hashes[:kept]


@njit(inline="always", cache=True)
def _zeros(word: np.uint64) -> int:
    """How many zeros stand before the leading 1 of a word that is not 0."""
    zeros = 0
    while not word & _TOP:
        word <<= _ONE
        zeros += 1
    return zeros
