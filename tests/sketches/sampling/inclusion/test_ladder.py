"""The ladder of a stream keeps exactly the rows of its definition, however they came, with exact probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Sample
from sketches.errors import IncompatibleError, WaneError
from sketches.sampling.inclusion.ladder import LEVELS, NO_CUT, Cuts
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from tests.support.ladder_oracle import LadderOracle
from tests.support.ladders import (
    SETTINGS,
    SOURCES,
    Raw,
    Settings,
    cuts_in,
    events_of,
    probabilities_in,
    raw_rows,
    rows_in,
    sampled,
)


def spread(rows: int, seed: int) -> list[Raw]:
    """Rows over a longer time, with every kind of weight, among them events of two sources and repeats."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random(rows) < 0.3, 0, np.exp(rng.normal(1, 3, rows))).astype(np.int64)
    sources = rng.choice(3, rows, p=(0.6, 0.36, 0.04))
    columns = (rng.integers(0, 10**9, rows), rng.integers(0, rows // 3, rows), rng.integers(0, 5, rows), weights)
    once = [(*map(int, row), int(source)) for *row, source in zip(*columns, sources, strict=True)]
    return once + [(*row[:4], (row[4] + 1) % 3) for row in once[::7]] + once[::5]


def agrees(sample: Sample, oracle: LadderOracle) -> None:
    """Rows, cuts and probabilities of every choice of sources are those of the definition."""
    rows = rows_in(sample)
    assert len(rows) == len(set(rows))
    assert set(rows) == oracle.kept()
    assert rows == sorted(rows)
    assert cuts_in(sample.cuts.of_count.tolist()) == [oracle.cut_of_count(level) for level in range(LEVELS)]
    assert cuts_in(sample.cuts.of_weight.tolist()) == [oracle.cut_of_weight(level) for level in range(LEVELS)]
    assert sample.cuts.fine == oracle.newest - oracle.fine
    if oracle.per_source:
        assert cuts_in(sample.cuts.of_sources.tolist()) == [oracle.cut_of_source(name) for name in sample.names]
    for names in (SOURCES[:1], SOURCES[1:], SOURCES):
        found, expected = probabilities_in(sample, names), oracle.probabilities(names)
        assert found.keys() == expected.keys()
        assert all(abs(found[event] - expected[event]) < 1e-15 * expected[event] for event in found)
    assert probabilities_in(sample, None) == probabilities_in(sample, SOURCES)


@given(raw_rows(), SETTINGS)
@settings(max_examples=60)
def test_what_is_kept_is_what_the_definition_says(raw: list[Raw], chosen: Settings) -> None:
    """Ties, repeats, weights of 0 and of 2^40, events of several sources, with and without what is kept besides."""
    sample = sampled(raw, chosen)
    if raw:
        agrees(sample, chosen.oracle(raw))
    else:
        assert sample.kept == 0


@pytest.mark.parametrize(
    "chosen", [Settings(12), Settings(12, per_source=4), Settings(12, fine=9), Settings(30, 2, 5, bits=8)]
)
def test_a_longer_stream_is_kept_as_the_definition_says(chosen: Settings) -> None:
    """So many rows that the newest are taken first and the others only where they pass the cuts of those."""
    raw = spread(500, 3)
    assert len(raw) > 8 * chosen.capacity
    sample = sampled(raw, chosen)
    agrees(sample, chosen.oracle(raw))
    assert (sample.cuts.of_count > NO_CUT).sum() > 2


def test_probabilities_that_lie_between_the_kept_bits_are_rounded() -> None:
    """Weights of more bits than are kept of u: π is that of the stored bits, not the limit itself."""
    weights = np.random.default_rng(1).integers(1000, 9000, 400).tolist()
    raw, chosen = [(at, at, 0, weight, 0) for at, weight in enumerate(weights)], Settings(12, bits=8)
    oracle = chosen.oracle(raw)
    agrees(sampled(raw, chosen), oracle)
    rounded = [event for event, found in oracle.probabilities(SOURCES).items() if found != oracle.limit(event)]
    assert len(rounded) > 5


@given(raw_rows(), SETTINGS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_way_the_rows_came_leaves_no_trace(raw: list[Raw], chosen: Settings, random: object) -> None:
    """Shuffled, late, repeated batches, merged by any tree, give the bytes of one build."""
    expected = sampled(raw, chosen).to_bytes()
    again = raw + raw[: len(raw) // 2]
    random.shuffle(again)  # type: ignore[attr-defined]
    edges = sorted(random.choices(range(len(again) + 1), k=4))  # type: ignore[attr-defined]
    batches = [sampled(again[begin:end], chosen) for begin, end in zip([0, *edges], [*edges, len(again)], strict=True)]
    one_by_one = batches[0]
    for batch in batches[1:]:
        one_by_one = one_by_one.merge(batch)
    pairs = Sample.union([batches[4].merge(batches[1]), batches[2].merge(batches[0].merge(batches[3]))])
    assert one_by_one.to_bytes() == pairs.to_bytes() == Sample.union(batches).to_bytes() == expected


def test_merges_of_long_batches_leave_no_trace() -> None:
    """The same for batches by time, the newest first and last, of which each alone is thinned."""
    raw, chosen = sorted(spread(3000, 4), key=lambda row: row[1]), Settings(40, per_source=3, fine=20)
    parts = [sampled(raw[begin::5], chosen) for begin in range(5)]
    in_time = [sampled(raw[begin : begin + 700], chosen) for begin in range(0, len(raw), 700)]
    expected = sampled(raw, chosen)
    assert expected.kept < len(raw) / 4
    for batches in (parts, in_time, in_time[::-1]):
        assert Sample.union(batches).to_bytes() == expected.to_bytes()
        one = batches[0]
        for other in batches[1:]:
            one = other.merge(one)
        assert one.to_bytes() == expected.to_bytes()


def test_cuts_only_rise_when_the_capacity_shrinks() -> None:
    """A smaller sample of the same rows is that of building it anew; a larger one finds nothing back."""
    raw = spread(1500, 5)
    large, small = Settings(60), Settings(25)
    shrunk = sampled(raw, large).merge(sampled([], small))
    assert shrunk.to_bytes() == sampled(raw, small).to_bytes()
    grown = shrunk.merge(sampled([], large))
    assert rows_in(grown) == rows_in(shrunk)
    assert (grown.cuts.of_count == shrunk.cuts.of_count).all()
    later = [(*row[:1], row[1] + 10_000, *row[2:]) for row in spread(200, 6)]
    merged = rows_in(grown.merge(sampled(later, large)))
    assert [row for row in merged if row[0][0] >= 10_000] == rows_in(sampled(later, large))


def test_settings_that_are_turned_on_later_hold_from_then_on() -> None:
    """What was not kept besides cannot come back: the newest events of a source and the newest time begin anew."""
    old, new = spread(900, 7), [(*row[:1], row[1] + 10_000, *row[2:]) for row in spread(300, 8)]
    plain, besides = Settings(10), Settings(10, per_source=20, fine=50)
    before = sampled(old, plain)
    only = before.merge(sampled([], besides))
    assert rows_in(only) == rows_in(before)
    assert only.cuts.fine == before.extremes.newest
    assert (only.cuts.of_sources == before.extremes.newest).all()
    merged = only.merge(sampled(new, besides))
    recent = [row for row in rows_in(merged) if row[0][0] >= 10_000]
    assert recent == rows_in(sampled(new, besides))
    probabilities = probabilities_in(merged, None)
    assert all(row[0] in probabilities for row in rows_in(before) if row[0][0] > merged.cuts.of_count[3])
    old_times = {event: found for event, found in probabilities_in(before, None).items() if event in probabilities}
    assert old_times
    assert all(probabilities[event] <= found for event, found in old_times.items()), "none became surer"


def test_settings_that_are_turned_off_later_let_go() -> None:
    """Without the newest events of sources and the newest time the rows are those of the levels alone."""
    raw = spread(900, 9)
    besides, plain = Settings(10, per_source=20, fine=50), Settings(10)
    assert sampled(raw, besides).merge(sampled([], plain)).to_bytes() == sampled(raw, plain).to_bytes()


def test_what_must_agree_before_ladders_merge() -> None:
    """Unit, seed and bits; all else is taken from the last."""
    raw = spread(60, 1)
    for other in (Settings(10, seed=6), Settings(10, bits=40)):
        with pytest.raises(IncompatibleError, match="different parameters"):
            sampled(raw, Settings(10)).merge(sampled(raw, other))
    merged = sampled(raw, Settings(10)).merge(sampled(raw, Settings(11, per_source=2)))
    assert merged.parameters == Settings(11, per_source=2).parameters


def test_the_size_follows_from_the_accuracy() -> None:
    """C = 2·detail·1.25·(z/ε)²: 61,464 events a level by default, and every event where all are to be kept."""
    defaults = LadderParameters.derive(0.05, 0.05, SECOND, 0)
    assert defaults.capacity == pytest.approx(2 * 16 * 1.25 * (1.959964 / 0.05) ** 2, abs=1)
    assert defaults.capacity == 61_464
    assert LadderParameters.derive(0.05, 0.05, SECOND, 0, detail=1).capacity == pytest.approx(61_464 / 16, abs=1)
    raw = spread(300, 2)
    events, sources = events_of(raw)
    everything = Sample.of_sources(events, sources, SOURCES, LadderParameters.derive(0.9, 0.5, SECOND, 5, detail=0))
    assert set(rows_in(everything)) == set(Settings(10).oracle(raw).rows)
    assert everything.cuts.complete_since(None) == events.times.max()
    assert (everything.cuts.of_count == NO_CUT).all()


@pytest.mark.parametrize(
    ("name", "value"), [("detail", -1), ("per_source", -1), ("fine", -1), ("bits", 7), ("bits", 53), ("detail", 2**21)]
)
def test_settings_out_of_range_are_named(name: str, value: int) -> None:
    """The message names the setting, its value and what would be valid."""
    with pytest.raises(WaneError, match=rf"{name} is {value}; it must lie between"):
        LadderParameters.derive(0.1, 0.1, SECOND, 0, **{name: value})


@pytest.mark.parametrize("weighted", [False, True])
def test_kept_rows_are_as_many_as_the_formula_says(weighted: bool) -> None:
    """About C·(1 + log2(n/C)/2) of n events of weight 1; with weights at most twice as many beyond the first C."""
    rows, capacity = 60_000, 400
    rng = np.random.default_rng(1)
    weights = np.ceil(rng.lognormal(0, 2, rows)).astype(int) if weighted else np.ones(rows, int)
    raw = [(at, at, 0, int(weight), 0) for at, weight in enumerate(weights.tolist())]
    older = np.log2(rows / capacity) / 2
    kept = sampled(raw, Settings(capacity)).kept / capacity - 1
    assert 0.9 * older < kept < (2.0 if weighted else 1.1) * older


def test_every_time_has_the_first_complete_level() -> None:
    """Brute force over times: the finest level whose cut lies before it."""
    sample = sampled(spread(1200, 11), Settings(20))
    times = np.arange(-3, 405)
    for found, cuts in zip(sample.cuts.levels_at(times), (sample.cuts.of_weight, sample.cuts.of_count), strict=True):
        assert found.tolist() == [next(i for i in range(LEVELS) if cuts[i] < time) for time in times]


def test_complete_since_is_no_earlier_than_any_source_allows() -> None:
    """All is kept after the newest cut of the sources asked, or within the finest stretch, whichever begins first."""
    cuts = replace(Cuts.none(3), of_sources=np.array([5, 9, 7]), fine=8)
    assert cuts.complete_since(None) == 8
    assert cuts.complete_since(np.array([0, 2])) == 7
    assert cuts.complete_since(np.array([], np.intp)) == 8
    assert replace(cuts, fine=12).complete_since(None) == 9
