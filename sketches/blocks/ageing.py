"""Which epochs may stand together because they are old, whatever the decay that will be asked.

Of 2^j epochs that begin at a multiple of 2^j one sketch may be made once their newest time is `detail` times as old as
they are long, and older than `fine`. So an epoch lies in a stretch of at most a `detail`-th of what has come since, the
number of stretches grows with the logarithm of time, and they follow from the clock alone: two sites at the same clock
have the same ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Ints, frozen
from sketches.blocks.grid import Blocks, holding
from sketches.blocks.reach import NEVER
from sketches.records import dataclass

_MOST_BITS: Final = 62  # of the times in a stretch


@dataclass(frozen=True, slots=True)
class Ageing:
    """Epochs of a length, and how old a stretch of them must be, over its own length and at the least."""

    epoch: int
    detail: int
    fine: int = 0

    @property
    def top(self) -> int:
        """The height of an epoch."""
        return (self.epoch - 1).bit_length()

    def stretches(self, starts: Ints, clock: int) -> Blocks:
        """The stretch in which each epoch may stand by the clock, by the first of its times and its height."""
        several = [self.epoch << more for more in range(1, _MOST_BITS - self.top)]
        ages = [min(max(self.detail * length, self.fine), NEVER) for length in several]
        reach = np.concatenate([np.zeros(self.top + 1, np.int64), np.array(ages, np.int64)])
        return Blocks(*holding(frozen(starts), clock, self.epoch, self.top, frozen(reach)))

    def length(self, height: int) -> int:
        """How many times a stretch of a height has."""
        return self.epoch << (height - self.top)
