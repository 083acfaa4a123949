"""Which share of the rows repeats an event: within what the numbers of events and of rows say, and right as often."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Question
from sketches.decay import parse_decay
from tests.support.leaned import MOMENTS, NAMES, Exact, stream_of
from tests.support.thinned import ALLOWED, Count

TRIALS = 30


@pytest.mark.parametrize("kind", ["4% repeated", "60% repeated"])
@pytest.mark.parametrize("decay", ["none", "window:1d", "exp:half_life=6h"])
def test_the_share_of_repeats_goes_with_the_numbers_beside_it(kind: str, decay: str) -> None:
    counted, known = Count(), 0
    for seed in range(TRIALS):
        sample, rows = stream_of(kind, 3_000, 900 + seed, 0.3)
        exact, as_of = Exact(rows), MOMENTS["now"]
        question = Question("count", decay, as_of=as_of, confidence=1 - ALLOWED)
        found = sample.of(NAMES).answer(question)
        assert found.seen is not None
        number, share = found.seen.rows, found.seen.repeated
        ages = as_of - exact.times
        f = np.where(ages >= 0, parse_decay(decay)(np.maximum(ages, 0).astype(np.float64)), 0.0)
        came = exact.came.sum(axis=0)
        truth = 1.0 - f.sum() / (f @ came)
        counted.trials += 1
        counted.missed += not share.lower - 1e-12 <= truth <= share.upper + 1e-12
        assert share.lower <= share.estimate <= share.upper
        if number.lower == number.upper:
            known += 1
            assert number.estimate == f @ came
            assert 1.0 - found.upper / number.estimate <= share.lower
            assert share.upper <= 1.0 - found.lower / number.estimate
    assert counted.missed <= ALLOWED * TRIALS + 3.0 * np.sqrt(ALLOWED * TRIALS)
    assert known > TRIALS // 2 or decay != "none"
