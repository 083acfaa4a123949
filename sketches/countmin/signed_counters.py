"""What a value weighs at the most in counters from which something was taken back, perhaps more of it than came.

Where nothing else in a counter is below 0, a value weighs at most the least of its counters. But what is asked may lack
where a deletion belongs to: another site, another epoch. Then what is below 0 pulls a counter down, and that of a value
with it. The place of a value does not depend on the others: in a row of w counters of which K are below -t it is pulled
down by more than t with probability K/w at most, or (K + 1)/w as far as can be seen, for its own counter may be one.
So the k-th least of its counters, and t, is less than the value only where k rows or more pull by more than t.
"""

from __future__ import annotations

import numpy as np

from sketches.arrays import Floats


def most_of(own: Floats, held: Floats, chance: float, slack: float) -> float:
    """What a value weighs at the most, but with this chance; `own` are its counters, `held` all of them, rows by width.

    `slack` is by how much rounding may have moved a counter.

    >>> held = np.zeros((3, 64))
    >>> held[:, 5], held[0, 9] = 8.0, -2.0
    >>> most_of(np.array([1.0, 4.0, 4.0]), held, 0.025, 0.0)
    4.0
    """
    rows, width = held.shape
    pulls = np.unique(np.append(np.maximum(-held, slack), slack))  # by which a row can pull, and more than none
    together = np.zeros((rows + 1, len(pulls)))  # at least the chance that so many rows pull by more
    together[0] = 1.0
    for row in held:
        below = width - np.searchsorted(np.sort(-row), pulls, side="right")
        together[1:] += together[:-1] * np.minimum((below + 1) / width, 1.0)
    found = np.inf
    for counter, chances in zip(np.sort(own).tolist(), together[1:], strict=True):
        enough = np.flatnonzero(chances <= chance / rows)  # the best of the rows is taken
        if len(enough):
            found = min(found, counter + float(pulls[enough[0]]))
    return found
