"""Horvitz-Thompson totals of one ladder are right on average over seeds: for counts and weights, of all or of some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketches import Events, Sample
from tests.support.ladders import Settings

ROWS, SEEDS = 240, 400
END = 60  # few times: many ties


def weights_of(name: str, rng: np.random.Generator) -> np.ndarray:
    match name:
        case "units":
            return np.ones(ROWS, np.int64)
        case "zeros":
            return rng.integers(0, 3, ROWS) * (rng.random(ROWS) < 0.4)
        case "heavy":
            return np.ceil(rng.pareto(0.6, ROWS) + 0.2).astype(np.int64)
        case _:
            heavy = np.where(rng.random(ROWS) < 0.02, 1 << 40, np.exp(rng.normal(2.0, 3.0, ROWS)))
            return np.where(rng.random(ROWS) < 0.3, 0, heavy).astype(np.int64)


def totals(sample: Sample, names: list[str] | None) -> list[float]:
    """Counts and weights by thirds of the time, then the values of the events by their count."""
    found = sample.of(names).sample
    third = np.minimum(found.times * 3 // END, 2)
    by_count = np.bincount(third, found.design_weights, minlength=3)
    by_weight = np.bincount(third, found.expanded_weights, minlength=3)
    return [*by_count, *by_weight, float(found.values @ found.design_weights)]


@pytest.mark.parametrize("chosen", [Settings(8), Settings(8, per_source=6, fine=3), Settings(8, bits=8)])
@pytest.mark.parametrize("name", ["units", "zeros", "heavy", "both"])
def test_totals_are_unbiased(name: str, chosen: Settings) -> None:
    """Over seeds each total averages to the exact one, and single events are kept as often as their π says."""
    rng = np.random.default_rng(len(name))
    times, values, weights = rng.integers(0, END, ROWS), rng.integers(0, 9, ROWS), weights_of(name, rng)
    codes = rng.integers(0, 3, ROWS).astype(np.int32)
    both = rng.random(ROWS) < 0.2  # of these events a second source reports too
    rows = np.concatenate([np.arange(ROWS), np.flatnonzero(both)])
    events = Events.of(rows, times[rows], values[rows], weights[rows])
    sources = np.concatenate([codes, (codes[both] + 1) % 3]).astype(np.int32)
    names = ["a", "b", "c"]

    def exact(wanted: list[str]) -> list[float]:
        seen = np.unique(rows[np.isin(sources, [names.index(one) for one in wanted])])
        third = np.minimum(times[seen] * 3 // END, 2)
        by_count, by_weight = (np.bincount(third, one[seen], minlength=3) for one in (np.ones(ROWS), weights))
        return [*by_count, *by_weight, float(values[seen].sum())]

    found = []
    for seed in range(SEEDS):
        sample = Sample.of_sources(events, sources, names, replace(chosen, seed=seed).parameters)
        found.append(totals(sample, None) + totals(sample, ["a", "b"]))
    estimates, truth = np.array(found), np.array(exact(names) + exact(["a", "b"]))
    error = np.std(estimates, axis=0) / np.sqrt(SEEDS)
    off = np.abs(estimates.mean(axis=0) - truth)
    assert (off <= 4.5 * error + 1e-9 * truth).all(), (off / np.maximum(error, 1e-300), truth)
    assert np.median(error[truth > 0] / truth[truth > 0]) < 0.04, "or a bias would not be seen"


def test_every_event_is_kept_as_often_as_its_probability_says() -> None:
    """Over seeds 1/π of a single event, counted where it was kept, averages 1, with the variance that π implies."""
    rng = np.random.default_rng(1)
    seeds, rows = 1500, 120
    weights = weights_of("both", rng)[:rows]
    events = Events.of(np.arange(rows), rng.integers(0, 40, rows), np.arange(rows), weights)
    codes = np.zeros(rows, np.int32)
    total, spread = np.zeros(rows), np.zeros(rows)
    for seed in range(seeds):
        found = Sample.of_sources(events, codes, ["a"], Settings(6, seed=seed).parameters).of(None).sample
        total[found.values] += found.design_weights
        spread[found.values] += found.design_weights * (found.design_weights - 1.0)  # unbiased for Σ (1/π - 1)
    sampled = spread > 0
    assert total[~sampled] == pytest.approx(seeds)
    z = (total[sampled] - seeds) / np.sqrt(spread[sampled])
    assert sampled.mean() > 0.7
    assert abs(z).max() < 5.0
    assert 0.6 < np.mean(z**2) < 1.5
