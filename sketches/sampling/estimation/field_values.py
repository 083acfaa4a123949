"""A sample whose events are ranked, compared or summed by another column than their value.

A field takes the place of the value, and everything that a sample answers about values it then answers about the field.
Events of which the field is missing are left out, as SQL leaves them out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sketches.arrays import Column, Rows
from sketches.errors import UnanswerableError
from sketches.events import Kind, Labels
from sketches.fields import FieldColumn, FieldKind
from sketches.hashing import hash_each

if TYPE_CHECKING:
    from sketches.sampling.estimation.poisson_sample import PoissonSample


class Measures(NamedTuple):
    """What is summed of each row, and its ends over all events."""

    values: Column
    least: float
    greatest: float

    def take(self, rows: Rows | slice) -> Measures:
        return self._replace(values=self.values[rows])


def field_of(sample: PoissonSample, name: str) -> FieldColumn:
    """A field of the rows; one that is known of other events alone is missing in all."""
    if name in sample.fields:
        return sample.fields[name]
    if name in sample.known or not len(sample):
        return FieldColumn.absent(len(sample))
    kept = f"kept are {', '.join(sample.known)}" if sample.known else "this stream keeps none"
    raise UnanswerableError(f"{name!r} is no field of these events; {kept}")


def with_values(sample: PoissonSample, name: str) -> PoissonSample:
    """The sample of the events of which a column is known, with it in the place of the value."""
    if name == "weight":
        found, kind, labels = sample, Kind.INTEGER, Labels.none()
        measures = _weights(sample)
    else:
        found, column = _known(sample, name)
        kind, labels, measures = kind_of(column.kind), Labels.none(), _measures(found, name, column)
        if kind is Kind.KEY:
            labels, measures = _keys(column)
    return replace(
        found,
        values=measures.values,
        kind=kind,
        labels=labels,
        least_value=measures.least,
        greatest_value=measures.greatest,
        totals=None,
        measures=None,
    )


def with_measures(sample: PoissonSample, name: str, values: PoissonSample) -> PoissonSample:
    """The sample of the events of which a column is known, with it as what is summed; the values stay.

    `values` is the sample of the same events that still has their value.
    """
    if name == "value":
        if values.kind is Kind.KEY and len(values):
            raise UnanswerableError("sums of the value need numbers, but this stream's values are text")
        measures = Measures(values.values, values.least_value, values.greatest_value)
        return replace(sample, measures=measures, totals=None)
    if name == "weight":
        return replace(sample, measures=_weights(sample), totals=None)
    found, column = _known(sample, name)
    if column.kind is FieldKind.TEXT and len(found):
        raise UnanswerableError(f"sums of {name} need numbers, but it is text")
    return replace(found, measures=_measures(found, name, column), totals=None)


def _weights(sample: PoissonSample) -> Measures:
    return Measures(sample.event_weights, float(sample.least_weight), float(sample.greatest_weight))


def kind_of(kind: FieldKind) -> Kind:
    """What a field's values are to a sketch: true and false are 1 and 0."""
    return {FieldKind.TEXT: Kind.KEY, FieldKind.FLOAT: Kind.FLOAT}.get(kind, Kind.INTEGER)


def of_which_known(sample: PoissonSample, name: str) -> PoissonSample:
    """The sample of the events of which a column is known."""
    return sample if name in ("value", "weight") else _known(sample, name)[0]


def _known(sample: PoissonSample, name: str) -> tuple[PoissonSample, FieldColumn]:
    """The rows of which a field is known, and the field."""
    column = field_of(sample, name)
    if column.missing is None:
        return sample, column
    rows = np.flatnonzero(column.known)
    return sample.take(rows), column.take(rows)


def _keys(column: FieldColumn) -> tuple[Labels, Measures]:
    """The texts of a field as keys: their labels, and the hash of each row's."""
    hashes = hash_each(text.encode() for text in column.texts)
    order = np.argsort(hashes)
    labels = Labels(hashes[order], tuple(column.texts[at] for at in order.tolist()))
    return labels, Measures(hashes[column.values] if len(hashes) else np.zeros(len(column), np.uint64), 0.0, 0.0)


def _measures(sample: PoissonSample, name: str, column: FieldColumn) -> Measures:
    """A field of numbers, or of true and false; of text its codes, which nobody may sum."""
    if column.kind is FieldKind.BOOLEAN:
        return Measures(column.values.astype(np.int64), 0.0, 1.0)
    known = sample.known.get(name)
    least, greatest = column.ends() if known is None else (known.least, known.greatest)
    return Measures(column.values, *((least, greatest) if least <= greatest else (0.0, 0.0)))
