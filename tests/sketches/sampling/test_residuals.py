"""What is left beside totals, Σ (y·f - g·z)/π with its variance: by rows, by cells and in plain Python the same."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.arrays import Floats, Ints
from sketches.decay import parse_decay
from sketches.sampling.piecewise_decay import TOLERANCE, PiecewiseDecay
from sketches.sampling.residuals import (
    LeanRows,
    Parabolas,
    Residuals,
    Steps,
    fits_cells,
    residuals_by_cell,
    residuals_by_row,
)
from sketches.sampling.steps import f_at, parabolas, stepped
from sketches.units import SECOND

DAY, HOUR = 86_400, 3_600
DECAYS = ("exp:half_life=6h", "window:1d", "window:40m", "poly:alpha=1.5,unit=6h", "none", "expr:1/(1+age/3600)")
AS_OF = np.array([-5, 3_000, DAY, DAY + 17, 3 * DAY + 1_800, 5 * DAY - 1, 5 * DAY, 6 * DAY, 9 * DAY])
EDGES = np.unique(np.concatenate([np.arange(0, 3 * DAY, 8 * HOUR), np.arange(3 * DAY, 5 * DAY + 1, HOUR)]))


def rows_of(quantities: int, *, alike: bool, seed: int = 1, size: int = 900) -> LeanRows:
    """Kept events over five days; where not alike, some came several times and some are not asked for."""
    rng = np.random.default_rng(seed)
    probability = rng.choice([1.0, 0.5, 0.125], size)
    sizes = np.stack([rng.lognormal(0.0, 1.0, size), np.ones(size)])[:quantities] / probability
    asked, counted = sizes, sizes
    if not alike:
        asked, counted = sizes * (rng.random(size) < 0.8), sizes * rng.choice([0, 1, 1, 1, 2, 4], size)
    return LeanRows(np.sort(rng.integers(0, 5 * DAY, size)), asked, counted, 1.0 - probability)


def steps_of(as_of: Ints, decay: str) -> tuple[Steps, Parabolas]:
    table = PiecewiseDecay.reaching(np.array([-5]), int(as_of.max()), SECOND, parse_decay(decay), TOLERANCE)
    pieces = parabolas(table)
    return stepped(EDGES, as_of, table, pieces.edges).steps, pieces


def oracle(rows: LeanRows, steps: Steps, as_of: Ints, decay: str) -> tuple[Floats, Floats, Floats]:
    """One event, one step and one time after the other: sums, what is decayed, covariances by pairs."""
    f = parse_decay(decay)
    sums, decayed = np.zeros((len(as_of), rows.quantities)), np.zeros((len(as_of), rows.quantities))
    covariances = np.zeros((len(as_of), len(rows.pairs)))
    for at, moment in enumerate(as_of.tolist()):
        own = np.flatnonzero(steps.at == at).tolist()
        for row, time in enumerate(rows.times.tolist()):
            step = next((one for one in own if steps.begins[one] <= time < steps.ends[one]), None)
            if step is None:
                continue
            factor = float(f(np.array([float(moment - time)]))[0]) if time <= moment else 0.0
            left = rows.asked[:, row] * factor - rows.counted[:, row] * steps.heights[step]
            sums[at] += left
            decayed[at] += rows.asked[:, row] * factor
            for pair, (one, other) in enumerate(rows.pairs):
                covariances[at, pair] += left[one] * left[other] * rows.exclusion[row]
    return sums, decayed, covariances


def close(found: Floats, exact: Floats, scale: Floats, tolerance: float) -> bool:
    """Within a tolerance of what is to be added up: differences of it may be next to nothing."""
    return bool((np.abs(found - exact) <= tolerance * scale + 1e-9).all())


def sizes_of(rows: LeanRows, found: Residuals) -> tuple[Floats, Floats]:
    """How large sums are before they are subtracted, and their squares."""
    whole = found.decayed + 1e-6 * np.abs(rows.asked).sum()
    squared = np.sqrt(np.stack([whole[:, one] * whole[:, other] for one, other in rows.pairs], axis=1))
    return whole, np.square(squared)


@pytest.mark.parametrize("alike", [True, False], ids=["y = z", "repeated rows"])
@pytest.mark.parametrize("quantities", [1, 2])
@pytest.mark.parametrize("decay", DECAYS)
def test_rows_cells_and_plain_python_agree(decay: str, quantities: int, alike: bool) -> None:
    rows, few = rows_of(quantities, alike=alike, size=250), AS_OF[[0, 2, 4, 6, 8]]
    steps, pieces = steps_of(few, decay)
    exact = oracle(rows, steps, few, decay)
    by_row = residuals_by_row(rows, steps, few, parse_decay(decay), SECOND)
    for found, truth in zip((by_row.sums, by_row.decayed, by_row.covariances), exact, strict=True):
        assert found == pytest.approx(truth, rel=1e-9, abs=1e-9)
    by_cell = residuals_by_cell(rows, steps, few, pieces, parse_decay(decay), SECOND)
    whole, squared = sizes_of(rows, by_row)
    assert close(by_cell.sums, exact[0], whole, 1e-3)
    assert close(by_cell.decayed, exact[1], whole, 1e-3)
    assert close(by_cell.covariances, exact[2], squared, 1e-3)


@pytest.mark.parametrize("alike", [True, False], ids=["y = z", "repeated rows"])
@pytest.mark.parametrize("decay", DECAYS)
def test_cells_have_the_variance_of_rows(decay: str, alike: bool) -> None:
    """To a thousandth of it, where it is more than what the table of f may be off."""
    rows = rows_of(2, alike=alike, size=5_000)
    steps, pieces = steps_of(AS_OF, decay)
    by_row = residuals_by_row(rows, steps, AS_OF, parse_decay(decay), SECOND)
    by_cell = residuals_by_cell(rows, steps, AS_OF, pieces, parse_decay(decay), SECOND)
    noise = np.square(10.0 * TOLERANCE) * np.array([np.square(by_row.decayed[:, 0]), np.square(by_row.decayed[:, 1])]).T
    for number, pair in enumerate((0, 2)):
        spread = by_row.covariances[:, pair]
        assert (np.abs(by_cell.covariances[:, pair] - spread) <= 1e-3 * spread + noise[:, number] + 1e-9).all()


def test_a_variance_is_not_below_nothing() -> None:
    """Where f = g and y = z nothing is left but rounding, which may have either sign; a root is taken of it."""
    as_of = np.array([DAY, 2 * DAY, 3 * DAY]) - 1  # where slices end
    steps, pieces = steps_of(as_of, "none")
    for seed in range(20):
        rows = rows_of(2, alike=True, seed=seed, size=3_000)
        known = np.where(rows.times < 4 * DAY, rows.asked, 0.0)  # the newest slices are unknown
        unknown = LeanRows(rows.times, rows.asked, known, rows.exclusion)
        left = residuals_by_cell(unknown, steps, as_of, pieces, parse_decay("none"), SECOND)
        assert (left.covariances[:, [0, 2]] >= 0.0).all()


def test_the_mean_of_f_is_its_sum_over_all_times_of_a_step() -> None:
    edges = np.array([0, 7, 50, 51, 300])
    for decay in ("exp:half_life=40s", "window:60s", "none"):
        as_of = np.array([-3, 0, 30, 120, 299, 400])
        table = PiecewiseDecay.reaching(np.array([-3]), 400, SECOND, parse_decay(decay), TOLERANCE)
        found = stepped(edges, as_of, table, table.first)
        for at, begin, end, height in zip(*(column.tolist() for column in found.steps), strict=True):
            ages = as_of[at] - np.arange(begin, end)
            factors = np.where(ages >= 0, f_at(table, np.maximum(ages, 0)), 0.0)
            assert height == pytest.approx(factors.mean(), rel=1e-9, abs=1e-12)
        for moment in range(len(as_of)):
            begins, ends = found.steps.begins[found.steps.at == moment], found.steps.ends[found.steps.at == moment]
            assert np.array_equal(begins[1:], ends[:-1]), "without a gap"


def test_edges_of_many_times_must_have_numbers_of_their_own() -> None:
    steps = Steps(np.array([0]), np.array([0]), np.array([1 << 50]), np.array([1.0]))
    assert fits_cells(steps, 1_000)
    assert not fits_cells(steps, 1 << 13)
