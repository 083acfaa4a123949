"""The unit of time, as forged bytes may name it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketches import Events, Sample
from sketches.errors import CorruptError
from sketches.units import TimeUnit


@pytest.mark.parametrize(
    ("unit", "possible"),
    [
        (TimeUnit(1, 10**9), True),
        (TimeUnit(86_400), True),
        (TimeUnit(1, 10**15), True),
        (TimeUnit(0, 1), False),
        (TimeUnit(1, 0), False),
        (TimeUnit(1, 1 << 63), False),
    ],
)
def test_an_hour_is_a_number_of_units(unit: TimeUnit, possible: bool) -> None:
    assert unit.possible is possible
    parameters = Sample.build(Events.of(np.arange(3), np.arange(3), np.arange(3)), epsilon=0.1, delta=0.1).parameters
    data = replace(parameters, unit=unit).to_bytes()
    if possible:
        assert type(parameters).from_bytes(data, parameters.seed).unit == unit
    else:
        with pytest.raises(CorruptError, match="not a number of seconds"):
            type(parameters).from_bytes(data, parameters.seed)
