"""Bands around whole curves: limits that hold at each point by itself, and limits that hold everywhere at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, Sample
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS

SHARES = np.linspace(0.01, 0.99, 49)
SEEDS = 60


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("kind", ["quantile", "threshold"])
def test_a_band_holds_as_it_says(kind: str, together: bool) -> None:
    """Asked together, all points hold at once in 95% of the samples; asked one by one, each point does by itself."""
    stream = STREAMS["uniform"](10_000, 1)
    oracle = Oracle(stream)
    axis = SHARES if kind == "quantile" else np.quantile(stream.v, SHARES).round() + 0.5
    if kind == "quantile":
        exact = np.array([oracle.answer(Question("quantile", "exp:half_life=20m", phi=phi)) for phi in axis])
    else:
        exact = np.array([oracle.answer(Question("correlated-sum", "exp:half_life=20m", tau=tau)) for tau in axis])
    outside = np.zeros((SEEDS, len(axis)), bool)
    for seed in range(SEEDS):
        sample = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.12, detail=1, seed=seed)
        if kind == "quantile":
            question = Question("quantile", "exp:half_life=20m", phi=0.5)
            curve = sample.askable_sample.quantile_curve(question, axis, together=together)
        else:
            question = Question("correlated-sum", "exp:half_life=20m", tau=0.0)
            curve = sample.askable_sample.threshold_curve(question, axis, together=together)
        assert curve.together is together
        assert curve.confidence == pytest.approx(0.95)
        outside[seed] = (exact < curve.lower - 1e-9 * exact) | (exact > curve.upper + 1e-9 * exact)
    somewhere = int(outside.any(axis=1).sum())
    assert outside.sum(axis=0).max() <= binom.ppf(1.0 - 1e-4 / len(axis), SEEDS, 0.05)
    if together:
        assert somewhere <= binom.ppf(1.0 - 1e-3, SEEDS, 0.05)
    else:
        assert somewhere > binom.ppf(1.0 - 1e-3, SEEDS, 0.05)  # which is why the two must be told apart
