"""A Poisson sample: kept rows with their inclusion probabilities, from one sketch or from many side by side.

In a Poisson sample every event is kept or not independently of the others, with an inclusion probability π that is
known for each event kept. A kept row counts 1/π times; that factor is its *design weight* (Horvitz and Thompson). Rows
of several independent copies of a sketch are averaged: each counts 1/(π·copies) times. Rows of sketches that cover
different times stand side by side. Any decayed aggregate is then a weighted sum of f(age) over one table sorted by
time, and another decay costs one dot product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Column, Floats, Ints, Rows, Words
from sketches.errors import UnanswerableError
from sketches.events import Extremes, Kind, Labels
from sketches.hashing import hash_one
from sketches.predicate import Predicate
from sketches.sampling.coefficients import Coefficients
from sketches.sampling.known_totals import KnownTotals
from sketches.sampling.ladder import Counts
from sketches.sampling.nested_sample import NestedSample
from sketches.sampling.strata import Strata
from sketches.sampling.value_classes import classes_of
from sketches.units import TimeUnit

_REMEMBERED_RANGES = 4  # ranges of values whose row numbers are remembered


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

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of_copies(
        cls, copies: Sequence[NestedSample], unit: TimeUnit, kind: Kind, labels: Labels, extremes: Extremes
    ) -> PoissonSample:
        """The rows of the independent copies of one sketch, averaged."""
        probabilities = [copy.inclusion_probabilities() for copy in copies]
        times = np.concatenate([copy.times for copy in copies])
        order = np.argsort(times, kind="stable") if len(copies) > 1 else np.arange(len(times))
        probability = np.concatenate(probabilities)[order]
        strata = [Strata.of(copy, len(copies), extremes) for copy in copies] if extremes.newest is not None else []
        return cls(
            times=times[order],
            hashes=np.concatenate([copy.hashes for copy in copies])[order],
            values=np.concatenate([copy.values for copy in copies])[order],
            weights=np.concatenate([copy.weights for copy in copies])[order],
            design_weights=1.0 / (probability * len(copies)),
            exclusion_probabilities=1.0 - probability,
            copy_numbers=np.concatenate([np.full(len(copy), i, np.int16) for i, copy in enumerate(copies)])[order],
            strata=Strata.joined(strata),
            unit=unit,
            kind=kind,
            labels=labels,
            newest=extremes.newest,
            least_value=extremes.least_value,
            greatest_value=extremes.greatest_value,
            least_weight=extremes.least_weight,
            greatest_weight=extremes.greatest_weight,
            lost_before=max(int(max(copy.weight_cuts[-1], copy.count_cuts[-1])) for copy in copies),
        )

    @classmethod
    def side_by_side(cls, parts: Sequence[PoissonSample]) -> PoissonSample:
        """Samples of different times (the epochs of a stream) as one; every row keeps its design weight."""
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
        return cls(
            times=times[order],
            hashes=column("hashes"),
            values=values,
            weights=column("weights"),
            design_weights=column("design_weights"),
            exclusion_probabilities=column("exclusion_probabilities"),
            copy_numbers=column("copy_numbers"),
            strata=Strata.joined([part.strata for part in filled]),
            unit=first.unit,
            kind=filled[0].kind,
            labels=Labels.merged(keys, values) if filled[0].kind is Kind.KEY else Labels.none(),
            newest=max(part.newest for part in filled if part.newest is not None),
            least_value=min(part.least_value for part in filled),
            greatest_value=max(part.greatest_value for part in filled),
            least_weight=min(part.least_weight for part in filled),
            greatest_weight=max(part.greatest_weight for part in filled),
            lost_before=max(part.lost_before for part in filled),
        )

    @cached_property
    def each_once(self) -> PoissonSample:
        """The same sample with every event counted once, or as often as it came, whatever its weight."""
        if self.least_weight == self.greatest_weight == 1:
            return self
        strata = self.strata
        return replace(
            self,
            weights=self.times_counted,
            strata=replace(
                strata,
                unit_design_weight=strata.event_design_weight,
                unit_exclusion_probability=strata.event_exclusion_probability,
            ),
            least_weight=1,
            greatest_weight=1,
        )

    @cached_property
    def each_row(self) -> PoissonSample:
        """The same sample with every event counted as often as it came."""
        if self.counts is None:
            return self
        strata, most = self.strata, self.most_rows
        return replace(
            self,
            weights=self.weights * self.counts,
            strata=replace(
                strata,
                unit_design_weight=strata.unit_design_weight * most,
                event_design_weight=strata.event_design_weight * most,
            ),
            greatest_weight=self.greatest_weight * most,
            counts_rows=True,
        )

    @property
    def most_rows(self) -> int:
        """How often that kept event came that came most often."""
        return 1 if self.counts is None else int(self.counts.max(initial=1))

    @property
    def times_counted(self) -> Ints:
        """How often each event counts."""
        return (
            self.counts.astype(np.int64)
            if self.counts_rows and self.counts is not None
            else np.ones(len(self), np.int64)
        )

    @cached_property
    def value_classes(self) -> Ints:
        return classes_of(self.values)

    @cached_property
    def leanings(self) -> dict[Any, Any]:
        """What `sketches.sampling.leaning` has made of these rows beside their totals."""
        return {}

    def where(self, predicate: Predicate) -> PoissonSample:
        """The sample of the events that satisfy a predicate; the same object while the same one is asked for."""
        if not predicate:
            return self
        if predicate not in self._restricted:
            if len(self._restricted) >= _REMEMBERED_RANGES:
                self._restricted.clear()
            self._restricted[predicate] = self._where(predicate)
        return self._restricted[predicate]

    def _where(self, predicate: Predicate) -> PoissonSample:
        matching = np.ones(len(self), bool)
        if len(self):
            self._refuse(predicate)
        if predicate.ranges:
            columns = {"value": self.values, "weight": self.weights}
            matching &= predicate.holds(columns.__getitem__)
        if predicate.key is not None:
            matching &= self.values == np.uint64(hash_one(predicate.key))
        value = predicate.range_of("value").closed(whole=self.kind is Kind.INTEGER)
        weight = predicate.range_of("weight").closed(whole=True)
        return replace(
            self.take(np.flatnonzero(matching)),
            least_value=min(max(self.least_value, value.low), self.greatest_value),
            greatest_value=max(min(self.greatest_value, value.high), self.least_value),
            least_weight=int(min(max(self.least_weight, weight.low), self.greatest_weight)),
            greatest_weight=int(max(min(self.greatest_weight, weight.high), self.least_weight)),
        )

    def _refuse(self, predicate: Predicate) -> None:
        if self.kind is Kind.KEY and predicate.range_of("value"):
            raise UnanswerableError("a range of values needs numbers, but this stream's values are text")
        if self.kind is not Kind.KEY and predicate.key is not None:
            raise UnanswerableError(f"the value is to be {predicate.key!r}, but this stream's values are numbers")

    def take(self, rows: Rows | slice) -> PoissonSample:
        """Some of the rows; what is known of unseen events stays."""
        return replace(
            self,
            times=self.times[rows],
            hashes=self.hashes[rows],
            values=self.values[rows],
            weights=self.weights[rows],
            design_weights=self.design_weights[rows],
            exclusion_probabilities=self.exclusion_probabilities[rows],
            copy_numbers=self.copy_numbers[rows],
            counts=None if self.counts is None else self.counts[rows],
            totals=None,
        )

    def since(self, begin: int) -> PoissonSample:
        """The sample of the events from this time on."""
        strata = self.strata
        alive = strata.newest >= begin
        rows = slice(int(np.searchsorted(self.times, begin, side="left")), len(self))
        return replace(self.take(rows), strata=Strata(*(getattr(strata, one.name)[alive] for one in fields(Strata))))

    @cached_property
    def _restricted(self) -> dict[Predicate, PoissonSample]:
        return {}

    @cached_property
    def expanded_weights(self) -> Floats:
        """w/π: what each row adds to an undecayed weighted sum."""
        return self.weights * self.design_weights

    @cached_property
    def expanded_events(self) -> Floats:
        """1/π, or how often an event came over π: what each row adds to an undecayed count."""
        return self.times_counted * self.design_weights if self.counts_rows else self.design_weights

    @cached_property
    def weight_coefficients(self) -> Coefficients:
        """For Σ w·f: the part that was kept with certainty, the part that was sampled, and the variance."""
        return self._coefficients(self.expanded_weights)

    @cached_property
    def count_coefficients(self) -> Coefficients:
        """The same for Σ f."""
        return self._coefficients(self.expanded_events)

    @cached_property
    def mean_coefficients(self) -> Coefficients:
        """Those of Σ w·f, then those of Σ f, then their covariance."""
        return self._over(self.expanded_weights, self.expanded_events)

    @cached_property
    def repeat_coefficients(self) -> Coefficients:
        """Those of Σ f over events, then those over their rows, then their covariance."""
        counts = 1.0 if self.counts is None else self.counts
        return self._over(self.design_weights, self.design_weights * counts)

    def value_coefficients(self, sign: int, scale: float) -> Coefficients:
        """For Σ w·v·f over the values of one sign, as positive numbers in units of `scale`."""
        key = ("sum", sign, scale)
        if key not in self._of_values:
            expanded = np.maximum(sign * (self.values / scale), 0.0) * self.expanded_weights
            self._of_values[key] = self._coefficients(expanded)
        return self._of_values[key]

    def value_mean_coefficients(self, scale: float) -> Coefficients:
        """For the mean of values by weight: the value less the least value, in units of `scale`, then the weight."""
        key = ("mean", 0, scale)
        if key not in self._of_values:
            expanded = (self.values / scale - self.least_value / scale) * self.expanded_weights
            self._of_values[key] = self._over(expanded, self.expanded_weights)
        return self._of_values[key]

    @cached_property
    def _of_values(self) -> dict[tuple[str, int, float], Coefficients]:
        return {}

    def _coefficients(self, expanded: Floats) -> Coefficients:
        certain = np.where(self.exclusion_probabilities == 0.0, expanded, 0.0)
        variance = np.square(expanded) * self.exclusion_probabilities
        return Coefficients(self.times, np.stack([certain, expanded - certain]), np.stack([variance]))

    def _over(self, expanded: Floats, divisor: Floats) -> Coefficients:
        """Those of a quotient: of its top, of its bottom, and their covariance."""
        top, bottom = self._coefficients(expanded), self._coefficients(divisor)
        covariance = expanded * divisor * self.exclusion_probabilities
        return Coefficients(
            self.times,
            np.concatenate([top.linear, bottom.linear]),
            np.concatenate([top.squared, bottom.squared, [covariance]]),
        )

    @cached_property
    def by_value(self) -> Rows:
        """Row numbers in the order of values."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def sorted_values(self) -> Floats:
        return self.values[self.by_value].astype(np.float64)

    @cached_property
    def coefficients_by_time(self) -> Floats:
        """`weight_coefficients` as one array with a row each for the certain part, the sampled part, the variance."""
        return np.concatenate([self.weight_coefficients.linear, self.weight_coefficients.squared])

    @cached_property
    def coefficients_by_value(self) -> Floats:
        """The same in the order of values, and with a row for each row of the sample."""
        return np.ascontiguousarray(self.coefficients_by_time[:, self.by_value].T)

    def blocks(self, stride: int) -> NDArray[np.int32]:
        """For each row the number of its block, where every `stride` rows in the order of values are one block."""
        if stride not in self._blocks:
            block = np.empty(len(self), np.int32)
            block[self.by_value] = np.arange(len(self)) // stride
            self._blocks.clear()
            self._blocks[stride] = block
        return self._blocks[stride]

    @cached_property
    def _blocks(self) -> dict[int, NDArray[np.int32]]:
        return {}

    def between(self, low: float | None, high: float | None) -> Rows:
        """Numbers of the rows with values in a closed range; the same array while the same range is asked for."""
        if (low, high) not in self._ranges:
            if len(self._ranges) >= _REMEMBERED_RANGES:
                self._ranges.clear()
            self._ranges[low, high] = self._between(low, high)
        return self._ranges[low, high]

    def _between(self, low: float | None, high: float | None) -> Rows:
        if low is None:
            return np.arange(len(self)) if high is None else np.flatnonzero(self.values <= high)
        above = self.values >= low
        return np.flatnonzero(above if high is None else above & (self.values <= high))

    @cached_property
    def _ranges(self) -> dict[tuple[float | None, float | None], Rows]:
        return {}

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
    def groups(self) -> tuple[Column, Rows]:
        """The distinct values, and for each row the number of its value among them."""
        distinct, codes = np.unique(self.values, return_inverse=True)
        return distinct, codes

    @cached_property
    def ranked(self) -> PoissonSample:
        """The same sample with the place of each value among those held instead of the value, so that floats tell all
        apart; what is unseen may come before or after all of them."""
        values, codes = self.groups
        return replace(self, values=codes, least_value=-1.0, greatest_value=float(len(values)))
