"""A Poisson sample: kept rows with their inclusion probabilities, from one sketch or from many side by side.

In a Poisson sample every event is kept or not independently of the others, with an inclusion probability π that is
known for each event kept. A kept row counts 1/π times; that factor is its *design weight* (Horvitz and Thompson). Rows
of several independent copies of a sketch are averaged: each counts 1/(π·copies) times. Rows of sketches that cover
different times stand side by side. Any decayed aggregate is then a weighted sum of f(age) over one table sorted by
time, and another decay costs one dot product.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Floats, Ints, Rows, Words, all_once, stable_order
from sketches.events import Kind, Labels
from sketches.fields import Fields, Known
from sketches.predicate import Predicate, Range
from sketches.recent import Recent
from sketches.records import dataclass
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.field_values import Measures, with_values
from sketches.sampling.estimation.restriction import matching, restricted
from sketches.sampling.inclusion.ladder import Counts
from sketches.sampling.inclusion.strata import Strata
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.value_classes import classes_of
from sketches.units import TimeUnit

_REMEMBERED_RANGES = 4  # ranges of values whose row numbers are remembered
_REMEMBERED_SPLITS = 2  # fields by which rows were put in order
_REMEMBERED_LEANINGS = 4  # questions of which what serves every decay is kept


@dataclass(frozen=True)
class PoissonSample:
    """Rows sorted by time, each with its design weight and with the probability that it had not been kept."""

    times: Ints
    hashes: Words
    values: Column
    weights: Ints
    design_weights: Floats  # 1/π over the number of copies
    exclusion_probabilities: Floats  # 1 - π
    copy_numbers: NDArray[np.int16]  # which of the copies the row comes from
    strata: Strata
    unit: TimeUnit
    kind: Kind
    labels: Labels
    newest: int | None  # the newest event seen, kept or not; None where there was none
    least_value: float
    greatest_value: float
    least_weight: int
    greatest_weight: int
    lost_before: int  # no level holds the events at or before this time (NO_CUT: every event is in some level's reach)
    counts: Counts | None = None  # how many rows were seen of each row's event; None: one
    totals: KnownTotals | None = None  # of all rows that were seen of the events that this is a sample of
    counts_rows: bool = False  # an event counts as often as it came
    own_weights: Ints | None = None  # of each event, where `weights` say how often it counts; None: they are the same
    fields: Fields = field(default_factory=Fields.none)
    known: Known = field(default_factory=dict)  # of the fields of all events that this is a sample of
    measures: Measures | None = None  # what is summed or averaged where that is not the value
    origin: PoissonSample | None = None  # the same rows with other weights
    codes: Rows | None = None  # the number of each row's group, where groups are asked one beside the other

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def each_once(self) -> PoissonSample:
        """The same sample with every event counted once, or as often as it came, whatever its weight."""
        if self.least_weight == self.greatest_weight == 1:
            return self
        strata = self.strata
        return replace(
            self,
            weights=self.times_counted,
            own_weights=self.event_weights,
            strata=replace(
                strata,
                unit_design_weight=strata.event_design_weight,
                unit_exclusion_probability=strata.event_exclusion_probability,
            ),
            least_weight=1,
            greatest_weight=1,
            origin=self,
        )

    @cached_property
    def each_row(self) -> PoissonSample:
        """The same sample with every event counted as often as it came."""
        if self.counts is None:
            return self
        strata, most = self.strata, self.most_rows
        return replace(
            self,
            weights=self.weights if most == 1 else self.weights * self.counts,
            own_weights=self.event_weights,
            strata=replace(
                strata,
                unit_design_weight=strata.unit_design_weight * most,
                event_design_weight=strata.event_design_weight * most,
            ),
            greatest_weight=self.greatest_weight * most,
            counts_rows=True,
            origin=self,
        )

    @property
    def event_weights(self) -> Ints:
        """The weight of each event, however often it counts."""
        return self.weights if self.own_weights is None else self.own_weights

    @cached_property
    def most_rows(self) -> int:
        """How often that kept event came that came most often."""
        return 1 if self.counts is None else int(self.counts.max(initial=1))

    @property
    def times_counted(self) -> Ints:
        """How often each event counts."""
        if self.counts_rows and self.counts is not None and self.most_rows > 1:
            return self.counts.astype(np.int64)
        return np.broadcast_to(np.int64(1), len(self))

    @cached_property
    def value_classes(self) -> Ints:
        return classes_of(self.values) if self._same_rows is None else self._same_rows.value_classes

    @property
    def _same_rows(self) -> PoissonSample | None:
        """The sample that this one was made of with other weights: what does not depend on them is kept there."""
        same = self.origin
        if same is None or same.times is not self.times or same.values is not self.values:
            return None
        alike = same.exclusion_probabilities is self.exclusion_probabilities
        return same if alike and same.design_weights is self.design_weights else None

    @cached_property
    def leanings(self) -> Recent[Any]:
        """What `sketches.sampling.difference_estimator.leaning` has made of these rows beside their totals."""
        return Recent(_REMEMBERED_LEANINGS)

    def where(self, predicate: Predicate) -> PoissonSample:
        """The sample of the events that satisfy a predicate; the same object while the same one is asked for."""
        if not predicate:
            return self
        return self._restricted.get(predicate, lambda: restricted(self, predicate))

    def satisfying(self, predicate: Predicate) -> Rows:
        """Numbers of the rows that satisfy a predicate; the same array while the same one is asked for."""
        return self._satisfying.get(predicate, lambda: np.flatnonzero(matching(self, predicate)))

    def compared_by(self, name: str) -> PoissonSample:
        """The sample with another column in the place of the value, of the events of which that is known."""
        return self if name == "value" else self._compared_by.get(name, lambda: with_values(self, name))

    @property
    def summed(self) -> Measures:
        """What is summed of each row where it is not the weight."""
        if self.measures is not None:
            return self.measures
        return Measures(self.values, self.least_value, self.greatest_value)

    def take(self, rows: Rows | slice) -> PoissonSample:
        """Some of the rows; what is known of unseen events stays."""
        times = self.times[rows]
        return replace(
            self,
            times=times,
            hashes=self.hashes[rows],
            values=self.values[rows],
            weights=self.weights[rows],
            design_weights=self.design_weights[rows],
            exclusion_probabilities=self.exclusion_probabilities[rows],
            copy_numbers=self.copy_numbers[rows],
            counts=None if self.counts is None else self.counts[rows],
            own_weights=None if self.own_weights is None else self.own_weights[rows],
            codes=None if self.codes is None else self.codes[rows],
            fields=self.fields.take(rows, len(times)),
            measures=None if self.measures is None else self.measures.take(rows),
            totals=None,
            origin=None,
        )

    def between_times(self, begin: int, end: int) -> PoissonSample:
        """The sample of the events from one time up to another and with it."""
        rows = slice(
            int(np.searchsorted(self.times, begin, side="left")), int(np.searchsorted(self.times, end, side="right"))
        )
        return replace(self.take(rows), strata=self.strata.within(Range(begin)))

    @cached_property
    def _restricted(self) -> Recent[PoissonSample]:
        return Recent(_REMEMBERED_RANGES)

    @cached_property
    def splits(self) -> Recent[Any]:
        """What `sketches.sampling.groups.split_sample` has made of these rows, by the name of a field."""
        return Recent(_REMEMBERED_SPLITS)

    @cached_property
    def _compared_by(self) -> Recent[PoissonSample]:
        return Recent(_REMEMBERED_RANGES)

    @cached_property
    def _satisfying(self) -> Recent[Rows]:
        return Recent(_REMEMBERED_RANGES)

    @cached_property
    def expanded_weights(self) -> Floats:
        """w/π: what each row adds to an undecayed weighted sum."""
        return self.design_weights if all_once(self.weights) else self.weights * self.design_weights

    @cached_property
    def expanded_events(self) -> Floats:
        """1/π, or how often an event came over π: what each row adds to an undecayed count."""
        one_each = not self.counts_rows or self.most_rows == 1
        return self.design_weights if one_each else self.times_counted * self.design_weights

    @cached_property
    def weight_coefficients(self) -> Coefficients:
        """For Σ w·f: the part that was kept with certainty, the part that was sampled, and the variance."""
        if self.expanded_weights is self.expanded_events:
            return self.count_coefficients
        return self._coefficients(self.expanded_weights)

    @cached_property
    def count_coefficients(self) -> Coefficients:
        """The same for Σ f."""
        same = self._same_rows
        if same is not None and same.expanded_events is self.expanded_events:
            return same.count_coefficients
        return self._coefficients(self.expanded_events)

    @cached_property
    def mean_coefficients(self) -> Coefficients:
        """Those of Σ w·f, then those of Σ f, then their covariance."""
        return self.quotient_coefficients(self.expanded_weights, self.expanded_events)

    @cached_property
    def repeat_coefficients(self) -> Coefficients:
        """Those of Σ f over events, then those over their rows, then their covariance."""
        rows = self.design_weights if self.counts is None or self.most_rows == 1 else self.design_weights * self.counts
        return self.quotient_coefficients(self.design_weights, rows)

    def value_coefficients(self, sign: int, scale: float) -> Coefficients:
        """For Σ w·v·f over the values of one sign, as positive numbers in units of `scale`."""
        key = ("sum", sign, scale)
        if key not in self._of_values:
            expanded = np.maximum(sign * (self.summed.values / scale), 0.0) * self.expanded_weights
            self._of_values[key] = self._coefficients(expanded)
        return self._of_values[key]

    def value_mean_coefficients(self, scale: float) -> Coefficients:
        """For the mean of values by weight: the value less the least value, in units of `scale`, then the weight."""
        key = ("mean", 0, scale)
        if key not in self._of_values:
            values, least, _ = self.summed
            expanded = (values / scale - least / scale) * self.expanded_weights
            self._of_values[key] = self.quotient_coefficients(expanded, self.expanded_weights)
        return self._of_values[key]

    @cached_property
    def _of_values(self) -> dict[tuple[str, int, float], Coefficients]:
        return {}

    def _coefficients(self, expanded: Floats) -> Coefficients:
        certain = np.where(self.exclusion_probabilities == 0.0, expanded, 0.0)
        variance = np.square(expanded) * self.exclusion_probabilities
        return Coefficients(self.times, (certain, expanded - certain), (variance,))

    def quotient_coefficients(self, expanded: Floats, divisor: Floats) -> Coefficients:
        """Those of a quotient: of its top, of its bottom, and their covariance."""
        top, bottom = self._known_coefficients(expanded), self._known_coefficients(divisor)
        (covariance,) = top.squared if expanded is divisor else (expanded * divisor * self.exclusion_probabilities,)
        return Coefficients(self.times, (*top.linear, *bottom.linear), (*top.squared, *bottom.squared, covariance))

    def _known_coefficients(self, expanded: Floats) -> Coefficients:
        """Those that are kept already, where these are the weights or the events."""
        if expanded is self.expanded_weights:
            return self.weight_coefficients
        return self.count_coefficients if expanded is self.expanded_events else self._coefficients(expanded)

    @cached_property
    def by_value(self) -> Rows:
        """Row numbers in the order of values."""
        return stable_order(self.values) if self._same_rows is None else self._same_rows.by_value

    @cached_property
    def by_summed(self) -> Rows:
        """Row numbers in the order of what is summed, or ranked beside the value."""
        return self.by_value if self.measures is None else stable_order(self.measures.values)

    @cached_property
    def by_group_and_value(self) -> Rows:
        """Row numbers in the order of groups and, within each, of values."""
        assert self.codes is not None
        return self.by_value[stable_order(self.codes[self.by_value])]

    @cached_property
    def values_by_group(self) -> Floats:
        """The values in the order of groups and, within each, of values."""
        return self.values[self.by_group_and_value].astype(np.float64)

    @cached_property
    def coefficients_by_group(self) -> Floats:
        """`weight_coefficients` in that order, a row each for certain part, sampled part and variance."""
        return self._in_order(self.by_group_and_value)

    @cached_property
    def sorted_values(self) -> Floats:
        same = self._same_rows
        return self.values[self.by_value].astype(np.float64) if same is None else same.sorted_values

    @cached_property
    def times_by_value(self) -> Ints:
        return self.times[self.by_value] if self._same_rows is None else self._same_rows.times_by_value

    @cached_property
    def coefficients_by_value(self) -> Floats:
        """`weight_coefficients` in the order of values, a row each for certain part, sampled part and variance."""
        return self._in_order(self.by_value)

    def _in_order(self, order: Rows) -> Floats:
        of_weight = self.weight_coefficients
        return np.stack([column[order] for column in (*of_weight.linear, *of_weight.squared)])

    def blocks(self, stride: int) -> NDArray[np.int32]:
        """For each row the number of its block, where every `stride` rows in the order of values are one block."""

        def find() -> NDArray[np.int32]:
            block = np.empty(len(self), np.int32)
            block[self.by_value] = np.arange(len(self)) // stride
            return block

        return self._blocks.get(stride, find)

    @cached_property
    def _blocks(self) -> Recent[NDArray[np.int32]]:
        return Recent(1)

    def between(self, low: float | None, high: float | None) -> Rows:
        """Numbers of the rows with values in a closed range; the same array while the same range is asked for."""
        return self._ranges.get((low, high), lambda: self._between(low, high))

    def _between(self, low: float | None, high: float | None) -> Rows:
        if low is None:
            return np.arange(len(self)) if high is None else np.flatnonzero(self.values <= high)
        above = self.values >= low
        return np.flatnonzero(above if high is None else above & (self.values <= high))

    @cached_property
    def _ranges(self) -> Recent[Rows]:
        return Recent(_REMEMBERED_RANGES)

    def others(self, rows: Rows) -> Rows:
        """Numbers of the other rows; the same array while the same rows are asked for."""
        for known, others in self._others:
            if known is rows:
                return others
        found = np.flatnonzero(np.bincount(rows, minlength=len(self)) == 0)
        self._others[:] = [(rows, found), *self._others[: _REMEMBERED_RANGES - 1]]
        return found

    @cached_property
    def _others(self) -> list[tuple[Rows, Rows]]:
        return []

    @cached_property
    def group_starts(self) -> Rows:
        """In the order of values, where each distinct value begins."""
        ordered = self.values[self.by_value]
        new = np.ones(len(ordered), bool)
        new[1:] = ordered[1:] != ordered[:-1]
        return np.flatnonzero(new)

    @cached_property
    def groups(self) -> tuple[Column, Rows]:
        """The distinct values, and for each row the number of its value among them."""
        starts, codes = self.group_starts, np.empty(len(self), np.intp)
        codes[self.by_value] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(self))))
        return self.values[self.by_value[starts]], codes

    @cached_property
    def ranked(self) -> PoissonSample:
        """The same sample with the place of each value among those held instead of the value, so that floats tell all
        apart; what is unseen may come before or after all of them."""
        values, codes = self.groups
        return replace(self, values=codes, least_value=-1.0, greatest_value=float(len(values)))
