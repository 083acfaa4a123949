"""What a question adds up, as SQL: the decay by age, the newest events by number, and how often each event counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sketches.decay import Decay, parse_decay
from sketches.decay.functions import LastEvents
from sketches.event_rules import MAX_TIME
from sketches.question import Question
from sketches.records import dataclass
from sketches.units import TimeUnit
from store.audit.conditions import Condition, RawColumns

_ALWAYS: Final = -MAX_TIME - 1  # before every time
_NO_DECAY: Final = parse_decay("none")

# What each event adds. `number` is how many alike there are, `weight` is that of one, in the user's unit.
EVENTS: Final = "number"
WEIGHT: Final = "weight * number"


@dataclass(frozen=True)
class Asked:
    """A question at its as-of time to a table of events (t, v, w, weight, number, and fields where it asks for any)."""

    question: Question
    moment: int
    table: str
    since: int  # events at this time and before do not count
    where: Condition
    columns: RawColumns

    @property
    def x(self) -> str:
        """What it ranks or compares with a threshold; weights in steps."""
        return self.columns.number(self.question.compared)

    @property
    def ranked(self) -> str:
        """The column that a quantile is of."""
        return self.question.ranked if self.question.ranks_above else self.question.compared

    @property
    def known(self) -> str:
        """Where what it compares, and what it sums, is known: other events are left out."""
        names = {self.question.compared} | ({self.question.measured} if self.question.sums else set())
        names |= {self.ranked}
        names |= {name for name in (self.question.of, self.question.per) if name in self.question.fields}
        return self.columns.known(sorted(names))

    @property
    def counted(self) -> str:
        """How often the events of a row count."""
        return WEIGHT if self.question.by_weight else EVENTS

    @property
    def summed(self) -> str:
        """What they add to a sum: their weight, or their value or field as often as they count."""
        return f"{self.measured} * {self.counted}" if self.question.of_value else WEIGHT

    @property
    def measured(self) -> str:
        """What is summed of one event."""
        return f"{self.columns.number(self.question.measured)}::DOUBLE" if self.question.of_value else "weight"

    def part(self, name: str) -> str:
        """What the events of a row add to one of the two sums of a ratio."""
        if name in ("events", "weight"):
            return self.counted if name == "events" else WEIGHT
        return f"{self.columns.number(name)}::DOUBLE * {self.counted}"

    @property
    def averaged(self) -> str:
        """What a mean divides by."""
        return self.counted if self.question.of_value else EVENTS

    def faded(self, order: str = "", *, everything: bool = False) -> str:
        """The rows with f; those that the question is about, or all. `order` names a sorted copy of the table."""
        return (
            "SELECT *, fade(($as_of - t)::DOUBLE * $numerator::DOUBLE / $denominator::DOUBLE) AS f "
            f"FROM {self.table}{order} WHERE t <= $as_of AND t > {self.since} "
            f"AND ({self.columns.known([self.question.compared]) if everything else self.where.sql}) "
            f"AND ({'true' if everything else self.known})"
        )

    @property
    def masses(self) -> str:
        """By value, how much counts."""
        return f"SELECT {self.x} AS x, fsum({self.counted} * f) AS mass FROM ({self.faded()}) GROUP BY x"


class DecayFunction:
    """The decay of the current question, as a function for DuckDB: from ages in seconds to weights."""

    def __init__(self) -> None:
        self.decay: Decay | None = None

    def __call__(self, ages: pa.Array | pa.ChunkedArray) -> pa.Array:
        assert self.decay is not None
        whole = ages.combine_chunks() if isinstance(ages, pa.ChunkedArray) else ages
        weights = self.decay(np.from_dlpack(whole))
        # `pa.array` of a numpy array would import pandas, which takes a second
        return pa.Array.from_buffers(pa.float64(), len(weights), [None, pa.py_buffer(weights)])

    def parameters(self, asked: Asked, unit: TimeUnit) -> dict[str, Any]:
        """Set the decay of the question, and return the parameters of `Asked.faded` without those of its condition."""
        decay = asked.question.decay
        self.decay = _NO_DECAY if isinstance(decay, LastEvents) else decay
        return {"as_of": asked.moment, "numerator": float(unit.numerator), "denominator": float(unit.denominator)}


def beginning(decay: Decay, moment: int, table: str, unit: TimeUnit, execute: Callable[..., list[Any]]) -> int:
    """The time up to which nothing counts: beyond the horizon of a decay f is 0, and so it is before the newest events.

    The newest N events are the latest by time, together with those at the very time of the oldest of them.
    """
    if isinstance(decay, LastEvents):
        [(first,)] = execute(
            "SELECT max(t) FROM (SELECT t, sum(sum(number)) OVER (ORDER BY t DESC) AS so_far "
            f"FROM {table} WHERE t <= $as_of GROUP BY t) WHERE so_far >= $count",
            {"as_of": moment, "count": decay.count},
        )
        return _ALWAYS if first is None else first - 1
    reach = decay.horizon * unit.denominator / unit.numerator
    return max(moment - math.ceil(reach), _ALWAYS) if reach < MAX_TIME else _ALWAYS
