"""Expiry times against counting unit by unit and age by age, and the table of survivors around them."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import Events, parse_decay
from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.hashing import salt
from sketches.sampling.expiry import expiry_sample
from sketches.sampling.expiry.expiry_sample import ExpirySample
from sketches.sampling.expiry.integral_decay import LAST_AGE, NEVER, IntegralDecay, ages_at, first_sampled_index
from sketches.sampling.inclusion.nested_sample import NO_CUT
from sketches.sampling.inclusion.range_sample import LEVELS, PRIME, STEP, range_sample
from sketches.units import SECOND, TimeUnit

# each is constant from age 60 s on at the latest, for the weights below 50 that go with it here
SHORT_DECAYS = (
    "none",
    "window:17s",
    "exp:half_life=5s",
    "chordal:40s",
    "poly:alpha=2,unit=2s",
    "expr:1/max(age,1)",
    "table:0=0.5,30s=0",
    "table:0=1,20s=0.4",
)
SETTLED = 60

starts = st.integers(0, PRIME - 1)


def expiries(
    decay: IntegralDecay, times: np.ndarray, starts: np.ndarray, weights: np.ndarray
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Expiries of events by the start of their units, no level having ended."""
    return decay.expiries(times, starts << np.uint64(3), weights, np.full(LEVELS, NO_CUT))


def unit_hashes(start: int, weight: int) -> list[int]:
    return [(start + j * STEP) % PRIME for j in range(weight)]


@given(start=starts, weight=st.integers(0, 300), level=st.integers(0, 12))
def test_first_sampled_index_is_the_first_unit_below_the_threshold(start: int, weight: int, level: int) -> None:
    """The walk over records finds the same unit as looking at one after the other, or none where there is none."""
    sampled = [j for j, hashed in enumerate(unit_hashes(start, weight)) if hashed < PRIME >> level]
    assert first_sampled_index(np.uint64(start), weight, level) == (sampled[0] if sampled else weight)


@given(start=starts, weight=st.integers(1, MAX_WEIGHT), level=st.integers(0, LEVELS - 1))
def test_first_sampled_index_of_heavy_events_agrees_with_range_sample(start: int, weight: int, level: int) -> None:
    """RangeSample counts nothing before the first sampled unit and something up to it, also for 2^40 units."""
    first = int(first_sampled_index(np.uint64(start), weight, level))
    assert range_sample(np.uint64(start), first, level) == 0
    assert (first < weight) == (range_sample(np.uint64(start), weight, level) > 0)
    if first < weight:
        assert range_sample(np.uint64(start), first + 1, level) == 1


@given(start=starts, weight=st.integers(1, 49), time=st.integers(-1000, 1000), spec=st.sampled_from(SHORT_DECAYS))
def test_expiry_is_the_first_time_without_a_sampled_unit(start: int, weight: int, time: int, spec: str) -> None:
    """At every level: the first age at which none of the units that still count is sampled, by trying all ages."""
    decay = IntegralDecay(parse_decay(spec), SECOND)
    found = expiries(decay, np.array([time]), np.array([start], np.uint64), np.array([weight]))
    factors = parse_decay(spec)(np.arange(SETTLED + 1))
    counting = [math.floor(weight * float(factor) + 1e-9) for factor in factors]
    hashes = unit_hashes(start, weight)
    for level in range(8):
        counts = [sum(hashed < PRIME >> level for hashed in hashes[:units]) for units in counting]
        expected = time + counts.index(0) if 0 in counts else NEVER
        if counts[0] == 0:
            expected = NO_CUT
        assert (found[level, 0] if level < len(found) else NO_CUT) == expected


def test_expiries_only_fall_with_the_level() -> None:
    """An event's expiry never rises with the level, so cuts fall with the level."""
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 1 << 30, 2000)
    hashed = rng.integers(0, PRIME, 2000).astype(np.uint64)
    for spec in ("exp:half_life=1h", "poly:alpha=1,unit=1m", "none"):
        found = expiries(IntegralDecay(parse_decay(spec), SECOND), np.zeros(2000, np.int64), hashed, weights)
        assert len(found) > 20
        assert (found[1:] <= found[:-1]).all()


def test_one_search_serves_equal_pairs_of_weight_and_index() -> None:
    """Lifetimes found once for each pair are those found row by row."""
    decay = IntegralDecay(parse_decay("exp:half_life=10m"), SECOND)
    rng = np.random.default_rng(2)
    weights = rng.integers(2, 30, 500)
    first = rng.integers(0, weights)
    none = np.zeros(500)
    lives = decay.lifetimes(weights, first, none)
    assert lives.tolist() == [
        int(decay._search(w, j, none[:1])[0]) for w, j in zip(weights[:, None], first[:, None], strict=True)
    ]
    assert (decay.units(weights, lives, none) <= first).all()
    assert (decay.units(weights, lives - 1, none) > first).all()


def test_expiries_at_the_ends_of_time_do_not_overflow() -> None:
    """The oldest and the newest possible event expire when they should, or never."""
    times = np.array([-MAX_TIME, MAX_TIME])
    heaviest = np.full(2, MAX_WEIGHT)
    hashed = np.zeros(2, np.uint64)
    window = expiries(IntegralDecay(parse_decay("window:1h"), SECOND), times, hashed, heaviest)
    assert window[0].tolist() == [-MAX_TIME + 3600, NEVER]
    assert (expiries(IntegralDecay(parse_decay("none"), SECOND), times, hashed, heaviest)[0] == NEVER).all()
    slow = expiries(IntegralDecay(parse_decay("expr:1/max(age/1e9,1)"), TimeUnit(1000)), times, hashed, heaviest)
    assert slow[0, 0] + MAX_TIME == pytest.approx(MAX_WEIGHT * 10**6, rel=1e-8)  # 1e-9 of a unit is rounded up
    assert slow[0, 1] == NEVER


def test_a_finer_time_unit_stretches_lifetimes() -> None:
    """A window of one second is a thousand milliseconds."""
    one = np.ones(1, np.int64)
    assert IntegralDecay(parse_decay("window:1s"), TimeUnit(1, 1000)).lifetimes(
        one, np.zeros(1, np.int64), np.zeros(1)
    ).tolist() == [1000]


@pytest.mark.parametrize(
    ("moment", "time", "age"),
    [
        (10, 7, 3),
        (7, 7, 0),
        (6, 7, -1),
        (NEVER, -MAX_TIME, LAST_AGE),
        (-MAX_TIME, MAX_TIME, -1),
        (NEVER, MAX_TIME, 1),
    ],
)
def test_ages_are_exact_or_stop_at_the_last_age(moment: int, time: int, age: int) -> None:
    """Ages never overflow: events newer than the moment get -1, very old ones the last age."""
    assert ages_at(moment, np.array([time])).tolist() == [age]


def table_of(sample: ExpirySample) -> tuple[list[int], ...]:
    return (*(column.tolist() for column in sample.rows), sample.cuts.tolist())


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 90), st.integers(1, 49), st.integers(0, 3)),
        min_size=1,
        max_size=80,
    ),
    capacity=st.integers(1, 5),
    chunk=st.integers(1, 20),
    spec=st.sampled_from(SHORT_DECAYS),
    scale=st.sampled_from([1, 1, 7]),
)
def test_chunks_do_not_change_the_table(
    rows: list[tuple[int, int, int, int]], capacity: int, chunk: int, spec: str, scale: int
) -> None:
    """The early test of candidates drops only rows that sampling everything at once discards too."""
    ids, times, weights, values = zip(*rows, strict=True)
    events = Events.of(ids, times, values, weights)
    decay = IntegralDecay(parse_decay(spec), SECOND, scale)
    whole = ExpirySample.build(events, capacity, salt(3, 0), decay)
    with patch.object(expiry_sample, "_CHUNK", chunk):
        assert table_of(ExpirySample.build(events, capacity, salt(3, 0), decay)) == table_of(whole)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["none", "window:10m", "exp:half_life=10m", "poly:alpha=1,unit=1m"])
def test_chunks_of_a_large_stream_do_not_change_the_table(spec: str) -> None:
    """The same for 150,000 events, more than one chunk holds, in two orders of arrival."""
    rng = np.random.default_rng(5)
    n = 150_000
    times, weights = rng.integers(0, 3600, n), rng.integers(1, 1000, n)
    decay = IntegralDecay(parse_decay(spec), SECOND)
    whole = ExpirySample.build(Events.of(np.arange(n), times, weights=weights), 300, salt(1, 0), decay)
    order = rng.permutation(n)
    again = ExpirySample.build(Events.of(order, times[order], weights=weights[order]), 300, salt(1, 0), decay)
    assert table_of(again) == table_of(whole)


def test_every_stored_row_is_kept_by_a_level_and_no_level_keeps_too_many() -> None:
    """The table holds nothing but the members of the levels, each of which has at most `capacity`."""
    rng = np.random.default_rng(6)
    n = 20_000
    events = Events.of(np.arange(n), rng.integers(0, 3600, n), weights=rng.integers(1, 10_000, n))
    sample = ExpirySample.build(events, 100, salt(1, 0), IntegralDecay(parse_decay("exp:half_life=10m"), SECOND))
    members = [sample.members(level) for level in range(LEVELS)]
    assert max(map(len, members)) <= 100
    assert sum(len(each) > 50 for each in members) > 10  # so many levels are in use
    assert set(np.concatenate(members).tolist()) == set(range(len(sample)))
    assert (sample.cuts[1:] <= sample.cuts[:-1]).all()
