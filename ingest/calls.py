"""Believable VoIP call records: regions, durations, packet loss that hurts long calls, incidents, late repeats.

In the spirit of the papers' running example: one row a call, the duration its value and the packet loss its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

REGIONS: Final = ("north", "south", "east", "west", "islands")
_SHARES: Final = (0.34, 0.27, 0.21, 0.14, 0.04)
_INCIDENT: Final = ("south", 0.80, 0.86)  # a bad hour or two: region, and its beginning and end as parts of the day


@dataclass(frozen=True, slots=True)
class Calls:
    """Columns in order of arrival; a record may arrive twice."""

    region: NDArray[np.str_]
    call: NDArray[np.int64]
    started: NDArray[np.int64]  # seconds since 1970
    duration: NDArray[np.int64]  # seconds
    loss: NDArray[np.int64]  # packets lost per ten thousand, at least 1


def generate(calls: int, seed: int, day_start: int = 1_767_225_600) -> Calls:
    """One day of calls: busier at noon, one region with an incident, 3% of records sent twice."""
    rng = np.random.default_rng(seed)
    clock = np.sort(rng.beta(2.2, 2.0, calls))
    region = rng.choice(np.array(REGIONS), calls, p=_SHARES)
    duration = np.ceil(rng.lognormal(4.6, 1.2, calls)).astype(np.int64)
    loss = np.ceil(rng.gamma(2.0, 12.0, calls) + 1.0)
    where, begin, end = _INCIDENT
    hit = (region == where) & (clock > begin) & (clock < end)
    loss[hit] *= 9.0
    duration[hit] = np.maximum(1, duration[hit] // 3)  # people hang up on a bad line
    started = day_start + (clock * 86_400).astype(np.int64)
    arrival = started + duration + rng.exponential(20.0, calls)
    again = rng.random(calls) < 0.03
    rows = np.concatenate([np.arange(calls), np.flatnonzero(again)])
    order = np.argsort(np.concatenate([arrival, arrival[again] + rng.exponential(600.0, int(again.sum()))]))
    rows = rows[order]
    return Calls(region[rows], rows.astype(np.int64), started[rows], duration[rows], loss[rows].astype(np.int64))
