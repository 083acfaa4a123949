"""One question put to many groups of rows at once: the sums of all groups in one pass over the rows.

An `Inquiry` has arrays with one entry for each as-of time. This one has one as-of time, and its arrays one entry for
each group; whatever is made of sums and works on arrays serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from sketches.arrays import Column, Floats, Ints, Rows
from sketches.recent import Recent
from sketches.records import dataclass
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import MOST_UNSEEN, DecayFactors, Sums
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.estimation.intervals import Unseen

_AT_ONCE: Final = 1 << 15  # rows of which f is computed together: what is computed on the way stays in the cache


@dataclass(frozen=True)
class GroupedInquiry(Inquiry):
    """One question at one as-of time to every group; `sample.codes` has the number of each row's group, in order.

    Rows are in the order of groups, not of times.
    `complete_since` has for each group the time after which all of its events were kept.
    """

    complete_since: Ints | None = None

    @property
    def groups(self) -> int:
        assert self.complete_since is not None
        return len(self.complete_since)

    @cached_property
    def unseen_unit(self) -> Unseen:
        return self._unseen("unit")

    @cached_property
    def unseen_event(self) -> Unseen:
        return self._unseen("event")

    def _factors_of(self, times: Ints) -> list[DecayFactors]:
        (as_of,) = self.as_of.tolist()
        factors = np.empty(len(times))
        for start in range(0, len(times), _AT_ONCE):
            ages = as_of - times[start : start + _AT_ONCE]
            to_come = np.flatnonzero(ages < 0)
            ages[to_come] = 0
            factors[start : start + len(ages)] = self.decay(self.sample.unit.seconds(ages))
            factors[start + to_come] = 0.0
        return [DecayFactors(slice(0, len(times)), factors)]

    def sums(self, coefficients: Coefficients, rows: Rows | None = None) -> Sums:
        """The decayed sums of every group, over all rows or some."""
        chosen = coefficients if rows is None else coefficients.rows(rows)
        (decayed,) = self.factors if rows is None else self._factors_of(chosen.times)

        def faded(some: slice) -> list[Floats]:
            factors = decayed.factors[some]
            squares = np.square(factors)
            linear = [column[some] * factors for column in chosen.linear]
            return [*linear, *(column[some] * squares for column in chosen.squared)]

        bounds = self.bounds(rows)
        found, sums = self.added_by_parts(faded, len(chosen.times), bounds), len(chosen.linear)
        return Sums(found[:, :sums], found[:, sums:], self._used(decayed.factors, bounds))

    def _used(self, factors: Floats, bounds: Rows) -> Ints:
        """How many rows of each group have f > 0."""
        if factors.all():
            return np.diff(bounds)
        counts = self.added_by_parts(lambda some: [(factors[some] > 0.0).astype(np.float64)], len(factors), bounds)
        return counts[:, 0].astype(np.int64)

    @cached_property
    def kept(self) -> Recent[Any]:
        """What was found for this question and serves several parts of its answer."""
        return Recent(1)

    def bounds(self, rows: Rows | None = None) -> Rows:
        """Where the rows of each group begin, and where the last ends, among all rows or some."""
        codes = self.sample.codes
        assert codes is not None
        if rows is not None:
            return np.searchsorted(codes[rows], np.arange(self.groups + 1))
        return self._bounds

    @cached_property
    def _bounds(self) -> Rows:
        assert self.sample.codes is not None
        return np.searchsorted(self.sample.codes, np.arange(self.groups + 1))

    def added(self, column: Column, bounds: Rows | None = None) -> Floats:
        """The sum of a column of rows in every group."""
        bounds = self._bounds if bounds is None else bounds
        return self.added_by_parts(lambda some: [column[some]], len(column), bounds)[:, 0]

    def added_by_parts(self, columns: Callable[[slice], Sequence[Floats]], rows: int, bounds: Rows) -> Floats:
        """The sums of columns (second axis) in every group; they are made of a few rows after the other."""
        found: Floats | None = None
        for start in range(0, max(rows, 1), _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, rows))
            made = columns(some)
            if found is None:
                found = np.zeros((self.groups, len(made)))
            first = int(np.searchsorted(bounds, some.start, side="right")) - 1
            last = int(np.searchsorted(bounds, some.stop, side="left"))
            begins = np.maximum(bounds[first:last], some.start) - some.start
            filled = np.flatnonzero(np.diff(begins, append=some.stop - some.start) > 0)
            for number, column in enumerate(made):
                found[first + filled, number] += np.add.reduceat(column, begins[filled]) if len(filled) else 0.0
        assert found is not None
        return found

    def greatest(self, column: Column) -> Floats:
        """The greatest number of a column of rows in every group, where it is above 0."""
        bounds = self._bounds
        found = np.zeros(self.groups)
        filled = np.flatnonzero(bounds[1:] > bounds[:-1])
        if len(filled):
            found[filled] = np.maximum(np.maximum.reduceat(column, bounds[filled]), 0.0)
        return found

    def _unseen(self, per: Literal["unit", "event"]) -> Unseen:
        """The most that one unsampled unit of weight or one unsampled event of each group could count."""
        strata, (as_of,) = self.sample.strata, self.as_of.tolist()
        weights = strata.unit_design_weight if per == "unit" else strata.event_design_weight
        exclusion = strata.unit_exclusion_probability if per == "unit" else strata.event_exclusion_probability
        sampled = weights > 0
        if not sampled.any():
            return Unseen(np.zeros(self.groups), np.zeros(self.groups))
        assert self.complete_since is not None
        ends, group = np.unique(np.minimum(self.complete_since, as_of), return_inverse=True)  # mostly one for all
        newest = np.minimum(strata.newest[sampled], ends[:, None])
        factors = np.where(
            strata.oldest[sampled] <= ends[:, None], self.decay(self.sample.unit.seconds(as_of - newest)), 0.0
        )
        with np.errstate(over="ignore"):
            contributions = np.minimum(factors * weights[sampled], MOST_UNSEEN)
        largest = contributions.argmax(axis=1)
        most = contributions[np.arange(len(ends)), largest]
        return Unseen(most[group], (np.square(most) * exclusion[sampled][largest])[group])
