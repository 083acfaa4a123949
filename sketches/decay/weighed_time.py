"""How long the past is, as a decay weighs it: the integral of f over ages, in seconds.

A decayed count grows with how slowly the decay fades, so counts under two decays do not compare. Over the time that the
decay weighs they do: that is a rate per second.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.decay.base import Decay

_PANELS: Final = 160  # between the shortest age that matters and the longest, each longer than the one before
_SHORTEST: Final = 1e-6  # seconds
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def weighed_time(decay: Decay, spans: Floats) -> Floats:
    """The integral of f from age 0 to each of these ages, in seconds; 0 for those not above 0.

    >>> from sketches.decay import parse_decay
    >>> weighed_time(parse_decay("window:1h"), np.array([60.0, 7200.0])).round(6).tolist()
    [60.0, 3600.0]
    """
    longest = float(spans.max(initial=0.0))
    if longest <= 0.0:
        return np.zeros(len(spans))
    breaks = np.array([one for one in decay.breaks() if 0.0 < one < longest])
    inside = np.geomspace(min(_SHORTEST, longest / 2.0), longest, _PANELS)
    edges = np.unique(np.concatenate([[0.0], inside, breaks, spans[spans > 0.0]]))
    half, middle = np.diff(edges) / 2.0, (edges[1:] + edges[:-1]) / 2.0
    panels = half * (decay(middle[:, None] + half[:, None] * _NODES) @ _WEIGHTS)
    up_to = np.append(0.0, np.cumsum(panels))
    return np.asarray(up_to[np.searchsorted(edges, np.maximum(spans, 0.0))])
