"""How long the past is, as a decay weighs it: the integral of f over ages, in seconds.

A decayed count grows with how slowly the decay fades, so counts under two decays do not compare. Over the time that the
decay weighs they do: that is a rate per second.
"""

from __future__ import annotations

import math
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


def fills_by(decay: Decay, history: float, share: float = 0.95) -> float:
    """The seconds of history that hold `share` of the time which the decay weighs: up to there its sums rise, because
    there is ever more to sum. Where the decay weighs time without end, it is the share of this history; where it never
    fades, infinite: its sums are running totals.

    >>> from sketches.decay import parse_decay
    >>> [round(fills_by(parse_decay(spec), 86_400.0), -2) for spec in ("window:1h", "exp:half_life=1h", "none")]
    [3400.0, 15600.0, inf]
    """
    if math.isinf(decay.half_age):
        return math.inf
    faded = decay.fades_by(1e-3)
    longest = max(history, faded if math.isfinite(faded) else 0.0)
    spans = np.unique(np.concatenate([np.linspace(0.0, longest, 500), np.geomspace(longest * 1e-6, longest, 500)]))
    weighed = weighed_time(decay, spans)
    return float(np.interp(share * weighed[-1], weighed, spans))
