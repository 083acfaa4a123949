"""Sums over sliding windows by differences are those that the tree of slices gives of the same decay, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.decay import parse_decay
from sketches.family import Repeats
from sketches.predicate import Range
from sketches.sampling.difference_estimator.leaning import EVENTS, WEIGHTS, Leaning, lean
from sketches.sampling.difference_estimator.residuals import residuals
from sketches.units import SECOND
from tests.support.leaned import DAY, DAYS, HOUR, KINDS, NAMES, stream_of

SAME = {  # at every whole age
    "window:1d": "table:0=1,86399=1,86400=0",
    "window:40m": "table:0=1,2399=1,2400=0",
    "window:1s": "table:0=1,1=0",
    "none": "table:0=1,99999999=1",
}
BY_ROW = -1.0  # no parabola is as close


def as_of_times(leaning: Leaning, rng: np.random.Generator) -> np.ndarray:
    """Any, also before and after all events, and those at which an hour or all events begin or end."""
    times = leaning.rows.tree.times
    ends = [DAY - 1, DAY, 6 * DAY + HOUR - 1, times[0] - 1, times[0], times[-1], times[-1] + 1]
    return np.concatenate([rng.integers(-5_000, DAYS * DAY + 100_000, 12), ends])


@pytest.mark.parametrize("kind", ["no repeats", "4% repeated", "backfilled", "unknown before", "long slices"])
def test_they_are_those_of_the_tree(kind: str) -> None:
    """Sums, variances, what an unseen event may leave (which may be less), and limits that always hold."""
    sample, _ = stream_of(kind, 6_000, 3, 0.15)
    rng = np.random.default_rng(4)
    for repeats in {Repeats.FORGIVEN, KINDS[kind].taken[-1]}:
        rows = sample.of(NAMES, repeats).sample
        for quantities, inside in (((WEIGHTS,), None), ((WEIGHTS, EVENTS), None), ((EVENTS,), Range(high=30.0))):
            leaning = lean(rows, quantities, inside)
            assert leaning is not None
            as_of = as_of_times(leaning, rng)
            for window, table in SAME.items():
                decay = parse_decay(table)
                cover = leaning.rows.tree.cover(decay, SECOND, as_of, BY_ROW)
                left = residuals(leaning.rows, cover, as_of, decay, SECOND)
                wanted, plain = leaning._leaned(cover.steps, left, len(as_of)), (left.certain, left.sampled)
                found, apart = leaning.sums(parse_decay(window), as_of, SECOND)
                scale = 1.0 + np.abs(plain[0] + plain[1]).max()
                cut_alike = np.isclose(found.values, wanted.values, rtol=0.0, atol=1e-9 * scale).all(axis=1)
                assert cut_alike.mean() > 0.9  # elsewhere the tree takes another mean of f, by five ages
                spread = 1.0 + left.spreads.max()
                assert np.abs(found.covariances - wanted.covariances)[cut_alike].max() < 1e-9 * spread
                assert np.abs(apart.spreads - left.spreads).max() < 1e-9 * spread
                for one, other in zip((apart.certain, apart.sampled), plain, strict=True):
                    assert np.abs(one - other).max() < 1e-9 * scale
                for one, other in ((found.more, wanted.more), (found.fewer, wanted.fewer)):
                    assert (one <= other + 1e-9 * scale)[cut_alike].all()
                assert np.allclose(found.least, wanted.least, rtol=1e-9)
                assert np.allclose(found.most, wanted.most, rtol=1e-9)
