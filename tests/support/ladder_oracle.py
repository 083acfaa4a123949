"""Which rows the ladder of a stream keeps, and with which probability, in plain Python and by the definition alone.

An event is (time, u·2^64, value, weight). Level i of the count's ladder holds the newest C events with
u < 2^-i, level i of the weight's ladder the newest C with u < w·2^-i; a cut is the time of the (C + 1)-th newest event,
and everything at that time goes. With lc and lw the finest levels that are complete at an event's time, it is kept iff
u < max(2^-lc, min(1, w·2^-lw)). A source's newest events, and the newest stretch of time, may be kept besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

LEVELS = 96
LEAST_BITS = 8
DEEPEST = 55  # a hash has 56 bits

Event = tuple[int, int, Any, int]
Row = tuple[Event, str]  # an event as a source reported it


def kept_bits(exponent: int, bits: int) -> int:
    """Bits behind the leading 1 of a number in [2^-(exponent + 1), 2^-exponent): two fewer a level."""
    return min(max(bits - 2 * exponent, LEAST_BITS), DEEPEST - exponent)


def number(word: int, bits: int) -> int:
    """u·2^64: the hash, a number of 64 bits, with the bits that are kept; 0 counts as the least above it."""
    word = max(word, 1 << 8)
    exponent = 64 - word.bit_length()
    dropped = 63 - exponent - kept_bits(exponent, bits)
    return word >> dropped << dropped


def probability(limit: Fraction, bits: int) -> Fraction:
    """The probability of a number below a limit: the least number with kept bits that is not below it, at most 1."""
    if limit >= 1:
        return Fraction(1)
    exponent = 0
    while limit < Fraction(1, 2 << exponent):
        exponent += 1
    step = Fraction(1, 2 << (exponent + kept_bits(exponent, bits)))
    return -(-limit // step) * step


@dataclass(frozen=True, eq=False)
class LadderOracle:
    """All rows that ever came, each once, and the capacities."""

    rows: frozenset[Row]
    capacity: int
    per_source: int = 0
    fine: int = 0
    bits: int = 48

    @classmethod
    def of(cls, rows: Iterable[Row], capacity: int, **settings: int) -> LadderOracle:
        return cls(frozenset(rows), capacity, **settings)

    @property
    def newest(self) -> int:
        return max(event[0] for event, _ in self.rows)

    def cut_of_weight(self, level: int) -> int | None:
        """The time up to which the weight's level has discarded events; None where it has discarded none."""
        events = {event for event, _ in self.rows if event[1] << level < event[3] << 64}
        return _beyond([event[0] for event in events], self.capacity)

    def cut_of_count(self, level: int) -> int | None:
        events = {event for event, _ in self.rows if event[1] << level < 1 << 64}
        return _beyond([event[0] for event in events], self.capacity)

    def cut_of_source(self, source: str) -> int | None:
        return _beyond([event[0] for event, name in self.rows if name == source], self.per_source)

    def limit(self, event: Event) -> Fraction:
        """What u must be below for the ladder to keep the event."""
        time, _, _, weight = event
        of_count = _first_complete(self._count_cuts, time)
        of_weight = _first_complete(self._weight_cuts, time)
        return max(Fraction(1, 2**of_count), min(Fraction(1), Fraction(weight, 2**of_weight)))

    @cached_property
    def _count_cuts(self) -> list[int | None]:
        return [self.cut_of_count(level) for level in range(LEVELS)]

    @cached_property
    def _weight_cuts(self) -> list[int | None]:
        return [self.cut_of_weight(level) for level in range(LEVELS)]

    def always(self, row: Row) -> bool:
        """Whether the row is kept whatever its number."""
        event, source = row
        if event[0] > self.newest - self.fine:
            return True
        if not self.per_source:
            return False
        cut = self.cut_of_source(source)
        return cut is None or event[0] > cut

    def kept(self) -> set[Row]:
        return {row for row in self.rows if self.always(row) or row[0][1] < self.limit(row[0]) * 2**64}

    def probabilities(self, sources: Iterable[str]) -> dict[Event, Fraction]:
        """π of every kept event that one of the sources reported."""
        wanted = set(sources)
        found: dict[Event, Fraction] = {}
        for row in self.kept():
            if row[1] in wanted:
                here = Fraction(1) if self.always(row) else probability(self.limit(row[0]), self.bits)
                found[row[0]] = max(found.get(row[0], Fraction(0)), here)
        return found


def _beyond(times: list[int], capacity: int) -> int | None:
    return sorted(times, reverse=True)[capacity] if len(times) > capacity else None


def _first_complete(cuts: list[int | None], time: int) -> int:
    return next(level for level, cut in enumerate(cuts) if cut is None or cut < time)
