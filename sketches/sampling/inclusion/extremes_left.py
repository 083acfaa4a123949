"""What a sample may still say of all its events once some of them are forgotten for good.

The least and the greatest value, weight and time of all events limit answers about events that were not sampled. After
some events are gone they must limit the rest, and must not tell what the forgotten ones were. Where every event was
kept, they are those of the rows that are left. Else an end that no row has is moved outwards to a round number: the
next power of two, a multiple of 4,096 units of time. To forget once more moves it no further.
"""

from __future__ import annotations

import math
from typing import Final

from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.events import Extremes, Kind, round_up
from sketches.fields import Known, KnownField
from sketches.sampling.inclusion.ladder import NO_CUT, LadderRows

_ROUND_TIME: Final = 1 << 12


def exact_extremes(rows: LadderRows, kind: Kind) -> Extremes:
    """Of events all of which are kept."""
    if len(rows) == 0:
        return Extremes()
    values = (0.0, 0.0) if kind is Kind.KEY else (float(rows.values.min()), float(rows.values.max()))
    return Extremes(
        int(rows.times.min()), int(rows.times.max()), *values, int(rows.weights.max()), int(rows.weights.min())
    )


def extremes_left(known: Extremes, rows: LadderRows, kind: Kind, gone_until: int) -> Extremes:
    """The limits of the events that are left, of which `rows` are kept, and all that are newer than `gone_until`."""
    left = exact_extremes(rows, kind)
    if gone_until == NO_CUT or known.oldest is None or known.newest is None:
        return left
    newest = min(known.newest, gone_until if left.newest is None else max(left.newest, gone_until))
    oldest = known.oldest if known.oldest == left.oldest else known.oldest // _ROUND_TIME * _ROUND_TIME
    least, greatest = known.least_value, known.greatest_value
    light, heavy = known.least_weight, known.greatest_weight
    if kind is not Kind.KEY:
        least = least if least == left.least_value else -round_up(-least)
        greatest = greatest if greatest == left.greatest_value else round_up(greatest)
    no_rows = len(rows) == 0
    if no_rows or light != left.least_weight:
        light = int(-round_up(-light))
    if no_rows or heavy != left.greatest_weight:
        heavy = min(int(round_up(heavy)), MAX_WEIGHT)
    return Extremes(max(oldest, -MAX_TIME), newest, least, greatest, heavy, light)


def fields_left(known: Known, rows: LadderRows, gone_until: int) -> dict[str, KnownField]:
    """What may still be said of the fields of the events that are left, likewise."""
    found: dict[str, KnownField] = {}
    for name, one in known.items():
        least, greatest = rows.fields[name].ends() if name in rows.fields else (math.inf, -math.inf)
        if gone_until != NO_CUT and one.least <= one.greatest:
            least = one.least if least == one.least else -round_up(-one.least)
            greatest = one.greatest if greatest == one.greatest else round_up(one.greatest)
        found[name] = one._replace(least=least, greatest=greatest)
    return found
