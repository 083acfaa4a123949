"""What has expired by the newest event is dropped, wherever that becomes known, and the bytes do not tell where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketches import Events, Question, parse_decay
from sketches.sampling.expiry.integral_parameters import IntegralParameters
from sketches.sampling.inclusion.nested_sample import NO_CUT
from sketches.sampling.integral import Integral
from sketches.sampling.sample_parameters import SampleParameters
from sketches.units import SECOND

HOUR = 3600


def settled(spec: str, capacity: int) -> IntegralParameters:
    accuracy = SampleParameters.derive(0.2, 0.05, SECOND, 3)
    return IntegralParameters.derive(replace(accuracy, capacity=capacity), parse_decay(spec), "weight")


def week(rows: int, seed: int = 13) -> Events:
    rng = np.random.default_rng(seed)
    return Events.of(np.arange(rows), np.sort(rng.integers(0, 7 * 24 * HOUR, rows)), rng.integers(0, 1000, rows))


def test_a_window_keeps_no_event_that_has_left_it() -> None:
    """Of 60,000 events of a week the last hour's are kept and no others (13 times as many were, of 300,000)."""
    events = week(60_000)
    sketch = Integral.build(events, decay="window:1h")
    alive = events.times > events.times.max() - HOUR
    assert sketch.kept == np.count_nonzero(alive)
    assert (sketch.copies[0].cuts == NO_CUT).all()
    assert sketch.answer(Question("count", "window:1h")).value == np.count_nonzero(alive)


def test_dropping_the_dead_changes_no_answer() -> None:
    """A sketch that is told early that all is over answers later times as one that learns it at the end."""
    events = week(5000)
    sketch = Integral.build(events, decay="exp:half_life=1h", epsilon=0.2)
    newest = int(events.times.max())
    late = Events.of([9_999_999], [newest + 3 * HOUR], [5])
    told = sketch.insert(late)
    together = Integral.build(
        Events.of(np.append(np.arange(5000), 9_999_999), np.append(events.times, newest + 3 * HOUR),
                  np.append(events.values, 5)),
        decay="exp:half_life=1h", epsilon=0.2,
    )  # fmt: skip
    assert told.to_bytes() == together.to_bytes()
    assert told.kept < sketch.kept
    for hours in (3, 5, 9):
        as_of = newest + hours * HOUR
        before = sketch.answer(Question("correlated-count", "exp:half_life=1h", as_of, tau=500))
        after = told.answer(Question("correlated-count", "exp:half_life=1h", as_of, tau=500))
        if sketch.copies[0].level_at(as_of) == told.copies[0].level_at(as_of):
            assert after.value == pytest.approx(before.value, rel=1e-9)  # the late event is not above 500


def test_a_late_event_that_has_expired_leaves_no_trace_but_its_time() -> None:
    """It is dropped as it comes; the oldest time and the values seen still know of it."""
    sketch = Integral.build(week(2000), decay="window:1h")
    late = Events.of([7_000_000], [sketch.extremes.newest - 2 * HOUR], [500])  # type: ignore[operator]
    assert sketch.insert(late).to_bytes() == sketch.to_bytes()


@pytest.mark.parametrize("spec", ["window:2h", "exp:half_life=30m", "poly:alpha=2,unit=10m", "chordal:3h", "none"])
def test_random_merge_trees_repeats_and_late_rows_give_the_same_bytes(spec: str) -> None:
    """Rows in any order, some of them twice, in any groups, merged in any tree: one table, to the byte."""
    rng = np.random.default_rng(5)
    n = 1500
    times, values = rng.integers(0, 12 * HOUR, n), rng.integers(0, 50, n)
    weights = rng.integers(0, 40, n)
    parameters = settled(spec, 20)
    expected = Integral._of(Events.of(np.arange(n), times, values, weights), parameters).to_bytes()
    for _ in range(6):
        rows = rng.permutation(np.concatenate([np.arange(n), rng.integers(0, n, 300)]))
        if rng.random() < 0.5:
            rows = rows[np.argsort(times[rows] * rng.choice([-1, 1]), kind="stable")]  # oldest or newest first
        edges = np.sort(rng.integers(0, len(rows), rng.integers(1, 9)))
        forest = [
            Integral._of(Events.of(part, times[part], values[part], weights[part]), parameters)
            for part in np.split(rows, edges)
            if len(part)
        ]
        while len(forest) > 1:
            one, other = (forest.pop(int(rng.integers(len(forest)))) for _ in range(2))
            if rng.random() < 0.3:
                other = Integral.from_bytes(other.to_bytes())
            forest.append(Integral.union([one, other, one]) if rng.random() < 0.3 else one.merge(other))
        assert forest[0].to_bytes() == expected
        assert Integral.from_bytes(expected).merge(forest[0]).to_bytes() == expected


def test_levels_keep_falling_cuts_that_are_all_after_the_newest_event() -> None:
    """The form that is written: cuts that fall with the level, then none."""
    events = week(20_000)
    sketch = Integral._of(events, settled("exp:half_life=1h", 100))
    cuts = sketch.copies[0].cuts
    used = int(np.count_nonzero(cuts != NO_CUT))
    assert used > 3
    assert (cuts[:used] > events.times.max()).all()
    assert (np.diff(cuts[:used]) <= 0).all()
    assert (cuts[used:] == NO_CUT).all()
