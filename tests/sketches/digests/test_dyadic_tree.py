"""Trees of masses by brute force: what they hold, what a coordinate cuts, how many nodes there are, however merged."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sketches import Events
from sketches.arrays import Ints, Words
from sketches.digests.dyadic_forest import Forest, Shape
from sketches.digests.dyadic_tree import (
    ALL,
    EITHER,
    PATHS_FORMAT,
    RIGHT,
    compression_factor,
    cover_points,
    end_of,
    floor_to,
    fold,
)
from sketches.digests.forest_bytes import read_forest, write_forest
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError

FAR: Final = 1 << 62
LAST: Final = (1 << 64) - 1
EPSILONS: Final = (0.9, 0.5, 0.2, 0.05)


@dataclass(frozen=True)
class Batch:
    """Events with codes of our own choice, and the tree that they go into."""

    times: Ints
    codes: Words
    weights: Ints
    epsilon: float
    shape: Shape

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: NDArray[Any]) -> Batch:
        return replace(self, times=self.times[rows], codes=self.codes[rows], weights=self.weights[rows])

    def split(self, parts: int, rng: np.random.Generator) -> list[Batch]:
        part = rng.integers(0, parts, len(self))
        return [self.take(np.flatnonzero(part == number)) for number in range(parts)]

    @property
    def valued(self) -> bool:
        return self.shape.value_share is not None

    @property
    def intervals(self) -> Ints:
        return np.floor_divide(self.times, self.shape.span)

    @property
    def points(self) -> list[int]:
        """Times from the start of their intervals."""
        return [time % self.shape.span for time in self.times.tolist()]

    def forest(self) -> Forest:
        events = Events.of(np.arange(len(self)), self.times, weights=self.weights)
        return Forest.build(events, self.codes if self.valued else None, self.shape)


def merged(parts: Sequence[Forest], shape: Shape, rng: np.random.Generator) -> Forest:
    """Merge two or three random ones until one is left."""
    left = list(parts)
    while len(left) > 1:
        some = [left.pop(int(rng.integers(len(left)))) for _ in range(min(len(left), int(rng.integers(2, 4))))]
        left.append(Forest.merged(some, shape))
    return left[0]


def written(forest: Forest, shape: Shape) -> bytes:
    writer = Writer()
    write_forest(writer, forest, shape.value_share is not None)
    return writer.to_bytes()


def times_of(pattern: str, rows: int, span: int, rng: np.random.Generator) -> Ints:
    """Within an interval or over a few, by a pattern that is hard on trees."""
    if pattern == "one":
        return np.full(rows, int(rng.integers(-FAR, FAR)), np.int64)
    if pattern == "far":
        return np.where(rng.random(rows) < 0.5, FAR, -FAR)
    begin = int(rng.choice([0, -3, 5, FAR // span - 2, -(FAR // span)])) * span
    if pattern == "uniform":
        offsets = rng.integers(0, span, rows)
    elif pattern == "edges":
        power = np.int64(1) << rng.integers(0, max(1, (span - 1).bit_length()), rows)
        offsets = np.minimum(power - rng.integers(0, 2, rows), span - 1)
    elif pattern == "fading":
        offsets = span - 1 - np.minimum(rng.geometric(0.01, rows) ** 2, span - 1)
    else:
        offsets = np.minimum(rng.geometric(0.02, rows), span - 1) + rng.integers(0, 3, rows) * span
    return np.clip(begin + offsets, -FAR, FAR)


def codes_of(pattern: str, rows: int, rng: np.random.Generator) -> Words:
    match pattern:
        case "few":
            return rng.integers(0, 5, rows).astype(np.uint64)
        case "ends":
            return np.where(rng.random(rows) < 0.5, np.uint64(0), np.uint64(LAST))
        case "edges":
            bits = rng.integers(0, 64, rows).astype(np.uint64)
            return (np.uint64(1) << bits) - rng.integers(0, 2, rows).astype(np.uint64)
        case "wide":
            return rng.integers(0, 1 << 40, rows).astype(np.uint64)
    return rng.integers(0, LAST, rows, np.uint64, endpoint=True)


@st.composite
def batches(draw: st.DrawFn, rows: int = 600, valued: bool | None = None) -> Batch:
    """Up to so many events, at all edges: spans of 1 and of no power of two, times near ±2^62, weights 0 to 2^40."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    span = draw(st.sampled_from((1, 2, 7, 64, 1000, 86_400, 1 << 30, 1 << 48)))
    number = draw(st.integers(0, rows))
    epsilon = draw(st.sampled_from(EPSILONS))
    heaviest = draw(st.sampled_from((1, 3, 1000, 1 << 40)))
    steep = draw(st.booleans())
    weights = 1 + (rng.random(number) ** (20 if steep else 1) * (heaviest - 1)).astype(np.int64)
    weights[rng.random(number) < draw(st.sampled_from((0.0, 0.0, 0.5, 0.95, 1.0)))] = 0
    times = times_of(draw(st.sampled_from(("uniform", "edges", "fading", "several", "one", "far"))), number, span, rng)
    codes = codes_of(draw(st.sampled_from(("few", "ends", "edges", "wide", "all"))), number, rng)
    keeps_values = draw(st.booleans()) if valued is None else valued
    value_share = 2.0 * (1.0 + epsilon) / epsilon if keeps_values else None
    return Batch(times, codes, weights, epsilon, Shape(span, compression_factor(epsilon), value_share))


def whole(batch: Batch, parts: int, seed: int) -> Forest:
    """The forest of a batch in one piece (parts = 0), or of its parts in some tree of merges."""
    if parts == 0:
        return batch.forest()
    rng = np.random.default_rng(seed)
    return merged([part.forest() for part in batch.split(parts, rng)], batch.shape, rng)


def ends_of(starts: Words, heights: NDArray[np.uint8]) -> list[int]:
    return [start + (1 << height) - 1 for start, height in zip(starts.tolist(), heights.tolist(), strict=True)]


def mass_from(places: Sequence[int], masses: Sequence[int]) -> dict[int, int]:
    """The mass at or beyond each place, and at or beyond a place further than all."""
    found: dict[int, int] = {max(places, default=0) + 1: 0}
    total = 0
    for place, mass in sorted(zip(places, masses, strict=True), reverse=True):
        total += mass
        found[place] = total
    return found


def at_or_beyond(table: dict[int, int], places: Sequence[int]) -> list[int]:
    """What `mass_from` says at any places."""
    keys = sorted(table)
    ranks = [bisect_left(keys, place) for place in places]
    return [table[keys[rank]] if rank < len(keys) else 0 for rank in ranks]


@dataclass(frozen=True)
class Cuts:
    """L(x), exact and U(x) at every x where any of them changes; `exact` is of the events, where they are given."""

    lower: list[int]
    upper: list[int]
    exact: list[int]


def cuts(
    starts: Sequence[int], ends: Sequence[int], masses: Sequence[int], places: Sequence[int], loads: Sequence[int]
) -> Cuts:
    at = sorted({*starts, *(end + 1 for end in ends), *places, *(place + 1 for place in places)})
    lower = at_or_beyond(mass_from(starts, masses), at)
    upper = at_or_beyond(mass_from(ends, masses), at)
    return Cuts(lower, upper, at_or_beyond(mass_from(places, loads), at))


def kinds_of_mass(forest: Forest, batch: Batch) -> list[tuple[Ints, Ints]]:
    """Counts and weights, of rows and of events."""
    return [(forest.count, np.ones(len(batch), np.int64)), (forest.weight, batch.weights)]


def check_masses(forest: Forest, batch: Batch) -> None:
    assert (forest.count >= 1).all()
    assert (forest.weight >= 0).all()
    for mass, load in kinds_of_mass(forest, batch):
        for interval in np.unique(batch.intervals):
            assert mass[forest.interval == interval].sum() == load[batch.intervals == interval].sum()
        assert mass.sum() == load.sum()
    assert set(forest.interval.tolist()) == set(batch.intervals.tolist())


def check_ranges(forest: Forest, batch: Batch) -> None:
    """Every range is a dyadic one of its interval, and named once for each kind of mass."""
    assert (forest.height <= batch.shape.top).all()
    assert (forest.code_height <= 64).all()
    for starts, heights in ((forest.start, forest.height), (forest.code, forest.code_height)):
        assert all(start % (1 << h) == 0 for start, h in zip(starts.tolist(), heights.tolist(), strict=True))
    first, last = forest.times(batch.shape.span)
    assert (np.floor_divide(first, batch.shape.span) == forest.interval).all()
    assert (np.floor_divide(last, batch.shape.span) == forest.interval).all()
    names = zip(*(getattr(forest, one.name).tolist() for one in fields(forest)[:5]), strict=True)
    assert len(set(names)) == len(forest)


def check_time_cuts(forest: Forest, batch: Batch) -> None:
    """At every x of every interval: L ≤ exact ≤ U and U - L ≤ ε·L, in whole numbers, for counts and for weights."""
    over, under = batch.epsilon.as_integer_ratio()
    points = np.array(batch.points, object)
    for interval in np.unique(batch.intervals):
        rows, events = forest.interval == interval, batch.intervals == interval
        starts, ends = forest.start[rows].tolist(), ends_of(forest.start[rows], forest.height[rows])
        for mass, load in kinds_of_mass(forest, batch):
            found = cuts(starts, ends, mass[rows].tolist(), points[events].tolist(), load[events].tolist())
            for lower, exact, upper in zip(found.lower, found.exact, found.upper, strict=True):
                assert lower <= exact <= upper
                assert (upper - lower) * under <= over * lower


def check_value_bounds(forest: Forest, batch: Batch) -> None:
    """At every code, over everything: L ≤ exact ≤ U."""
    for mass, load in kinds_of_mass(forest, batch):
        ends = ends_of(forest.code, forest.code_height)
        found = cuts(forest.code.tolist(), ends, mass.tolist(), batch.codes.tolist(), load.tolist())
        for lower, exact, upper in zip(found.lower, found.exact, found.upper, strict=True):
            assert lower <= exact <= upper


def check_value_cuts(forest: Forest, batch: Batch) -> None:
    """In every node of time the ranges that a code cuts carry at most 2/K of the node."""
    assert batch.shape.value_share is not None
    over, under = (batch.shape.value_share / 2).as_integer_ratio()
    names = np.column_stack((forest.interval, forest.start.view(np.int64), forest.height.astype(np.int64)))
    nodes, which = np.unique(names, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(which.reshape(-1), minlength=len(nodes)))[:-1]):
        if not forest.code_height[rows].any():
            continue
        ends = ends_of(forest.code[rows], forest.code_height[rows])
        for mass in (forest.count[rows].tolist(), forest.weight[rows].tolist()):
            found = cuts(forest.code[rows].tolist(), ends, mass, [], [])
            worst = max(upper - lower for upper, lower in zip(found.upper, found.lower, strict=True))
            assert worst * over <= sum(mass) * under


def check_assignment(forest: Forest, batch: Batch, masses: Ints, loads: Ints) -> None:
    """A flow fills every row with events that lie in it: nobody's mass was moved to where it cannot be."""
    points, ends = np.array(batch.points, object), np.array(ends_of(forest.start, forest.height), object)
    code_ends = np.array(ends_of(forest.code, forest.code_height), object)
    codes = batch.codes.astype(object) if batch.valued else np.zeros(len(batch), object)
    holds = (
        (batch.intervals[:, None] == forest.interval)
        & (points[:, None] >= forest.start.astype(object))
        & (points[:, None] <= ends)
        & (codes[:, None] >= forest.code.astype(object))
        & (codes[:, None] <= code_ends)
    ).astype(bool)
    events, rows = len(batch), len(forest)
    capacity = np.zeros((events + rows + 2, events + rows + 2), np.int32)
    source, sink = events + rows, events + rows + 1
    capacity[source, :events] = loads
    capacity[events : events + rows, sink] = masses
    capacity[:events, events : events + rows] = np.where(holds, loads[:, None], 0)
    assert maximum_flow(csr_array(capacity), source, sink).flow_value == loads.sum()


def check_size(forest: Forest, batch: Batch) -> None:
    """As few nodes an interval as C's Theorem 1 says of its q-digests, with the constants of its proof.

    That is 3·K·h·(1 + ln N), and as many again that weights refuse. What `sketches.digests.dyadic_tree` proves is one
    factor of h more, which no known tree comes near.
    """
    height = batch.shape.top
    for interval in np.unique(batch.intervals):
        rows = forest.interval == interval
        nodes = len(set(zip(forest.start[rows].tolist(), forest.height[rows].tolist(), strict=True)))
        most = batch.shape.time_share
        logs = [1.0 + math.log(max(int(mass[rows].sum()), 1)) for mass in (forest.count, forest.weight)]
        kinds = logs[:1] if (forest.count == forest.weight).all() else logs
        assert nodes <= 2 * most + sum(3.0 * most * height * log for log in kinds)


def check_lines(
    starts: Sequence[int], heights: Sequence[int], masses: Sequence[int], top: int, factor: float, suffix: bool
) -> None:
    """At every x, of every height j: what ranges of height j or more carry there keeps to the line of j, exactly."""
    ends = [start + (1 << height) - 1 for start, height in zip(starts, heights, strict=True)]
    at = sorted({*(start + 1 for start in starts), *ends})
    within = at_or_beyond(mass_from(ends, masses), at) if suffix else [sum(masses)] * len(at)
    for least in range(1, top + 1):
        rows = [row for row, height in enumerate(heights) if height >= least]
        if not rows:
            break
        line = (1 + Fraction(3 * (top + 1 - least), 8 * top)) / Fraction(factor)
        some = [masses[row] for row in rows]
        first = at_or_beyond(mass_from([starts[row] for row in rows], some), at)
        last = at_or_beyond(mass_from([ends[row] for row in rows], some), at)
        assert all(upper - lower <= line * total for lower, upper, total in zip(first, last, within, strict=True))


def check_time_lines(forest: Forest, batch: Batch) -> None:
    for interval in np.unique(batch.intervals):
        rows = forest.interval == interval
        for mass in (forest.count, forest.weight):
            columns = (column[rows].tolist() for column in (forest.start, forest.height, mass))
            check_lines(*columns, max(batch.shape.top, 1), batch.shape.time_share, True)


def check(forest: Forest, batch: Batch) -> None:
    check_masses(forest, batch)
    check_ranges(forest, batch)
    check_time_cuts(forest, batch)
    check_time_lines(forest, batch)
    check_size(forest, batch)
    if batch.valued:
        check_value_bounds(forest, batch)
        check_value_cuts(forest, batch)


@given(batches(), st.integers(0, 6), st.integers(0, 2**32))
@settings(max_examples=150)
def test_what_holds_of_a_forest_holds_after_any_merges(batch: Batch, parts: int, seed: int) -> None:
    """Masses are kept, every coordinate's bounds hold, and no path carries more than its share: built or merged."""
    check(whole(batch, parts, seed), batch)


@pytest.mark.slow
@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("pattern", ["uniform", "edges", "fading", "several"])
@pytest.mark.parametrize("epsilon", [0.9, 0.1])
def test_large_forests_merged_from_many_parts(pattern: str, epsilon: float, valued: bool) -> None:
    """The same of 20,000 events in 40 parts, where masses are folded again and again."""
    rng = np.random.default_rng([int(epsilon * 10), valued])
    span, rows = 5000, 20_000
    weights = (rng.random(rows) ** 8 * 1000).astype(np.int64)  # more than a third of them 0
    codes = codes_of("wide", rows, rng) >> rng.integers(0, 40, rows).astype(np.uint64)
    shape = Shape(span, compression_factor(epsilon), compression_factor(epsilon) if valued else None)
    batch = Batch(times_of(pattern, rows, span, rng), codes, weights, epsilon, shape)
    forests = [part.forest() for part in batch.split(40, rng)]
    forest = merged(forests, shape, rng)
    check(forest, batch)
    side_by_side = Forest.joined(forests).gathered()
    assert pattern == "edges" or len(forest) < len(side_by_side), "something was folded, else nothing is shown"
    check(side_by_side, batch)


@given(batches(rows=120), st.integers(0, 6), st.integers(0, 2**32))
@settings(max_examples=80)
def test_every_event_lies_in_a_row_that_counts_it(batch: Batch, parts: int, seed: int) -> None:
    """Counts, and weights where a flow can hold them, can be handed out to rows that hold the events' time and code."""
    forest = whole(batch, parts, seed)
    check_assignment(forest, batch, forest.count, np.ones(len(batch), np.int64))
    if forest.weight.sum() < 1 << 31:
        check_assignment(forest, batch, forest.weight, batch.weights)


@given(batches(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_order_of_rows_leaves_no_trace(batch: Batch, seed: int) -> None:
    """Any order of the events gives the same bytes."""
    shuffled = batch.take(np.random.default_rng(seed).permutation(len(batch)))
    assert written(shuffled.forest(), batch.shape) == written(batch.forest(), batch.shape)


@given(batches())
@settings(max_examples=60)
def test_a_batch_has_no_more_rows_than_events_to_tell_apart(batch: Batch) -> None:
    """At most one row for each time, or pair of time and code; merged forests may have more."""
    codes = batch.codes.tolist() if batch.valued else [0] * len(batch)
    assert len(batch.forest()) <= len(set(zip(batch.times.tolist(), codes, strict=True)))


@given(batches(), st.integers(2, 5), st.integers(0, 2**32))
@settings(max_examples=60)
def test_merging_is_commutative(batch: Batch, parts: int, seed: int) -> None:
    """Any order of the parts of one merge gives the same bytes, and an empty part changes none."""
    rng = np.random.default_rng(seed)
    forests = [part.forest() for part in batch.split(parts, rng)]
    data = written(Forest.merged(forests, batch.shape), batch.shape)
    order = rng.permutation(parts).tolist()
    assert written(Forest.merged([forests[one] for one in order], batch.shape), batch.shape) == data
    assert written(Forest.merged([*forests, Forest.empty()], batch.shape), batch.shape) == data


@given(batches(), st.integers(0, 5), st.integers(0, 2**32))
@settings(max_examples=60)
def test_bytes_give_the_same_forest(batch: Batch, parts: int, seed: int) -> None:
    """What is written is read, column by column and type by type; a byte short, it is refused."""
    forest = whole(batch, parts, seed)
    data = written(forest, batch.shape)
    reader = Reader(data, PATHS_FORMAT)
    back = read_forest(reader, batch.shape)
    reader.done()
    for one in fields(Forest):
        before, after = getattr(forest, one.name), getattr(back, one.name)
        assert before.dtype == after.dtype
        assert (before == after).all()
    with pytest.raises(CorruptError):
        read_forest(Reader(data[:-1], PATHS_FORMAT), batch.shape)


@given(batches(), st.integers(2, 6), st.integers(0, 2**32))
@settings(max_examples=60)
def test_what_was_folded_once_stays_as_it_is(batch: Batch, parts: int, seed: int) -> None:
    """All that fits is folded at once: a forest merged with nothing has the same bytes."""
    forest = whole(batch, parts, seed)
    assert written(Forest.merged([forest, Forest.empty()], batch.shape), batch.shape) == written(forest, batch.shape)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int, int]]]:
    """The height of a tree, and its nodes as `fold` takes them: start, height, count and weight."""
    top = draw(st.sampled_from((1, 3, 10, 63, 64)))
    found = {}
    for _ in range(draw(st.integers(1, 60))):
        height = draw(st.integers(0, top))
        low = draw(st.sampled_from((0, (1 << top) - 1, 1 << (top - 1), None)))
        point = draw(st.integers(0, (1 << top) - 1)) if low is None else low
        count = draw(st.sampled_from((1, 1, 1, 5, 1 << 20)))
        weight = draw(st.sampled_from((0, count // 2, count, count, count + 3, count + (1 << 40))))
        found[point >> height << height, -height] = (count, weight)
    return top, [(start, -height, *found[start, height]) for start, height in sorted(found)]


@given(nodes(), st.sampled_from((ALL, RIGHT, EITHER)), st.sampled_from((1.0, 4.5, 40.0)))
@settings(max_examples=200)
def test_a_range_is_folded_whole_and_within_its_line(
    tree: tuple[int, list[tuple[int, int, int, int]]], of: int, most: float
) -> None:
    """Masses go to an ancestor, or nowhere. What takes others in takes all that lies in it, and keeps to its line.

    With the ranges above it, which took nothing in, it carries at most (1 + 3(H + 1 - h)/8H)/K of what ends there or
    beyond, of all, or also of what begins there or before: in whole numbers.
    """
    top, rows = tree
    columns = list(zip(*rows, strict=True))
    starts, heights = np.array(columns[0], np.uint64), np.array(columns[1], np.uint8)
    counts, weights = np.array(columns[2], np.int64), np.array(columns[3], np.int64)
    bounds, none = np.array([0, len(rows)], np.int64), np.zeros(1, np.int64)
    to_starts, to_heights = fold(bounds, starts, heights, counts, weights, none, none, top, most, of)
    targets = list(zip(to_starts.tolist(), to_heights.tolist(), strict=True))
    for (start, height, _, _), (to_start, to_height) in zip(rows, targets, strict=True):
        assert height <= to_height <= top
        assert start >> to_height << to_height == to_start
    for start, height in {target for (s, h, _, _), target in zip(rows, targets, strict=True) if target != (s, h)}:
        end = start + (1 << height) - 1
        inside = [row for row, (s, h, _, _) in enumerate(rows) if start <= s <= end and h <= height]
        above = [row for row, (s, h, _, _) in enumerate(rows) if h > height and s <= start <= s + (1 << h) - 1]
        assert {targets[row] for row in inside} == {(start, height)}
        assert len(inside) > 1
        assert all(targets[row] == rows[row][:2] for row in above)
        line = (1 + Fraction(3 * (top + 1 - height), 8 * top)) / Fraction(most)
        for mass in (columns[2], columns[3]):
            carried = sum(mass[row] for row in (*inside, *above))
            beyond = sum(m for (s, _, _, _), m in zip(rows, mass, strict=True) if s > end)
            before = sum(m for (s, h, _, _), m in zip(rows, mass, strict=True) if s + (1 << h) <= start)
            assert carried <= line * (sum(mass) if of == ALL else carried + beyond)
            assert of != EITHER or carried <= line * (carried + before)


@given(st.data(), st.sampled_from((ALL, RIGHT, EITHER)), st.sampled_from((2.0, 4.5, 40.0)))
@settings(max_examples=150)
def test_covering_lays_disjoint_ranges_within_their_shares(data: st.DataObject, of: int, most: float) -> None:
    """Every point is in its range, ranges are disjoint, and one of several points carries at most its share."""
    top = data.draw(st.sampled_from((1, 8, 63, 64)))
    edge = st.sampled_from((0, 1, (1 << top) - 1, (1 << top) - 2, 1 << (top - 1)))
    drawn = data.draw(st.sets(st.one_of(edge, st.integers(0, (1 << top) - 1), st.integers(0, 1)), min_size=1))
    points = np.array(sorted(point % (1 << top) for point in drawn), np.uint64)
    points = np.unique(points)
    size = len(points)
    counts = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), np.int64)
    weights = counts * data.draw(st.sampled_from((1, 1 << 38))) + np.arange(size)
    bounds = np.array([0, size], np.int64)
    starts, heights, belongs = cover_points(bounds, points, counts, weights, top, most, of)
    ends = ends_of(starts, heights)
    for point, one in zip(points.tolist(), belongs.tolist(), strict=True):
        assert starts[one] <= point <= ends[one]
    ranges = sorted(zip(starts.tolist(), ends, strict=True))
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    for one in range(len(starts)):
        inside = belongs == one
        if inside.sum() == 1:
            assert heights[one] == 0
            continue
        for mass in (counts, weights):
            right, left = mass[points > np.uint64(ends[one])], mass[points < starts[one]]
            assert int(mass[inside].sum()) * most <= int((mass if of == ALL else right).sum())
            assert of != EITHER or int(mass[inside].sum()) * most <= int(left.sum())


@pytest.mark.parametrize("suffix", [True, False])
def test_rounding_does_not_stretch_a_share(suffix: bool) -> None:
    """Where K is a rounded number and a mass would fit but for its last digit, it is not taken in: exactly, no more."""
    tight = 0
    for epsilon in (number / 1000 for number in range(10, 1000)):
        most = compression_factor(epsilon)
        exactly = Fraction(most)
        for count in (3, 7, 27, 64, 81, 125, 999):
            right = math.floor(exactly * count)
            for mass in (right, right + 1):
                beyond = mass if suffix else mass - count
                if beyond < 1:
                    continue
                counts = np.array([count - 1, 1, beyond], np.int64)
                points, bounds = np.array([0, 1, 9], np.uint64), np.array([0, 3], np.int64)
                _, heights, belongs = cover_points(bounds, points, counts, counts, 4, most, RIGHT if suffix else ALL)
                fits = count * exactly <= mass
                tight += not fits and mass / most >= count
                assert fits or belongs[0] != belongs[1]
                assert (belongs[0] == belongs[1]) == (heights[belongs[0]] > 0)
    assert tight > 0, "some masses would fit if shares were rounded"


def test_ranges_at_all_heights() -> None:
    """Start and end of the range that holds the first, the last and a middle coordinate."""
    for height in range(65):
        for point in (0, LAST, 0x0123_4567_89AB_CDEF):
            start = int(floor_to(np.uint64(point), height))
            assert start == point >> height << height
            assert int(end_of(np.uint64(start), height)) == start + (1 << height) - 1
