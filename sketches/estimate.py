"""What every question returns: a number, its interval, and in words what holds."""

from __future__ import annotations

import math
from dataclasses import field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats, Ints, Rows
from sketches.guarantees import left_out
from sketches.records import dataclass

_DIGITS: Final = 6  # shown; whole numbers of a million and more keep all of theirs
_DOWN: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_UP: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Item:
    """One line of an answer that is a list: a value (or the label of a key) with its estimate and interval."""

    value: int | float | str
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class RowsSeen:
    """Beside a count of events: in how many rows they came, and which share of the rows repeats an event."""

    rows: Item
    repeated: Item

    def as_dict(self) -> dict[str, Any]:
        return {one.value: limits_shape(one) for one in (self.rows, self.repeated) if isinstance(one.value, str)}


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer with its error bound.

    ``lower <= exact answer <= upper`` holds with probability ``confidence`` over the sketch's random seed (1 where
    the answer is exact or the bound deterministic). ``value`` is NaN where nothing counts and a ratio of nothing was
    asked; the bounds then say what can still be said (a fraction lies between 0 and 1).
    """

    value: float
    lower: float
    upper: float
    confidence: float
    guarantee: str
    family: str
    as_of: int
    used: int  # kept events that carry decayed weight in this answer
    items: tuple[Item, ...] = ()
    unlisted: float | None = None  # of a list: no value that it leaves out has a larger share; None: not known
    seen: RowsSeen | None = None  # of a count of events, where it is known how often they came

    @property
    def exact(self) -> bool:
        """True where the interval is a point, and every interval of a list: every event that counts was kept."""
        points = ((self.value, self.lower, self.upper), *((one.estimate, one.lower, one.upper) for one in self.items))
        return all(lower == value == upper for value, lower, upper in points)

    @property
    def left_out(self) -> str:
        """Of a list: what no other value exceeds, as a sentence; empty where nothing is known."""
        return left_out(self.unlisted)

    def as_dict(self) -> dict[str, Any]:
        """The command line's JSON shape: ``value`` is called ``estimate``, NaN and infinity become null."""
        shape: dict[str, Any] = {
            "estimate": _json_number(self.value),
            "lower": _json_number(self.lower),
            "upper": _json_number(self.upper),
            "confidence": self.confidence,
            "guarantee": self.guarantee,
            "family": self.family,
            "as_of": self.as_of,
            "used": self.used,
        }
        if self.items:
            shape["items"] = [{"value": item.value} | limits_shape(item) for item in self.items]
        if self.unlisted is not None:
            shape["unlisted"] = self.unlisted
        if self.seen is not None:
            shape |= self.seen.as_dict()
        return shape


def limits_shape(item: Item) -> dict[str, Any]:
    """A number and its interval for JSON."""
    return {name: _json_number(getattr(item, name)) for name in ("estimate", "lower", "upper")}


@dataclass(frozen=True, slots=True)
class Series:
    """One question at many as-of times: parallel arrays, one entry a time, each with the meaning of `Estimate`."""

    as_of: NDArray[np.int64]
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float
    guarantee: str
    family: str
    used: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.as_of)

    def covers(self, truth: Floats, which: NDArray[np.intp], rounding: float = 1e-9) -> NDArray[np.bool_]:
        """Whether each interval of `which` holds its exact answer; two exact sums may differ by `rounding`."""
        slack = rounding * np.abs(truth)
        return (self.lower[which] - slack <= truth) & (truth <= self.upper[which] + slack)


Group = str | float | bool | None  # what the events of a group have in common; None: it is missing


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """One answer for each of many groups, such as sources: arrays in the order of their names.

    All intervals hold together with probability ``confidence``, however many groups there are and whichever of them
    somebody picks for their size.
    """

    names: tuple[Group, ...]
    value: Floats
    lower: Floats
    upper: Floats
    used: Ints
    confidence: float
    each: float  # the confidence of each interval by itself, and of one more
    guarantee: str
    family: str
    as_of: int
    unseen_share: float = 0.0  # of all that is counted: the most that a group may have which is not among the names

    def __len__(self) -> int:
        return len(self.names)

    @property
    def exact(self) -> bool:
        return bool(((self.lower == self.upper) | np.isnan(self.value)).all())

    def ranked(self, *, smallest: bool = False) -> Rows:
        """The numbers of the groups, the largest estimate first, or the smallest; those without one come last."""
        keys = np.where(np.isnan(self.value), np.inf, self.value if smallest else -self.value)
        return np.argsort(keys, kind="stable")

    @property
    def ties(self) -> Flags:
        """Which groups may have another place than their estimates give them: some interval overlaps theirs."""
        return trade_places(self.value, self.lower, self.upper)


@dataclass(frozen=True, slots=True, eq=False)
class SplitSeries:
    """One answer for each of some groups at many as-of times: arrays with a row for each group, a column for each time.

    At each time all intervals hold together with probability ``confidence``, whichever groups were picked for them.
    """

    names: tuple[Group, ...]
    as_of: Ints
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float
    guarantee: str
    family: str

    def series(self, number: int) -> Series:
        """That of one group."""
        value, lower, upper = self.value[number], self.lower[number], self.upper[number]
        used = np.zeros(len(self.as_of), np.int64)
        return Series(self.as_of, value, lower, upper, self.confidence, self.guarantee, self.family, used)


@dataclass(frozen=True, slots=True)
class Curve:
    """Estimates with limits along an axis.

    Each point's interval holds at `confidence` by itself or, where they hold `together`, all of them at once do.
    """

    at: Floats
    value: Floats
    lower: Floats
    upper: Floats
    confidence: float
    together: bool = False


def trade_places(value: Floats, lower: Floats, upper: Floats) -> Flags:
    """Which of several answers may have another place among them than their estimates give them."""
    order = np.argsort(np.where(np.isnan(value), np.inf, -value), kind="stable")
    lowest, highest = (np.where(np.isnan(value), np.nan, limit)[order] for limit in (lower, upper))
    before = np.append(np.inf, np.fmin.accumulate(lowest)[:-1])
    after = np.append(np.fmax.accumulate(highest[::-1])[::-1][1:], -np.inf)
    found = np.empty(len(value), bool)
    found[order] = (highest >= before) | (lowest <= after)
    return found


def outward(limit: float, *, up: bool) -> float:
    """A limit with no more digits than are printed, on the outer side of itself: the interval that people read holds
    all that the interval holds. Six digits, or a whole number from a million on.

    >>> outward(27.31416, up=False), outward(27.31411, up=True), outward(1234567.2, up=True), outward(12.1, up=False)
    (27.3141, 27.3142, 1234568.0, 12.1)
    """
    if not math.isfinite(limit):
        return limit
    if 1e6 <= abs(limit) < 1e15:
        return float(math.ceil(limit) if up else math.floor(limit))
    return float((_UP if up else _DOWN).create_decimal(repr(float(limit))))


def _json_number(number: float) -> float | None:
    return number if math.isfinite(number) else None
