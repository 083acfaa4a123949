"""A Poisson sample ready to be asked: rows with design weights, whatever sketches, copies or epochs they come from.

A row that was kept with probability π counts 1/π times. Rows of several independent copies of a sketch are averaged
(each counts 1/(π·copies)); rows of sketches that cover different times simply stand side by side. Then any decayed
aggregate is a weighted sum of f(age) over one time-sorted table, and changing the decay costs one dot product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sketches.events import Column, Events, Kind, Labels
from sketches.nested_sample import NestedSample
from sketches.range_sample import LEVELS, PROBABILITY

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

# Sampled below this many expected units, an event is one unit or none, and weight/π is exactly 1/p; above it π falls
# short of weight·p by at most the other factor (both checked by brute force in tests/sketches/test_range_sample.py).
_SINGLE_UNIT = 0.29
_CROWDED = 2.14
_RANGES = 4  # ranges of values whose rows are kept


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """Seconds per unit of time as a fraction, so that whole seconds stay whole however fine the unit."""

    numerator: int = 1
    denominator: int = 1

    def seconds(self, ages: Ints | Floats) -> Floats:
        return np.asarray(ages * np.float64(self.numerator) / np.float64(self.denominator))


SECOND: Final = TimeUnit()


@dataclass(frozen=True, slots=True)
class Extremes:
    """What a sketch knows exactly of all events it has seen: repeats and merging do not change it."""

    oldest: int | None = None
    newest: int | None = None
    least_value: float = np.inf
    greatest_value: float = -np.inf
    greatest_weight: int = 1

    @classmethod
    def of(cls, events: Events) -> Extremes:
        if len(events) == 0:
            return cls()
        keys = events.kind is Kind.KEY
        return cls(
            int(events.times.min()),
            int(events.times.max()),
            0.0 if keys else float(events.values.min()),
            0.0 if keys else float(events.values.max()),
            1 if events.weights is None else int(events.weights.max()),
        )

    @classmethod
    def merged(cls, parts: Sequence[Extremes]) -> Extremes:
        seen = [part for part in parts if part.newest is not None]
        if not seen:
            return cls()
        return cls(
            min(part.oldest for part in seen if part.oldest is not None),
            max(part.newest for part in seen if part.newest is not None),
            min(part.least_value for part in seen),
            max(part.greatest_value for part in seen),
            max(part.greatest_weight for part in seen),
        )


@dataclass(frozen=True, slots=True)
class Strata:
    """Stretches of time with one sampling probability each: what an event nobody saw could at most have counted.

    For each stretch its newest time and the largest design weight of an unseen event there, as a unit of weight
    (`weight`) and as an event (`count`), with the matching 1 - π.
    """

    newest: Ints
    oldest: Ints
    weight: Floats
    count: Floats
    weight_doubt: Floats
    count_doubt: Floats


@dataclass(frozen=True)
class Columns:
    """Coefficients per row: `linear` are summed with f, `squared` with f²; rows are sorted by time."""

    times: Ints
    linear: Floats
    squared: Floats

    @cached_property
    def prefixes(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Prefix sums of both, plain and weighed by the time since the first row; they serve every decay."""
        return (*_prefixes(self.times, self.linear), *_prefixes(self.times, self.squared))

    def rows(self, which: NDArray[np.intp]) -> Columns:
        """Some of the rows; those asked for last are kept: the next question often differs in the decay only."""
        for known, columns in self._some:
            if known is which:
                return columns
        found = Columns(self.times[which], self.linear[:, which], self.squared[:, which])
        self._some[:] = [(which, found)]
        return found

    @cached_property
    def _some(self) -> list[tuple[NDArray[np.intp], Columns]]:
        return []


@dataclass(frozen=True)
class Drawn:
    """Time-sorted rows: `design` is 1/π over the number of copies, `doubt` is 1-π."""

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    design: Floats
    doubt: Floats
    copy: NDArray[np.int16]
    strata: Strata
    unit: TimeUnit
    kind: Kind
    labels: Labels
    newest: int | None  # the newest event seen, kept or not; None where there was none
    least_value: float
    greatest_value: float
    greatest_weight: int
    lost_before: int  # events at or before this time are beyond every level's reach (NO_CUT: none are)

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def amounts(self) -> Floats:
        """Each row's contribution to an undecayed weighted sum."""
        return self.weights * self.design

    @cached_property
    def weight_columns(self) -> Columns:
        """For Σ w·f: what is certain, what is sampled, and the variance."""
        return self._columns(self.amounts)

    @cached_property
    def count_columns(self) -> Columns:
        """The same for Σ f."""
        return self._columns(self.design)

    @cached_property
    def mean_columns(self) -> Columns:
        """Both, and their covariance: Σ w·f first, then Σ f."""
        return self._pair(self.amounts)

    def value_columns(self, sign: int, scale: float) -> Columns:
        """For Σ v·f over the values of one sign, as positive numbers in units of `scale`."""
        key = ("sum", sign, scale)
        if key not in self._of_values:
            self._of_values[key] = self._columns(np.maximum(sign * (self.values / scale), 0.0) * self.design)
        return self._of_values[key]

    def value_mean_columns(self, scale: float) -> Columns:
        """Like `mean_columns`, with the value above the least one, in units of `scale`, in the place of the weight."""
        key = ("mean", 0, scale)
        if key not in self._of_values:
            self._of_values[key] = self._pair((self.values / scale - self.least_value / scale) * self.design)
        return self._of_values[key]

    @cached_property
    def _of_values(self) -> dict[tuple[str, int, float], Columns]:
        return {}

    def _columns(self, amount: Floats) -> Columns:
        certain = np.where(self.doubt == 0.0, amount, 0.0)
        return Columns(self.times, np.stack([certain, amount - certain]), np.stack([np.square(amount) * self.doubt]))

    def _pair(self, amount: Floats) -> Columns:
        top, bottom = self._columns(amount), self.count_columns
        return Columns(
            self.times,
            np.concatenate([top.linear, bottom.linear]),
            np.concatenate([top.squared, bottom.squared, [amount * self.design * self.doubt]]),
        )

    @cached_property
    def by_value(self) -> NDArray[np.intp]:
        """Row numbers in the order of their values."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def sorted_values(self) -> Floats:
        return self.values[self.by_value].astype(np.float64)

    @cached_property
    def quantile_columns(self) -> Floats:
        """`weight_columns` in the order of the values, a row of the result for each row of the table."""
        columns = np.concatenate([self.weight_columns.linear, self.weight_columns.squared])
        return np.ascontiguousarray(columns[:, self.by_value].T)

    @cached_property
    def time_columns(self) -> Floats:
        """Certain, sampled and variance coefficients of Σ w·f in the order of time, in one array."""
        return np.concatenate([self.weight_columns.linear, self.weight_columns.squared])

    def blocks(self, stride: int) -> NDArray[np.int32]:
        """For each row the block of `stride` values, in their order, that it belongs to."""
        if stride not in self._blocks:
            block = np.empty(len(self), np.int32)
            block[self.by_value] = np.arange(len(self)) // stride
            self._blocks.clear()
            self._blocks[stride] = block
        return self._blocks[stride]

    @cached_property
    def _blocks(self) -> dict[int, NDArray[np.int32]]:
        return {}

    def between(self, low: float | None, high: float | None) -> NDArray[np.intp]:
        """Row numbers with values in a range, both ends included; the same array while the same is asked again."""
        if (low, high) not in self._ranges:
            if len(self._ranges) >= _RANGES:
                self._ranges.clear()
            self._ranges[low, high] = self._between(low, high)
        return self._ranges[low, high]

    def _between(self, low: float | None, high: float | None) -> NDArray[np.intp]:
        if low is None:
            return np.arange(len(self)) if high is None else np.flatnonzero(self.values <= high)
        above = self.values >= low
        return np.flatnonzero(above if high is None else above & (self.values <= high))

    @cached_property
    def _ranges(self) -> dict[tuple[float | None, float | None], NDArray[np.intp]]:
        return {}

    @cached_property
    def groups(self) -> tuple[Column, NDArray[np.intp]]:
        """The distinct values, and for each row the number of its value."""
        distinct, codes = np.unique(self.values, return_inverse=True)
        return distinct, codes


def draw(samples: Sequence[NestedSample], unit: TimeUnit, kind: Kind, labels: Labels, extremes: Extremes) -> Drawn:
    """The rows of the independent copies of one sketch, averaged."""
    copies = len(samples)
    chance = [sample.probabilities() for sample in samples]
    times = np.concatenate([sample.times for sample in samples])
    order = np.argsort(times, kind="stable") if copies > 1 else np.arange(len(times))
    probability = np.concatenate(chance)[order]
    strata = [_strata(sample, copies, extremes) for sample in samples] if extremes.newest is not None else []
    return Drawn(
        times=times[order],
        hashes=np.concatenate([sample.hashes for sample in samples])[order],
        values=np.concatenate([sample.values for sample in samples])[order],
        weights=np.concatenate([sample.weights for sample in samples])[order],
        design=1.0 / (probability * copies),
        doubt=1.0 - probability,
        copy=np.concatenate([np.full(len(s), i, np.int16) for i, s in enumerate(samples)])[order],
        strata=_join(strata),
        unit=unit,
        kind=kind,
        labels=labels,
        newest=extremes.newest,
        least_value=extremes.least_value,
        greatest_value=extremes.greatest_value,
        greatest_weight=extremes.greatest_weight,
        lost_before=max(int(max(s.weight_cuts[-1], s.count_cuts[-1])) for s in samples),
    )


def side_by_side(parts: Sequence[Drawn]) -> Drawn:
    """Samples of different times (the epochs of a stream) as one: every row keeps the design weight it has."""
    first = parts[0]
    filled = [part for part in parts if part.newest is not None]
    if not filled:
        return first
    times = np.concatenate([part.times for part in filled])
    order = np.argsort(times, kind="stable")

    def column(name: str) -> Column:
        return np.concatenate([getattr(part, name) for part in filled])[order]

    keys = [part.labels for part in filled]
    values = column("values")
    return Drawn(
        times=times[order],
        hashes=column("hashes"),
        values=values,
        weights=column("weights"),
        design=column("design"),
        doubt=column("doubt"),
        copy=column("copy"),
        strata=_join([part.strata for part in filled]),
        unit=first.unit,
        kind=filled[0].kind,
        labels=Labels.merged(keys, values) if filled[0].kind is Kind.KEY else Labels.none(),
        newest=max(part.newest for part in filled if part.newest is not None),
        least_value=min(part.least_value for part in filled),
        greatest_value=max(part.greatest_value for part in filled),
        greatest_weight=max(part.greatest_weight for part in filled),
        lost_before=max(part.lost_before for part in filled),
    )


@njit(cache=True, nogil=True)
def _prefixes(times: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """Prefix sums with a leading zero, plain and times the age of the first row, one row of the result per table row:
    what one lookup needs lies together."""
    plain = np.zeros((rows.shape[1] + 1, rows.shape[0]))
    moment = np.zeros((rows.shape[1] + 1, rows.shape[0]))
    for row in range(rows.shape[1]):
        offset = np.float64(times[row] - times[0])
        for column in range(rows.shape[0]):
            plain[row + 1, column] = plain[row, column] + rows[column, row]
            moment[row + 1, column] = moment[row, column] + rows[column, row] * offset
    return plain, moment


def _strata(sample: NestedSample, copies: int, extremes: Extremes) -> Strata:
    assert extremes.newest is not None
    assert extremes.oldest is not None
    cuts = np.concatenate([sample.weight_cuts, sample.count_cuts])
    edges = np.unique(np.concatenate([cuts[cuts >= extremes.oldest], [extremes.newest]]))
    weight_levels, count_levels = sample.levels_at(edges)
    reached = np.maximum(weight_levels, count_levels) < LEVELS
    edges, weight_levels, count_levels = edges[reached], weight_levels[reached], count_levels[reached]
    weight_chance, count_chance = PROBABILITY[weight_levels], PROBABILITY[count_levels]
    crowded = np.where(extremes.greatest_weight * weight_chance < _SINGLE_UNIT, 1.0, _CROWDED)
    return Strata(
        newest=edges,
        oldest=np.concatenate([[extremes.oldest], edges[:-1] + 1])[: len(edges)],
        weight=np.where(weight_levels > 0, crowded / weight_chance / copies, 0.0),
        count=np.where(count_levels > 0, 1.0 / count_chance / copies, 0.0),
        weight_doubt=1.0 - weight_chance,
        count_doubt=1.0 - count_chance,
    )


def _join(strata: Sequence[Strata]) -> Strata:
    if not strata:
        none = np.empty(0)
        return Strata(none.astype(np.int64), none.astype(np.int64), none, none, none, none)
    return Strata(
        np.concatenate([part.newest for part in strata]),
        np.concatenate([part.oldest for part in strata]),
        np.concatenate([part.weight for part in strata]),
        np.concatenate([part.count for part in strata]),
        np.concatenate([part.weight_doubt for part in strata]),
        np.concatenate([part.count_doubt for part in strata]),
    )
