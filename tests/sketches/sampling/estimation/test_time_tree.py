"""Covers of as-of times by chunks of rows, against f of each row."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, Sample, parse_decay
from sketches.arrays import product
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.horvitz_thompson import DecayFactors, sums_by_row, sums_by_tree
from sketches.sampling.estimation.time_tree import NODES, TimeTree
from sketches.units import SECOND
from tests.support.oracle import DECAYS

JUMPS = ["expr:(age<100)+(age>=100)*0.25*(age<2000)", "expr:(age<7000)*exp(-age/10m)", "window:1s", "window:3599s"]
STEPS = "expr:" + "+".join(f"0.1*(age<{edge})" for edge in range(30, 4000, 397))


def coefficients(rows: int, seed: int = 1, *, heavy: bool = False, span: int = 9_000) -> Coefficients:
    """Rows of unequal density, some at the same time, some certain and some sampled."""
    rng = np.random.default_rng(seed)
    times = np.sort((span * rng.random(rows) ** 2).astype(np.int64))
    masses = rng.exponential(1.0, rows) * (10.0 ** rng.integers(0, 12, rows) if heavy else 1.0)
    certain = rng.random(rows) < 0.5
    linear = np.stack([np.where(certain, masses, 0.0), np.where(certain, 0.0, masses)])
    return Coefficients(times, [*linear], [*np.square(linear[1:])])


@pytest.mark.parametrize("spec", [*DECAYS, *JUMPS, STEPS])
@pytest.mark.parametrize("rows", [1, 64, 65, 5_000])
@pytest.mark.parametrize("heavy", [False, True])
def test_sums_are_as_close_as_they_say(spec: str, rows: int, heavy: bool) -> None:
    """At times before, among and after the rows the sums are within their error of those from f of each row."""
    summed, decay = coefficients(rows, heavy=heavy), parse_decay(spec)
    moments = np.unique(np.concatenate([[-5, 0, 20_000], np.linspace(0, 9_100, 23).astype(np.int64)]))
    found = sums_by_tree(summed, SECOND, decay, moments)
    factors = [DecayFactors.at(summed.times, moment, decay, SECOND) for moment in moments.tolist()]
    exact = sums_by_row(summed, factors)
    whole, truth = found.linear.sum(axis=1), exact.linear.sum(axis=1)
    assert (np.abs(whole - truth) <= found.table_error * truth).all()
    assert (np.abs(found.squared - exact.squared) <= 2e-3 * exact.squared + 1e-18).all()
    assert found.used.tolist() == exact.used.tolist()
    assert (np.asarray(found.table_error) <= 1e-3).all()


def test_weights_of_all_sizes_hold_every_row() -> None:
    """Chunks of every size weigh what their rows do, and what f is at its five ages adds up to polynomials exactly."""
    summed = coefficients(5_000)
    tree = TimeTree(summed.times, 64)
    assert len(tree.levels) == 2
    ages = summed.times[-1] - summed.times
    for level, weights in zip(tree.levels, tree.weights([*summed.linear]), strict=True):
        assert weights.shape == (len(level.oldest), NODES, 2)
        nodes = summed.times[-1] - level.newest + level.lengths * np.linspace(0, 1, NODES)[:, None]
        for power in range(NODES):
            scaled = np.einsum("jc,cjk->k", (nodes / 9_000) ** power, weights)
            np.testing.assert_allclose(scaled, np.stack(summed.linear) @ (ages / 9_000) ** power, rtol=1e-12)


def test_rows_at_one_time_are_one_chunk() -> None:
    """However many rows share a time, f is computed for few ages."""
    times = np.zeros(100_000, np.int64)
    cover = TimeTree(times, 64).cover(SECOND, parse_decay("exp:half_life=10m"), np.arange(10), 1e-4)
    assert len(cover.by_row[0]) == 0
    assert len(cover.pairs[0].times) <= 10 * 16
    assert not cover.relative_error.any()


def test_few_chunks_cover_many_rows() -> None:
    """Under a smooth decay an as-of time is covered by some dozens of chunks and the rows of a few small ones."""
    rng = np.random.default_rng(3)
    times = np.sort(rng.integers(0, 30 * 86_400, 300_000))
    moments = np.linspace(86_400, 30 * 86_400, 50).astype(np.int64)
    for spec in ("exp:half_life=6h", "poly:alpha=1.5,unit=10m", "window:1d", "log:unit=1m"):
        cover = TimeTree(times, 64).cover(SECOND, parse_decay(spec), moments, 1e-4)
        assert sum(len(pairs.times) for pairs in cover.pairs) <= 200 * len(moments), spec
        assert len(cover.by_row[0]) <= 5 * len(moments), spec


def test_a_heavy_past_that_has_nearly_faded_takes_no_digits() -> None:
    """Where rows that hardly count weigh 10^13 times as much, the sums come from f of each row."""
    times = np.concatenate([np.arange(3_000), 20_000 + np.arange(100)])
    weights = np.concatenate([np.full(3_000, 1 << 40), np.ones(100, np.int64)])
    sample = Sample.build(Events.of(np.arange(len(times)), times, None, weights))
    question, moments = Question("sum", "exp:half_life=5m"), 20_000 + np.arange(30)
    series = sample.series(question, moments)
    for at in (0, 13, 29):
        single = sample.answer(question.at(int(moments[at])))
        assert series.value[at] == pytest.approx(single.value, rel=1e-3)
        assert series.lower[at] <= single.value <= series.upper[at]


def test_a_product_of_few_columns_at_a_time_is_the_product() -> None:
    """Also where there are more columns than are multiplied at once, or none."""
    rng = np.random.default_rng(1)
    left, right = rng.random((300, 700)), rng.random((700, 11))
    np.testing.assert_allclose(product(left, right), left @ right)
    assert product(left, right[:, :0]).shape == (300, 0)
