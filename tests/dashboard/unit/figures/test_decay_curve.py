"""The picture of a decay shows its weights up to the age that matters, and where half of it is gone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dashboard.asking.view import by_number
from dashboard.figures.decay_curve import decay_picture, decay_points
from sketches.decay import EXAMPLES, parse_decay
from tests.support.oracle import DECAYS

BY_AGE = [spec for spec in [*EXAMPLES.values(), *DECAYS] if not by_number(parse_decay(spec))]
SPECS = [*BY_AGE, "table:0=1,1m=0.9", "exp:half_life=30m,window=10m", "poly:alpha=0.001,unit=1m"]


@pytest.mark.parametrize("spec", SPECS)
def test_the_picture_of_a_decay_shows_what_is_of_interest(spec: str) -> None:
    """Ages rise from 0, weights are the decay's, the half is inside, and a jump to 0 is upright."""
    decay = parse_decay(spec)
    ages, weights = decay_points(decay)
    assert ages[0] == 0
    assert (np.diff(ages) > 0).all()
    assert np.isfinite(ages).all()
    np.testing.assert_array_equal(weights, decay(ages))
    if math.isfinite(decay.half_age):
        assert decay.half_age <= ages[-1]
    if weights[-1] == 0 and decay.horizon in ages.tolist():
        at = ages.tolist().index(decay.horizon)
        assert ages[at - 1] == np.nextafter(decay.horizon, 0.0)
    assert len(ages) >= 150


def test_a_decay_is_drawn_over_age_with_its_half() -> None:
    ages, weights = np.array([0.0, 3600.0, 7200.0]), np.array([1.0, 0.5, 0.25])
    figure = decay_picture(ages, weights, 3600.0, ("h", 3600.0))
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([0, 1, 2], [1.0, 0.5, 0.25])
    assert [shape.x0 for shape in figure.layout.shapes] == [1.0]
    assert decay_picture(ages, weights, math.inf, ("h", 3600.0)).layout.shapes == ()
    assert decay_picture(ages, weights, 9000.0, ("h", 3600.0)).layout.shapes == ()


def test_a_decay_that_begins_elsewhere_than_at_one_is_drawn_whole() -> None:
    """Its highest weight is inside the picture."""
    decay = parse_decay("table:0=5,1h=0")
    ages, weights = decay_points(decay)
    figure = decay_picture(ages, weights, decay.half_age, ("h", 3600.0))
    assert figure.layout.yaxis.range[1] > weights.max() == 5.0
    assert figure.layout.yaxis.tickvals[-1] == 5.0
