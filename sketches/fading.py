"""What a family says whose sketches of old epochs can be made into one, smaller than they were together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from sketches.arrays import Ints


class Fades:
    """What every sketch has besides; the epochs of most families stay as they are."""

    family: ClassVar[str]
    fades: ClassVar[bool] = False

    @property
    def mass(self) -> Ints:
        """What later events count as, for sketches of epochs before them; a sum of several sketches is that of all."""
        return np.zeros(0, np.int64)

    @classmethod
    def faded(cls, sketches: Sequence[Self], later: Ints) -> Self:
        """The sketch of neighbouring epochs, where masses of `later` may be taken as come after all of them.

        As of the newest event or later its answers keep to what is promised, as long as these events are there. As of
        an earlier time their intervals are wider, by so much as `later` allows.
        """
        raise NotImplementedError(f"the epochs of the {cls.family} family do not fade")
