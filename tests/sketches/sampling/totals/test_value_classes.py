"""Classes of numbers by powers of two: which class a number is in, and how much of a class a range holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import Events, Question, Sample
from sketches.family import Repeats
from sketches.predicate import Range
from sketches.sampling.totals.row_counts import count_rows
from sketches.sampling.totals.value_classes import LEAST_EXPONENT, SHIFT, classes_of, end_of, shares_inside

NUMBERS = st.floats(-1e12, 1e12) | st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -1.0, -2.0, 5e-324, 1e-13, -1e-300])


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_a_class_grows_with_its_numbers_and_holds_one_power_of_two(numbers: list[float]) -> None:
    values = np.sort(np.array(numbers))
    classes = classes_of(values)
    assert (np.diff(classes) >= 0).all()
    for value, found in zip(values.tolist(), classes.tolist(), strict=True):
        if value == 0.0:
            assert found == 0
            continue
        assert math.copysign(1, found) == math.copysign(1, value)
        assert abs(value) < end_of(abs(found))
        assert abs(value) >= end_of(abs(found)) / 2.0 or abs(found) == LEAST_EXPONENT + SHIFT


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_rows_are_counted_in_the_classes_of_their_values(numbers: list[float]) -> None:
    """The compiled pass of ingest has the same classes."""
    values = np.array(numbers)
    size = len(values)
    found = count_rows(
        Events.of(range(size), np.zeros(size, np.int64), values), np.zeros(size, np.int32), 3_600
    ).by_class
    classes, counts = np.unique(classes_of(values), return_counts=True)
    assert found.groups.tolist() == classes.tolist()
    assert found.sums[:, 0].tolist() == counts.tolist()


ENDS = st.sampled_from([-math.inf, math.inf, *(sign * 2.0**power for sign in (1, -1) for power in range(-3, 5)), 0.0])
RANGES = st.builds(
    lambda ends, open_low, open_high: Range(min(ends), max(ends), open_low, open_high),
    st.tuples(ENDS | st.floats(-20, 20), ENDS | st.floats(-20, 20)),
    st.booleans(),
    st.booleans(),
)


@given(RANGES, st.booleans())
def test_a_share_is_one_only_where_all_numbers_lie_inside_and_nothing_only_where_none_does(
    inside: Range, whole: bool
) -> None:
    """Open ends and ends that are powers of two too: what is bounded by totals counts on it."""
    numbers: list[float] = [0.0]
    for power in range(-5, 6):
        first = 2.0**power
        numbers += [first, math.nextafter(first, 9e9), first * 1.3, first * 1.5, math.nextafter(2.0 * first, 0.0)]
    values = np.array([*numbers, *(-number for number in numbers)])
    if whole:
        values = np.arange(-63, 64).astype(np.float64)
    matching = inside.holds(values.astype(np.int64) if whole else values)
    classes = classes_of(values)
    shares = shares_inside(classes, inside, whole=whole)
    for number in np.unique(classes).tolist():
        share, held = float(shares[classes == number][0]), matching[classes == number]
        assert 0.0 <= share <= 1.0
        if held.any():
            assert share > 0.0, (number, inside)
        if share == 1.0:
            assert held.all(), (number, inside)
        if whole and held.all():
            assert share == 1.0, (number, inside)
        if whole and not held.any():
            assert share == 0.0, (number, inside)


@pytest.mark.parametrize(("low", "high", "share"), [(4.0, 6.0, math.log2(1.5)), (5.0, 100.0, 3 - math.log2(5.0))])
def test_the_guess_takes_logarithms_to_be_spread_evenly(low: float, high: float, share: float) -> None:
    for sign in (1, -1):
        inside = Range(low, high) if sign > 0 else Range(-high, -low)
        found = shares_inside(classes_of(np.array([sign * 5.0])), inside, whole=False)
        assert found.tolist() == pytest.approx([share])


def test_values_at_the_end_of_a_range_are_added_up() -> None:
    """The few tall ones are all exactly 4,096, up to which the range goes: there their class begins."""
    size, rng = 20_000, np.random.default_rng(1)
    values = np.where(np.arange(size) % 500 == 7, 4_096.0, np.where(np.arange(size) % 500 == 8, 100.0, 0.5))
    events = Events.of(rng.integers(0, 1 << 60, size), np.sort(rng.integers(0, 864_000, size)), values)
    sample = Sample.partial(events, np.zeros(size, np.int32), ["s"], epsilon=0.1, detail=1)
    for repeats in (Repeats.NONE, Repeats.FORGIVEN):
        found = sample.of(None, repeats).answer(Question("range-sum", of="value", low=0.25, high=4_096.0))
        assert found.lower <= values.sum() <= found.upper
        assert found.value > 0.2 * values.sum()
