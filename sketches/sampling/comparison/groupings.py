"""Which group each sampled event is in: by its value, its weight or a field; numbers of many values are in classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Column, Flags, Floats, Ints, Rows, distinct_sorted
from sketches.changes import Name, class_of, edges_of
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.sampling.estimation.field_values import field_of
from sketches.sampling.estimation.poisson_sample import PoissonSample

_MOST_NUMBERS: Final = 24  # different values or weights that are groups by themselves
_MOST_CODES: Final = 1_000  # likewise of a field of whole numbers, which often are the codes or numbers of things
_CLASSES: Final = 10
_LOOKED_AT: Final = 20_000  # rows whose numbers decide where classes end


class Grouping(NamedTuple):
    """The groups of a column: how many, what each is called, and the number of each row's group."""

    column: str
    groups: int
    name: Callable[[int], Name]
    codes: Rows
    complete_since: Ints | None = None  # the time after which all events of a group were kept; None: as of all events


def grouping_of(sample: PoissonSample, column: str, weights: Floats) -> Grouping:
    """The groups of a column of the sampled events; classes of numbers have about equal parts of these `weights`."""
    if column == "value" and sample.kind is Kind.KEY:
        values, codes = sample.groups
        return Grouping(column, len(values), lambda at: sample.labels.text_of(int(values[at])), codes)
    if column in ("value", "weight"):
        numbers = sample.values if column == "value" else sample.event_weights
        return _of_numbers(column, numbers, np.ones(len(numbers), bool), weights, _MOST_NUMBERS)
    field = field_of(sample, column)
    if field.kind is FieldKind.TEXT:
        codes = np.where(field.known, field.values, len(field.texts)).astype(np.intp)
        texts: tuple[Name, ...] = (*field.texts, None)
        return Grouping(column, len(texts), texts.__getitem__, codes)
    if field.kind is FieldKind.BOOLEAN:
        codes = np.where(field.known, field.values, 2).astype(np.intp)
        return Grouping(column, 3, (False, True, None).__getitem__, codes)
    most = _MOST_CODES if field.kind is FieldKind.INTEGER else _MOST_NUMBERS
    return _of_numbers(column, field.values, field.known, weights, most)


def _of_numbers(column: str, numbers: Column, known: Flags, weights: Floats, most: int) -> Grouping:
    distinct = distinct_sorted(numbers[known])
    if len(distinct) <= most:
        names: tuple[Name, ...] = (*distinct.tolist(), None)
        codes = np.searchsorted(distinct, numbers)
    else:
        step = max(1, len(numbers) // _LOOKED_AT)
        some = np.flatnonzero(known & (weights > 0.0))[::step]
        edges = edges_of(numbers[some].astype(np.float64), weights[some], _CLASSES).tolist()
        names = (*(class_of(edges, number) for number in range(len(edges) + 1)), None)
        codes = np.searchsorted(np.array(edges), numbers, side="right")
    codes = np.where(known, codes, len(names) - 1).astype(np.intp)
    return Grouping(column, len(names), names.__getitem__, codes)
