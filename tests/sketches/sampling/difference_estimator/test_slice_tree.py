"""The tree of time and what is left beside totals, Σ (y·f - g·z)/π with its variance, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.arrays import Floats, Ints
from sketches.decay import parse_decay
from sketches.sampling.difference_estimator.residuals import LeanRows, Residuals, residuals
from sketches.sampling.difference_estimator.slice_tree import TOLERANCE, Cover, SliceTree
from sketches.units import SECOND

DAY, HOUR = 86_400, 3_600
DECAYS = ("exp:half_life=6h", "window:1d", "window:40m", "poly:alpha=1.5,unit=6h", "none", "poly:alpha=1,unit=1s")
AS_OF = np.array([-5, 3_000, DAY, DAY + 17, 3 * DAY + 1_800, 5 * DAY - 1, 5 * DAY, 6 * DAY, 9 * DAY])
EDGES = np.unique(np.concatenate([np.arange(0, 3 * DAY, 8 * HOUR), np.arange(3 * DAY, 5 * DAY + 1, HOUR)]))
FILLED = np.ones(len(EDGES) - 1, bool)


def rows_of(quantities: int, *, alike: bool, seed: int = 1, size: int = 900) -> LeanRows:
    """Kept events over five days, many of them in one hour; where not alike, some came several times and some are not
    asked for."""
    rng = np.random.default_rng(seed)
    probability = rng.choice([1.0, 0.5, 0.125], size)
    sizes = np.stack([rng.lognormal(0.0, 1.0, size), np.ones(size)])[:quantities] / probability
    asked, counted = sizes, None
    if not alike:
        asked, counted = sizes * (rng.random(size) < 0.8), sizes * rng.choice([0, 1, 1, 1, 2, 4], size)
    times = rng.integers(0, 5 * DAY, size)
    times[: size // 3] = 3 * DAY + rng.integers(0, HOUR, size // 3)
    return LeanRows(SliceTree.over(EDGES, np.sort(times), FILLED), asked, counted, 1.0 - probability)


def covered(rows: LeanRows, decay: str, as_of: Ints = AS_OF, tolerance: float = TOLERANCE) -> Cover:
    return rows.tree.cover(parse_decay(decay), SECOND, as_of, tolerance)


def oracle(rows: LeanRows, cover: Cover, decay: str, as_of: Ints = AS_OF) -> Residuals:
    """One event, one step and one time after the other."""
    f, tree = parse_decay(decay), rows.tree
    found = Residuals(*(np.zeros((len(as_of), width)) for width in _widths(rows)))
    counted = rows.asked if rows.counted is None else rows.counted
    for at, moment in enumerate(as_of.tolist()):
        own = np.flatnonzero(cover.steps.times == at).tolist()
        for row, time in enumerate(tree.times.tolist()):
            nodes = cover.steps.nodes[own]
            step = next((s for s, n in zip(own, nodes, strict=True) if tree.begins[n] <= time < tree.ends[n]), None)
            if step is None:
                assert time > moment or float(f(float(moment - time))) == 0.0, "what counts lies in a step"
                continue
            factor = float(f(float(moment - time))) if time <= moment else 0.0
            decayed = rows.asked[:, row] * factor
            left = decayed - counted[:, row] * cover.steps.heights[step]
            found.sums[at] += left
            (found.certain if rows.exclusion[row] == 0.0 else found.sampled)[at] += decayed
            for pair, (one, other) in enumerate(rows.pairs):
                found.covariances[at, pair] += left[one] * left[other] * rows.exclusion[row]
                found.spreads[at, pair] += decayed[one] * decayed[other] * rows.exclusion[row]
    return found


def _widths(rows: LeanRows) -> tuple[int, ...]:
    single, pairs = rows.quantities, len(rows.pairs)
    return single, pairs, single, single, pairs, single


def close(found: Floats, exact: Floats, scale: Floats, tolerance: float) -> bool:
    return bool((np.abs(found - exact) <= tolerance * scale + 1e-9).all())


@pytest.mark.parametrize("alike", [True, False], ids=["y = z", "repeated rows"])
@pytest.mark.parametrize("quantities", [1, 2])
@pytest.mark.parametrize("decay", DECAYS)
def test_cells_and_plain_python_agree(decay: str, quantities: int, alike: bool) -> None:
    """Sums within what they say they may be off, and variances nearly; without parabolas, to the last digits."""
    rows, few = rows_of(quantities, alike=alike, size=240), AS_OF[[0, 2, 4, 6, 8]]
    cover = covered(rows, decay, few)
    exact, found = oracle(rows, cover, decay, few), residuals(rows, cover, few, parse_decay(decay), SECOND)
    decayed = exact.certain + exact.sampled
    assert (np.abs(found.sums - exact.sums) <= found.off + 1e-12 * decayed + 1e-9).all()
    assert (found.off <= 2.0 * TOLERANCE * decayed + 1e-9).all()
    assert close(found.certain, exact.certain, decayed, TOLERANCE)
    assert close(found.sampled, exact.sampled, decayed, TOLERANCE)
    assert close(found.spreads, exact.spreads, exact.spreads, 1e-3)
    variances = exact.covariances[:, [pair for pair, (one, other) in enumerate(rows.pairs) if one == other]]
    noise = np.square(10.0 * TOLERANCE) * np.square(decayed).sum(axis=1, keepdims=True)
    assert close(found.covariances, exact.covariances, variances.sum(axis=1, keepdims=True) + noise, 0.1)
    by_row = covered(rows, decay, few, tolerance=-1.0)
    exact, found = oracle(rows, by_row, decay, few), residuals(rows, by_row, few, parse_decay(decay), SECOND)
    for one, truth in zip(found, exact, strict=True):
        assert one == pytest.approx(truth, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("decay", DECAYS)
def test_steps_follow_one_another_and_do_not_depend_on_rows(decay: str) -> None:
    """An estimate that leans on totals is unbiased because g is fixed without looking at the sample."""
    covers = [covered(rows_of(1, alike=True, seed=seed, size=size), decay) for seed, size in ((1, 900), (2, 5_000))]
    for one, other in zip(covers[0].steps, covers[1].steps, strict=True):
        assert np.array_equal(one, other)
    tree, steps = rows_of(1, alike=True).tree, covers[0].steps
    for at, moment in enumerate(AS_OF.tolist()):
        own = np.flatnonzero(steps.times == at)
        own = own[np.argsort(tree.begins[steps.nodes[own]])]
        begins, ends = tree.begins[steps.nodes[own]], tree.ends[steps.nodes[own]]
        assert np.array_equal(begins[1:], ends[:-1]), "without a gap"
        for begin, end, height in zip(begins.tolist(), ends.tolist(), steps.heights[own].tolist(), strict=True):
            exact = parse_decay(decay)((moment - np.arange(begin, end)).astype(np.float64)).mean()
            assert height == pytest.approx(exact, rel=3e-3, abs=1e-6)


def test_a_variance_is_not_below_nothing() -> None:
    """Where all rows have f = g nothing is left, but a parabola through squares may fall below 0."""
    as_of, size = np.array([5 * DAY]), 10
    for second in range(1_700, 1_900, 10):
        tree = SliceTree.over(EDGES, np.full(size, 5 * DAY - 1 - second), FILLED)
        rows = LeanRows(tree, np.ones((1, size)), None, np.full(size, 0.5))
        left = residuals(rows, covered(rows, "exp:half_life=6h", as_of), as_of, parse_decay("exp:half_life=6h"), SECOND)
        assert 0.0 <= left.covariances[0, 0] < 1e-4


def test_many_rows_of_one_time_are_one_leaf() -> None:
    times = np.repeat([5, 5 + HOUR], 500)
    tree = SliceTree.over(np.array([0, 2 * HOUR]), times, np.ones(1, bool))
    assert ((tree.ends - tree.begins)[tree.offspring == 0] == 1).all()
    assert tree.weights(lambda rows: [np.ones(len(times))[rows]])[0].sum(axis=0)[tree.offspring == 0].tolist() == [
        500.0,
        500.0,
    ]


def test_weights_are_made_of_a_few_rows_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.sort(np.random.default_rng(2).integers(0, 5 * DAY, 3_000))
    tree = SliceTree.over(EDGES, times, FILLED)
    columns = np.stack([np.arange(3_000.0), np.ones(3_000)])
    at_once = tree.weights(lambda rows: [*columns[:, rows]])
    monkeypatch.setattr("sketches.sampling.difference_estimator.slice_tree._AT_ONCE", 100)
    for found, expected in zip(tree.weights(lambda rows: [*columns[:, rows]]), at_once, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
