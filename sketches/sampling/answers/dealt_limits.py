"""Limits of the shares of very many values that hold all at once: each value gets its part of what may go wrong.

An interval that holds for a value picked beforehand is too narrow for one that the sample picked. Here the error
probability α is dealt out among *all* values of the stream in proportion to their true shares: a value of share s may
be missed with probability α·s. The shares add up to 1, so some value is missed with probability at most α, however many
values there are and whether or not the sample holds them. The true share is not known, but a limit is where it stops
being possible: the lower limit is the greatest s whose test at level α·s/2 rejects all that is smaller, and the upper
one likewise. Common values so get nearly the interval of a single question, and a value that was sampled once gets no
more from below than what the sampled event itself weighs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.sampling.estimation.intervals import Total, least_share, most_share

_STEPS_UP: Final = 8  # of a lower limit; each step is safe, and more of them change less than a thousandth
_SETTLED: Final = 1e-4  # of a lower limit: where a step adds no more, it is the last
_STEPS_DOWN: Final = 3  # of an upper limit; it swings around its place, so an odd number ends on the safe side


def dealt_lower(part: Total, own: Floats, whole: Total, tail: float) -> Floats:
    """Lower limits of shares, each missed with probability `tail` times the share.

    From below: while the limit is too small its tail is too, and the next limit is larger but never too large. A value
    weighs at least what its own sampled rows do.
    """
    rest = whole.without(part)
    own = np.maximum(own, part.certain)
    least = own / (own + rest.upper(tail * own / whole.value))
    limit = least
    for _ in range(_STEPS_UP):
        before, tails = limit, tail * limit
        limit = np.maximum(least_share(part, rest, tails), least)
        if (limit - before <= _SETTLED * before).all():
            break
    return limit


def dealt_upper(part: Total, whole: Total, tail: float) -> Floats:
    """Upper limits of shares, each missed with probability `tail` times the share.

    A limit that is too small has too large a tail, so the next one is too large: every second one is safe.
    """
    rest = whole.without(part)
    limit = np.maximum(part.value, np.broadcast_to(whole.unseen, part.value.shape)) / (whole.value + whole.unseen)
    for _ in range(_STEPS_DOWN):
        tails = tail * np.minimum(limit, 1.0)
        limit = most_share(part, rest, tails)
    return limit
