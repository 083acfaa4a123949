"""A decay laid out as linear pieces, against the decay itself."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import parse_decay
from sketches.sampling.estimation.piecewise_decay import NEGLIGIBLE, TOLERANCE, PiecewiseDecay, lay_out
from sketches.units import SECOND
from tests.support.oracle import DECAYS


def at_ages(table: PiecewiseDecay, ages: np.ndarray) -> np.ndarray:
    piece = np.searchsorted(table.first, ages, side="right") - 1
    inside = piece < len(table.height)
    piece = np.minimum(piece, len(table.height) - 1)
    return np.where(inside, table.height[piece] + table.slope[piece] * (ages - table.first[piece]), 0.0)


@pytest.mark.parametrize("spec", [*DECAYS, "window:1s", "window:3599s", "expr:(age<100)+(age>=100)*0.25*(age<2000)"])
def test_linear_pieces_stay_close_to_the_decay_at_every_whole_age(spec: str) -> None:
    """At every second of two hours the table is within its tolerance of the decay, jumps included."""
    decay = parse_decay(spec)
    ages = np.arange(8192)
    exact = decay(ages.astype(np.float64))
    error = np.abs(at_ages(lay_out(decay, SECOND, 8191), ages) - exact)
    assert (error <= 2.0 * TOLERANCE * np.maximum(exact, NEGLIGIBLE)).all()


@pytest.mark.parametrize("spec", ["none", "window:10m", "chordal:40m", "table:0=1,10m=0.5,1h=0"])
def test_linear_decays_are_laid_out_exactly(spec: str) -> None:
    """Decays made of straight lines lose nothing."""
    decay = parse_decay(spec)
    ages = np.arange(8192)
    assert np.allclose(at_ages(lay_out(decay, SECOND, 8191), ages), decay(ages.astype(np.float64)), rtol=0, atol=1e-12)


def test_few_pieces_reach_far() -> None:
    """A year of seconds under a smooth decay takes hundreds of pieces, not millions."""
    assert len(lay_out(parse_decay("poly:alpha=1.5,unit=1m"), SECOND, (1 << 25) - 1).height) < 2000


@pytest.mark.parametrize("spec", DECAYS)
def test_rows_are_looked_up_by_their_age(spec: str) -> None:
    """Rows sorted by time get f of their age, and 0 behind the last piece."""
    times = np.sort(np.random.default_rng(1).integers(-9000, 1000, 500))
    table = PiecewiseDecay.reaching(times[100:], 1000, SECOND, parse_decay(spec), TOLERANCE)
    assert table.of_rows(times, 1000).tolist() == at_ages(table, 1000 - times).tolist()


def test_a_slightly_later_as_of_time_finds_the_same_table() -> None:
    """The oldest age is rounded up to a power of two, so that a chart which moves on does not lay out a new table."""
    times, decay = np.array([0, 50]), parse_decay("exp:half_life=10m")
    tables = [PiecewiseDecay.reaching(times, as_of, SECOND, decay, TOLERANCE) for as_of in (600, 700, 1000)]
    assert all(table is tables[0] for table in tables)
