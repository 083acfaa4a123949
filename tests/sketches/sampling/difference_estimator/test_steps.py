"""Means of a decay over slices of time, against its sum over all whole ages."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.decay import parse_decay
from sketches.sampling.difference_estimator.steps import f_at, mean_between, stepped
from sketches.sampling.estimation.piecewise_decay import TOLERANCE, PiecewiseDecay
from sketches.units import SECOND

AS_OF = np.array([-3, 0, 30, 120, 299, 400])


def test_the_mean_of_f_is_its_sum_over_all_times_of_a_step() -> None:
    edges = np.array([0, 7, 50, 51, 300])
    for decay in ("exp:half_life=40s", "window:60s", "none"):
        table = PiecewiseDecay.reaching(np.array([-3]), 400, SECOND, parse_decay(decay), TOLERANCE)
        found = stepped(edges, AS_OF, table, table.first)
        for at, begin, end, height in zip(*(column.tolist() for column in found.steps), strict=True):
            ages = AS_OF[at] - np.arange(begin, end)
            factors = np.where(ages >= 0, f_at(table, np.maximum(ages, 0)), 0.0)
            assert height == pytest.approx(factors.mean(), rel=1e-9, abs=1e-12)
        for moment in range(len(AS_OF)):
            begins, ends = found.steps.begins[found.steps.at == moment], found.steps.ends[found.steps.at == moment]
            assert np.array_equal(begins[1:], ends[:-1]), "without a gap"


@pytest.mark.parametrize("spec", ["exp:half_life=40s", "window:60s", "none", "poly:alpha=2,unit=1s"])
def test_the_mean_between_two_times_is_that_of_all_whole_ages(spec: str) -> None:
    """Also where the as-of time lies between them."""
    decay, as_of = parse_decay(spec), np.array([30, 120, 250, 600])
    begins, ends = np.array([0, 90, 200, 100]), np.array([25, 180, 300, 101])
    found = mean_between(decay, SECOND, as_of, begins, ends)
    for number, height in enumerate(found.tolist()):
        exact = decay((as_of[number] - np.arange(begins[number], ends[number])).astype(np.float64)).mean()
        assert height == pytest.approx(exact, rel=1e-3)
