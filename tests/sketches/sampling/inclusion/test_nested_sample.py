"""A nested sample holds exactly what the levels of paper A §4.1, kept one by one, hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Events
from sketches.hashing import event_hashes, salt
from sketches.sampling.inclusion.nested_sample import NO_CUT, NestedSample, distinct_order
from sketches.sampling.inclusion.range_sample import LEVELS, PRIME, STEP
from tests.support.streams import STREAMS, Stream

Row = tuple[int, int, int, int]  # time, hash, value, weight


@dataclass
class Level:
    """One level of paper A §4.1: its most recent distinct events, and the largest time it has discarded."""

    capacity: int
    cut: int = NO_CUT
    kept: set[Row] = field(default_factory=set)

    def see(self, row: Row) -> None:
        if row[0] <= self.cut:
            return
        self.kept.add(row)
        if len(self.kept) > self.capacity:
            self.cut = min(time for time, *_ in self.kept)
            self.kept = {row for row in self.kept if row[0] > self.cut}


class Levels:
    """The levels of the sum and of the count, fed event by event, with a loop over the units of weight."""

    def __init__(self, capacity: int) -> None:
        self.by_weight = [Level(capacity) for _ in range(LEVELS)]
        self.by_count = [Level(capacity) for _ in range(LEVELS)]

    def see(self, row: Row) -> None:
        start = min(row[1] >> 3, PRIME - 1)
        smallest = min((start + j * STEP) % PRIME for j in range(row[3]))
        for level in range(LEVELS):
            if smallest < PRIME >> level:
                self.by_weight[level].see(row)
            if start < PRIME >> level:
                self.by_count[level].see(row)

    @property
    def rows(self) -> list[Row]:
        return sorted(set().union(*(level.kept for level in self.by_weight + self.by_count)))

    def cuts(self) -> tuple[list[int], list[int]]:
        return [level.cut for level in self.by_weight], [level.cut for level in self.by_count]


def events_of(stream: Stream) -> Events:
    return Events.of(stream.ids, stream.t, stream.v, stream.w)


def rows_of(stream: Stream, seed: int) -> list[Row]:
    columns = (stream.ids, stream.t, stream.v, stream.w)
    hashes = event_hashes(
        *(np.ascontiguousarray(column).view(np.uint64) for column in columns), np.uint64(salt(seed, 0))
    )
    return list(zip(stream.t.tolist(), hashes.tolist(), stream.v.tolist(), stream.w.tolist(), strict=True))


def table(sample: NestedSample) -> list[Row]:
    columns = (sample.times, sample.hashes, sample.values, sample.weights)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def built(stream: Stream, capacity: int, seed: int) -> NestedSample:
    return NestedSample.build(events_of(stream), capacity, salt(seed, 0))


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Few distinct times and ids, so that the cut often falls on a tie and rows often repeat."""
    times = draw(st.sampled_from((3, 30, 1000)))
    row = st.tuples(
        st.integers(0, 200), st.integers(-times, times), st.integers(-2, 2), st.sampled_from((1, 1, 2, 3, 90))
    )
    rows = draw(st.lists(row, min_size=1, max_size=120))
    if draw(st.booleans()):
        rows = [(*row[:3], 1) for row in rows]
    return Stream.of("drawn", *(list(column) for column in zip(*rows, strict=True)))


@given(streams(), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=150)
def test_same_rows_and_cuts_as_the_paper(stream: Stream, capacity: int, seed: int) -> None:
    """One table keeps the rows that per-level samples keep, and its cuts are the times they have discarded."""
    paper = Levels(capacity)
    for row in rows_of(stream, seed):
        paper.see(row)
    sample = built(stream, capacity, seed)
    assert table(sample) == paper.rows
    assert (sample.weight_cuts.tolist(), sample.count_cuts.tolist()) == paper.cuts()


@pytest.mark.parametrize("name", ["uniform", "sorted", "reversed", "bursty", "one-second", "heavy-duplicates", "late"])
def test_named_streams_against_the_paper(name: str) -> None:
    """The same on named streams of a few thousand rows, in their order of arrival."""
    stream = STREAMS[name](3000, 5)
    paper = Levels(50)
    for row in rows_of(stream, 2):
        paper.see(row)
    sample = built(stream, 50, 2)
    assert table(sample) == paper.rows
    assert (sample.weight_cuts.tolist(), sample.count_cuts.tolist()) == paper.cuts()


@pytest.mark.parametrize("name", ["sorted", "reversed", "late", "heavy-weights"])
def test_scanning_in_many_parts(name: str) -> None:
    """Streams longer than the scan's buffer, whichever way they run, give what a union of small parts gives."""
    stream = STREAMS[name](150_000, 6)
    whole = built(stream, 20, 1)
    parts = [built(stream.take(rows), 20, 1) for rows in np.array_split(np.arange(len(stream)), 9)]
    joined = NestedSample.union(parts, 20)
    assert table(joined) == table(whole)
    assert (joined.weight_cuts == whole.weight_cuts).all()
    assert (joined.count_cuts == whole.count_cuts).all()


@given(streams(), st.integers(1, 9))
@settings(max_examples=60)
def test_kept_iff_newer_than_the_cut_of_its_deepest_level(stream: Stream, capacity: int) -> None:
    """An event is kept iff it is newer than the cut of its deepest level, either of the sum or of the count."""
    sample = built(stream, capacity, 0)
    kept = set(table(sample))
    for row in set(rows_of(stream, 0)):
        above = []
        for cuts, weight in ((sample.weight_cuts, row[3]), (sample.count_cuts, 1)):
            smallest = min((min(row[1] >> 3, PRIME - 1) + j * STEP) % PRIME for j in range(weight))
            deepest = max(level for level in range(LEVELS) if smallest < PRIME >> level)
            above.append(row[0] > cuts[deepest])
        assert (row in kept) == any(above)
    for cuts in (sample.weight_cuts, sample.count_cuts):
        assert (cuts[1:] <= cuts[:-1]).all(), "cuts only fall with the level"
    assert (sample.weight_cuts >= sample.count_cuts).all(), "the count samples a part of what the sum samples"


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.uint64])
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), max_size=150))
def test_canonical_order_without_repeats(kind: type, rows: list[Row]) -> None:
    """Rows come by time, hash, value and weight, each once, also where hashes collide."""
    times, hashes, values, weights = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    order = distinct_order(times, hashes.astype(np.uint64), values.astype(kind), weights)
    assert [rows[row] for row in order.tolist()] == sorted(set(rows))


def aligned(parts: Sequence[NestedSample]) -> tuple[list[Row], list[int], list[int]]:
    """A union to answer: per level the largest cut, and every row of any part that is above its own."""
    weight_cuts = [max(part.weight_cuts[level] for part in parts) for level in range(LEVELS)]
    count_cuts = [max(part.count_cuts[level] for part in parts) for level in range(LEVELS)]
    rows = set()
    for row in set().union(*(table(part) for part in parts)):
        start = min(row[1] >> 3, PRIME - 1)
        smallest = min((start + j * STEP) % PRIME for j in range(row[3]))
        by_weight = max(level for level in range(LEVELS) if smallest < PRIME >> level)
        by_count = max(level for level in range(LEVELS) if start < PRIME >> level)
        if row[0] > weight_cuts[by_weight] or row[0] > count_cuts[by_count]:
            rows.add(row)
    return sorted(rows), weight_cuts, count_cuts


@given(streams(), st.integers(2, 4), st.integers(1, 6), st.integers(0, 9))
@settings(max_examples=60)
def test_union_without_trimming(stream: Stream, parts: int, capacity: int, cut: int) -> None:
    """A union to answer keeps every row above the aligned cuts, none of which rises above its largest part's."""
    samples = [built(part, capacity, 0) for part in stream.split(parts, cut)]
    joined = NestedSample.union(samples, None)
    rows, weight_cuts, count_cuts = aligned(samples)
    assert table(joined) == rows
    assert joined.weight_cuts.tolist() == weight_cuts
    assert joined.count_cuts.tolist() == count_cuts


def test_union_to_answer_holds_more() -> None:
    """Aligned cuts of many sources keep more rows than the trimmed union, and all of its rows."""
    samples = [built(part, 60, 0) for part in STREAMS["sorted"](20_000, 3).split(8, 1)]
    wide, trimmed = NestedSample.union(samples, None), NestedSample.union(samples, 60)
    assert set(table(trimmed)) < set(table(wide))
    assert len(wide) > 3 * len(trimmed)


def test_every_complete_level_is_whole() -> None:
    """Above the cut of a level every event of that level is in the table: what makes the level's count unbiased."""
    stream = STREAMS["sorted"](4000, 8)
    sample = built(stream, 40, 3)
    kept = set(table(sample))
    for row in set(rows_of(stream, 3)):
        start = min(row[1] >> 3, PRIME - 1)
        smallest = min((start + j * STEP) % PRIME for j in range(row[3]))
        weight_level, count_level = (int(levels[0]) for levels in sample.levels_at(np.array([row[0]])))
        complete = smallest < PRIME >> weight_level or start < PRIME >> count_level
        assert (row in kept) == complete


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "sorted", "heavy-weights", "bursty", "one-second"])
def test_probabilities_are_the_frequencies(name: str) -> None:
    """Over many seeds 1/π of the rows kept averages 1 for every single event, with the variance that π implies.

    With unit weights that is exact. A heavier event may be sampled by the sum but not by the count, or the other way
    round, and its absence there can make a level complete. Then π is too large, by less than 1/capacity.
    """
    stream = STREAMS[name](250, 4).distinct()
    seeds, capacity = 1200, 16
    total, spread, sums = np.zeros(len(stream)), np.zeros(len(stream)), []
    for seed in range(seeds):
        sample = built(stream, capacity, seed)
        place = {row: at for at, row in enumerate(rows_of(stream, seed))}
        rows = [place[row] for row in table(sample)]
        factor = 1 / sample.inclusion_probabilities()
        total[rows] += factor
        spread[rows] += factor * (factor - 1)  # unbiased for Σ (1/π - 1), as each row is there with probability π
        sums.append(factor.sum())
    sampled = spread > 0
    z = (total[sampled] - seeds) / np.sqrt(spread[sampled])
    assert total[~sampled] == pytest.approx(seeds)
    assert sampled.mean() > 0.5
    assert abs(z).max() < 5
    assert 0.7 < np.mean(z**2) < 1.4
    bias = 0.0 if (stream.w == 1).all() else 0.5 / capacity
    assert abs(np.mean(sums) / len(stream) - 1) < bias + 4 * np.std(sums) / len(stream) / np.sqrt(seeds)


def test_the_finest_complete_level() -> None:
    """At each time the level is the number of cuts at or above it: brute force over times."""
    sample = built(STREAMS["sorted"](3000, 2), 30, 1)
    times = np.arange(sample.times.min() - 3, sample.times.max() + 3)
    for levels, cuts in zip(sample.levels_at(times), (sample.weight_cuts, sample.count_cuts), strict=True):
        expected = [next((i for i in range(LEVELS) if cuts[i] < time), LEVELS) for time in times]
        assert levels.tolist() == expected


def test_nothing() -> None:
    """No events: no rows, no cuts; a union of nothing is nothing."""
    empty = built(STREAMS["empty"](0, 0), 5, 0)
    assert len(empty) == len(NestedSample.union([empty, empty], 5)) == len(empty.inclusion_probabilities()) == 0
    assert (empty.weight_cuts == NO_CUT).all()
