"""The rows of a sample that satisfy a predicate, and what is known of the unseen events that do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sketches.arrays import Flags
from sketches.errors import UnanswerableError
from sketches.events import Kind
from sketches.fields import FieldKind, KnownField
from sketches.hashing import hash_one
from sketches.predicate import Numbers, Predicate, Range, Texts, Values, values_of
from sketches.sampling.estimation.field_values import field_of

if TYPE_CHECKING:
    from sketches.sampling.estimation.poisson_sample import PoissonSample

COLUMNS: Final = frozenset({"value", "weight", "time"})  # of the rows of a sample


def restricted(sample: PoissonSample, predicate: Predicate) -> PoissonSample:
    """The sample of the events that satisfy a predicate."""
    value = predicate.range_of("value").closed(whole=sample.kind is Kind.INTEGER)
    weight = predicate.range_of("weight").closed(whole=True)
    rows = sample.most_rows if sample.counts_rows else 1  # weights are then those of all rows of an event
    found = sample.take(np.flatnonzero(matching(sample, predicate)))
    return replace(
        found,
        totals=None if sample.totals is None else sample.totals.where(predicate),
        known={name: _within(known, predicate.range_of(name)) for name, known in sample.known.items()},
        strata=sample.strata.within(predicate.range_of("time").closed(whole=True)),
        least_value=min(max(sample.least_value, value.low), sample.greatest_value),
        greatest_value=max(min(sample.greatest_value, value.high), sample.least_value),
        least_weight=int(min(max(sample.least_weight, weight.low), sample.greatest_weight)),
        greatest_weight=int(max(min(sample.greatest_weight, rows * weight.high), sample.least_weight)),
    )


def matching(sample: PoissonSample, predicate: Predicate) -> Flags:
    """Which rows satisfy a predicate."""
    if not len(sample):
        return np.zeros(0, bool)
    _refuse(sample, predicate)
    found, rest = np.ones(len(sample), bool), replace(predicate, key=None)
    if predicate.key is not None:
        found = sample.values == np.uint64(hash_one(predicate.key))
    return found & rest.holds(lambda name: _column(sample, name)) if rest else found


def _column(sample: PoissonSample, name: str) -> Values:
    match name:
        case "value" if sample.kind is Kind.KEY:
            return Texts(np.searchsorted(sample.labels.hashes, sample.values), sample.labels.texts)
        case "value":
            return Numbers(sample.values)
        case "weight":
            return Numbers(sample.event_weights)
        case "time":
            return Numbers(sample.times)
        case "source":
            raise UnanswerableError(
                f"a sample selects events by {', '.join(sorted(COLUMNS))} and fields, not by source"
            )
    return values_of(field_of(sample, name))


def _within(known: KnownField, limits: Range) -> KnownField:
    """What is known of a field of the events in a range of it."""
    if not limits or known.least > known.greatest:
        return known
    closed = limits.closed(whole=known.kind is FieldKind.INTEGER)
    least = min(max(known.least, closed.low), known.greatest)
    return known._replace(least=least, greatest=max(min(known.greatest, closed.high), known.least))


def _refuse(sample: PoissonSample, predicate: Predicate) -> None:
    if sample.kind is Kind.KEY and predicate.range_of("value"):
        raise UnanswerableError("a range of values needs numbers, but this stream's values are text")
    if sample.kind is not Kind.KEY and predicate.key is not None:
        raise UnanswerableError(f"the value is to be {predicate.key!r}, but this stream's values are numbers")
