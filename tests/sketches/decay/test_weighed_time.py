"""The time that a decay weighs, against integrals on paper and against adaptive quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from sketches.decay import parse_decay
from sketches.decay.weighed_time import weighed_time
from sketches.vocabulary import EXAMPLES

SPANS = np.array([1.0, 90.0, 3600.0, 86_400.0 * 30])


def faded(span: float) -> float:
    return 1800.0 / math.log(2.0) * -math.expm1(-span / 1800.0 * math.log(2.0))


@pytest.mark.parametrize(
    ("spec", "exact"),
    [
        ("none", lambda span: span),
        ("window:20m", lambda span: min(span, 1200.0)),
        ("exp:half_life=30m", faded),
        ("poly:alpha=1,unit=1m", lambda span: 60.0 * math.log1p(span / 60.0)),
        ("chordal:1h", lambda span: min(span, 3600.0) - min(span, 3600.0) ** 2 / 7200.0),
        ("exp:half_life=30m,window=1h", lambda span: faded(min(span, 3600.0))),
    ],
)
def test_as_on_paper(spec: str, exact: object) -> None:
    assert callable(exact)
    found = weighed_time(parse_decay(spec), SPANS)
    np.testing.assert_allclose(found, [exact(span) for span in SPANS.tolist()], rtol=1e-9)


@pytest.mark.parametrize("spec", [spec for name, spec in EXAMPLES.items() if name != "last"])
def test_every_kind_of_decay(spec: str) -> None:
    decay, span = parse_decay(spec), 5_000.0
    points = [one for one in decay.breaks() if one < span][:20]
    exact, _ = quad(lambda age: float(decay(np.array([age]))[0]), 0.0, span, points=points or None, limit=400)
    assert weighed_time(decay, np.array([span]))[0] == pytest.approx(exact, rel=1e-6)


def test_nothing_before_the_first_event() -> None:
    assert weighed_time(parse_decay("none"), np.array([-5.0, 0.0])).tolist() == [0.0, 0.0]
