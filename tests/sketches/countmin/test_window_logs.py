"""Exponential histograms and deterministic waves: as the papers keep them, and never off by more than they promise."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches.arrays import Ints
from sketches.countmin.window_counter import WindowCounter
from sketches.countmin.window_logs import Keeping, Logs, kept, room
from sketches.errors import EventError, IncompatibleError, QuestionError, WaneError
from tests.support.aggregation import AggregatedCounter, aggregate

ACCURACIES: Final = (0.9, 0.5, 1 / 3, 0.3, 0.1, 0.07, 0.01)
MOST: Final = 3000  # arrivals that are simulated one by one
DETERMINISTIC: Final[tuple[Keeping, ...]] = ("eh", "dw")
ROUNDING: Final = 1e-9

both = pytest.mark.parametrize("keeping", DETERMINISTIC)
gaps = st.lists(st.sampled_from((0, 0, 0, 1, 1, 2, 7, 40)), min_size=1, max_size=300)
accuracies = st.sampled_from(ACCURACIES)


def histogram_by_hand(epsilon: float) -> Iterator[list[int]]:
    """Datar et al., an arrival at a time: k buckets and one more at level 0, ⌈k/2⌉ and one more above.

    A bucket is the rank of its newest arrival. One bucket too many makes the two oldest of its level into one.
    """
    k = math.ceil(1 / epsilon)
    levels: list[deque[int]] = []
    for rank in range(1, MOST + 1):
        full: int | None = rank
        level = 0
        while full is not None:
            if level == len(levels):
                levels.append(deque())
            levels[level].append(full)
            full = None
            if len(levels[level]) > (k if level == 0 else math.ceil(k / 2)) + 1:
                levels[level].popleft()
                full = levels[level].popleft()  # of the two the newer one is the newest arrival of both
            level += 1
        yield [each for one in reversed(levels) for each in one]


def wave_by_hand(epsilon: float) -> Iterator[list[int]]:
    """Gibbons and Tirthapura, an arrival at a time: of every level the k + 1 newest ranks that 2^level divides."""
    k = math.ceil(1 / epsilon)
    levels = [deque[int](maxlen=k + 1) for _ in range(MOST.bit_length())]
    for rank in range(1, MOST + 1):
        for level, ranks in enumerate(levels):
            if rank % (1 << level) == 0:
                ranks.append(rank)
        yield sorted(set().union(*levels))


BY_HAND: Final = {"eh": histogram_by_hand, "dw": wave_by_hand}


def counter_of(times: Sequence[int] | Ints, epsilon: float, keeping: Keeping) -> WindowCounter:
    counter = WindowCounter(epsilon, keeping)
    counter.add(times)
    return counter


def equal(one: Logs, other: Logs) -> bool:
    """The same log, entry by entry."""
    return all(np.array_equal(getattr(one, column), getattr(other, column)) for column in Logs.__slots__)


def crowded(rng: np.random.Generator, n: int, span: int = 300) -> Ints:
    """Sorted times of which many are equal: bursts of hundreds in one tick, stretches in which nothing comes."""
    busy = rng.integers(-span // 2, span // 2, max(1, n // 50))
    return np.sort(np.where(rng.random(n) < rng.random(), rng.choice(busy, n), rng.integers(-span // 2, span // 2, n)))


def check_every_window(counter: WindowCounter | AggregatedCounter, times: Ints, as_of: int) -> None:
    """Whatever the window, its count lies within the bounds, and the estimate errs by no more than is promised."""
    windows = np.arange(1, as_of - int(times[0]) + 3)
    counts = len(times) - np.searchsorted(times, as_of - windows, side="right")
    for window, exact in zip(windows.tolist(), counts.tolist(), strict=True):
        found = counter.count(window, as_of)
        assert found.lower <= exact * (1 + ROUNDING), (window, exact, found)
        assert exact <= found.upper * (1 + ROUNDING), (window, exact, found)
        error = counter.error if isinstance(counter, AggregatedCounter) else counter.epsilon
        assert abs(found.value - exact) <= error * exact + ROUNDING, (window, exact, found)


def aggregated(counters: Sequence[WindowCounter], fanout: int) -> AggregatedCounter:
    """Aggregate neighbours as the paper does until one counter is left."""
    left = [AggregatedCounter(counter) for counter in counters]
    while len(left) > 1:
        left = [aggregate(left[at : at + fanout]) for at in range(0, len(left), fanout)]
    return left[0]


def tree(counters: Sequence[WindowCounter], fanout: int = 2) -> WindowCounter:
    """Merge neighbours until one counter is left."""
    left = list(counters)
    while len(left) > 1:
        left = [WindowCounter.union(left[at : at + fanout]) for at in range(0, len(left), fanout)]
    return left[0]


def one_by_one(counters: Sequence[WindowCounter]) -> WindowCounter:
    """Merge each into what those before it have become."""
    return reduce(lambda one, other: WindowCounter.union([one, other]), counters)


@both
@pytest.mark.parametrize("epsilon", ACCURACIES)
def test_the_ranks_are_those_of_the_papers(epsilon: float, keeping: Keeping) -> None:
    """After every arrival, up to thousands, what is kept is what the paper's own updates keep."""
    for total, by_hand in enumerate(BY_HAND[keeping](epsilon), start=1):
        assert kept(total, epsilon, keeping).tolist() == by_hand, total


@both
@pytest.mark.parametrize("epsilon", ACCURACIES)
def test_no_entry_is_larger_than_the_error_allows(epsilon: float, keeping: Keeping) -> None:
    """Half an entry is at most ε of one more than the arrivals after it (E, invariant 1), and little is kept."""
    for total in [*range(1, 200), 1000, 4097, 99_999, 1_000_000, 2**40 + 12_345]:
        ranks = kept(total, epsilon, keeping)
        sizes = np.diff(ranks, prepend=0)
        assert ranks[-1] == total
        assert sizes.min() >= 1
        assert (sizes[sizes > 1] / 2 <= epsilon * (1 + total - ranks[sizes > 1])).all()
        assert len(ranks) <= (room(epsilon) + 2) * (1 + math.log2(total))


@both
def test_one_by_one_in_batches_and_at_once_is_the_same(keeping: Keeping) -> None:
    """The log does not show how the arrivals came in."""
    rng = np.random.default_rng(1)
    for epsilon in ACCURACIES:
        times = crowded(rng, 700)
        at_once = counter_of(times, epsilon, keeping)
        one_by_one, in_batches = WindowCounter(epsilon, keeping), WindowCounter(epsilon, keeping)
        for time in times.tolist():
            one_by_one.add(time)
        for batch in np.split(times, np.sort(rng.integers(0, len(times) + 1, 12))):
            in_batches.add(batch)
        assert equal(one_by_one.logs, at_once.logs)
        assert equal(in_batches.logs, at_once.logs)
        assert at_once.total == one_by_one.total == 700


@given(gaps, gaps, accuracies, st.sampled_from(DETERMINISTIC))
def test_two_batches_are_one(first: list[int], second: list[int], epsilon: float, keeping: Keeping) -> None:
    """Wherever a stream is cut, also between arrivals of one tick."""
    times = np.cumsum(first + second)
    counter = counter_of(times[: len(first)], epsilon, keeping)
    counter.add(times[len(first) :])
    assert equal(counter.logs, counter_of(times, epsilon, keeping).logs)


@both
@pytest.mark.parametrize("epsilon", ACCURACIES)
def test_no_window_is_ever_missed(epsilon: float, keeping: Keeping) -> None:
    """Not one violation, for every window, over streams with many arrivals in one tick."""
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        times = crowded(rng, int(rng.integers(1, 4000)))
        as_of = int(times[-1]) + int(rng.choice([0, 0, 3, 90]))
        check_every_window(counter_of(times, epsilon, keeping), times, as_of)


@given(gaps, accuracies, st.sampled_from(DETERMINISTIC), st.integers(0, 50))
@settings(max_examples=60)
def test_no_window_of_any_stream_is_missed(steps: list[int], epsilon: float, keeping: Keeping, later: int) -> None:
    """The same for streams that were looked for."""
    times = np.cumsum(steps[:120])
    check_every_window(counter_of(times, epsilon, keeping), times, int(times[-1]) + later)


@both
@pytest.mark.parametrize("parts", [2, 3, 8, 17])
@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_an_aggregation_keeps_its_promise(epsilon: float, parts: int, keeping: Keeping) -> None:
    """The paper's own, in one step and in binary trees: all is there, and every window is within hε(1 + ε) + ε."""
    rng = np.random.default_rng([parts, 6])
    times = crowded(rng, 2000, 200)
    part = rng.integers(0, parts, len(times))
    counters = [counter_of(times[part == number], epsilon, keeping) for number in range(parts)]
    for counter, levels in ((aggregated(counters, parts), 1), (aggregated(counters, 2), math.ceil(math.log2(parts)))):
        assert counter.levels == levels
        assert counter.error == pytest.approx((1 + epsilon) ** (levels + 1) - 1)
        assert abs(counter.error - (levels * epsilon * (1 + epsilon) + epsilon)) <= (levels + 1) ** 2 * epsilon**2
        assert counter.total == len(times)
        assert np.array_equal(np.cumsum(counter.logs.size), kept(len(times), epsilon, keeping))
        check_every_window(counter, times, int(times[-1]))


SPREADS: Final[tuple[str, ...]] = ("in order", "late", "at random")


def spread(rng: np.random.Generator, how: str, arrivals: int, parts: int) -> Ints:
    """Which part each of the sorted arrivals comes in."""
    part = np.arange(arrivals) * parts // arrivals
    if how == "late":  # a tenth of them comes up to half of the parts later
        later = rng.integers(1, parts // 2 + 2, arrivals)
        part = np.where(rng.random(arrivals) < 0.1, np.minimum(part + later, parts - 1), part)
    return rng.integers(0, parts, arrivals) if how == "at random" else part


@both
@pytest.mark.parametrize("how", SPREADS)
@pytest.mark.parametrize("parts", [2, 17, 400])
@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.03])
def test_a_merge_costs_no_accuracy(epsilon: float, parts: int, how: str, keeping: Keeping) -> None:
    """At once, in trees and one by one: all arrivals are there, and every window is within ε as of one batch."""
    rng = np.random.default_rng([parts, 6])
    times = crowded(rng, 1500, 200)
    part = spread(rng, how, len(times), parts)
    counters = [counter_of(times[part == number], epsilon, keeping) for number in range(parts)]
    for merge in (WindowCounter.union, tree, one_by_one):
        counter = merge(counters)
        assert counter.total == len(times)
        assert (np.diff(counter.logs.end) >= 0).all()
        check_every_window(counter, times, int(times[-1]))


@both
@pytest.mark.parametrize("how", SPREADS)
def test_entries_with_weights_keep_their_share(how: str, keeping: Keeping) -> None:
    """Arrivals by the hundred in one tick, as weights are counted, in many tiny parts: every window is within ε."""
    rng = np.random.default_rng([7, len(how)])
    ticks = np.sort(rng.integers(0, 400, 300))
    weights = np.where(rng.random(300) < 0.2, rng.integers(1, 900, 300), 1)
    part = spread(rng, how, 300, 150)
    chosen = [part == number for number in range(150)]
    counters = [counter_of(np.repeat(ticks[here], weights[here]), 0.1, keeping) for here in chosen]
    times = np.repeat(ticks, weights)
    for merge in (WindowCounter.union, one_by_one):
        check_every_window(merge(counters), times, int(times[-1]) + 5)


@both
@pytest.mark.parametrize("parts", [24, 240, 2400])
def test_parts_in_order_take_no_more_room_than_one_batch(parts: int, keeping: Keeping) -> None:
    """At once or one by one, entries are at most 1.3 times those of one batch, and windows 1.5 times as wide."""
    times = np.sort(np.random.default_rng(parts).integers(0, 10**6, 24_000))
    batch = counter_of(times, 0.025, keeping)
    counters = [counter_of(each, 0.025, keeping) for each in np.array_split(times, parts)]
    windows = np.geomspace(10**4, 9 * 10**5, 40).astype(int).tolist()

    def width(counter: WindowCounter) -> float:
        found = [counter.count(window) for window in windows]
        return float(np.mean([(each.upper - each.lower) / each.value for each in found]))

    for merge in (WindowCounter.union, one_by_one):
        counter = merge(counters)
        assert len(counter.logs.end) <= 1.3 * len(batch.logs.end)
        assert width(counter) <= 1.5 * width(batch)


@both
def test_the_order_of_parts_leaves_no_trace(keeping: Keeping) -> None:
    """Merged at once, the entries do not show in which order the counters were given."""
    rng = np.random.default_rng(23)
    counters = [counter_of(crowded(rng, 200), 0.1, keeping) for _ in range(9)]
    whole = WindowCounter.union(counters)
    for _ in range(5):
        assert equal(WindowCounter.union([counters[at] for at in rng.permutation(9)]).logs, whole.logs)


@both
def test_a_merged_counter_counts_on(keeping: Keeping) -> None:
    """What is added to it later is counted as well as before."""
    rng = np.random.default_rng(24)
    times = crowded(rng, 2000)
    counter = WindowCounter.union([counter_of(times[:900:2], 0.1, keeping), counter_of(times[1:900:2], 0.1, keeping)])
    for batch in np.array_split(times[900:], 60):
        counter.add(batch)
    check_every_window(counter, times, int(times[-1]))


@given(st.lists(gaps, min_size=2, max_size=8), accuracies, st.sampled_from(DETERMINISTIC), st.booleans())
@settings(max_examples=60)
def test_no_merge_of_any_streams_breaks_its_promise(
    streams: list[list[int]], epsilon: float, keeping: Keeping, at_once: bool
) -> None:
    """Streams of unequal lengths and times, which may be far apart."""
    parts = [np.cumsum(steps[:60]) for steps in streams]
    counters = [counter_of(times, epsilon, keeping) for times in parts]
    counter = WindowCounter.union(counters) if at_once else tree(counters)
    times = np.sort(np.concatenate(parts))
    assert counter.total == len(times)
    check_every_window(counter, times, int(times[-1]))


@both
def test_parts_one_after_the_other_and_parts_in_one_tick(keeping: Keeping) -> None:
    """Merged epochs, and sources of which each has one tick to itself; the smallest and largest are whole."""
    times = np.sort(np.random.default_rng(3).integers(0, 500, 3000))
    for parts in (np.array_split(times, 16), [times[times % 50 == tick] for tick in range(50)]):
        counters = [counter_of(part, 0.1, keeping) for part in parts]
        check_every_window(WindowCounter.union(counters), times, int(times[-1]))
        check_every_window(tree(counters, 4), times, int(times[-1]))
    in_one_tick = WindowCounter.union([counter_of([7] * 1000, 0.1, keeping) for _ in range(5)])
    assert in_one_tick.count(1).value == in_one_tick.count(10**9).value == 5000


@both
def test_what_is_merged_with_nothing_stays_the_same(keeping: Keeping) -> None:
    """Empty counters and a counter alone change nothing."""
    counter = counter_of(range(100), 0.1, keeping)
    empty = WindowCounter(0.1, keeping)
    for counters in ([counter], [empty, counter, empty], [counter, empty]):
        alone = WindowCounter.union(counters)
        assert not alone.merged
        assert equal(alone.logs, counter.logs)
    assert WindowCounter.union([empty, empty]).total == 0
    assert WindowCounter.union([empty, empty]).count(5).upper == 0.0


@both
def test_a_union_is_no_counter_of_its_parts(keeping: Keeping) -> None:
    """What is added to the union of one counter and an empty one is not added to that counter."""
    counter = counter_of(range(100), 0.1, keeping)
    alone = WindowCounter.union([counter, WindowCounter(0.1, keeping)])
    alone.add([100, 101])
    assert (alone.total, counter.total) == (102, 100)


@both
@pytest.mark.parametrize("epsilon", ACCURACIES)
def test_windows_of_the_last_arrivals(epsilon: float, keeping: Keeping) -> None:
    """Of a stream of which some arrivals are counted: how many of the last N were, whatever N."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 8])
        counted = np.flatnonzero(rng.random(600) < rng.choice([0.02, 0.5, 0.98])) + 1
        counter = WindowCounter(epsilon, keeping, basis="count")
        for batch in np.array_split(counted, 5):
            counter.add(batch)
        check_every_window(counter, counted, 600)
        assert counter.count(600, as_of=600).value == len(counted)


@both
def test_windows_of_the_last_arrivals_are_not_merged(keeping: Keeping) -> None:
    """The reason is given, also where a counter is empty."""
    counters = [WindowCounter(0.1, keeping, basis="count") for _ in range(2)]
    with pytest.raises(IncompatibleError, match=r"how many others came between them.*Figure 2"):
        WindowCounter.union(counters)
    for counter in counters:
        counter.add([1, 2, 5])
    with pytest.raises(IncompatibleError, match=r"how many others came between them.*Figure 2"):
        WindowCounter.union(counters)


def test_unlike_counters_are_not_merged() -> None:
    """Of another accuracy, another keeping, another basis; nor none at all."""
    one = counter_of([1, 2], 0.1, "eh")
    for other in (WindowCounter(0.2, "eh"), WindowCounter(0.1, "dw"), WindowCounter(0.1, "eh", "count")):
        with pytest.raises(IncompatibleError, match="different accuracy or kind"):
            WindowCounter.union([one, other])
    with pytest.raises(WaneError, match="at least one"):
        WindowCounter.union([])


@both
def test_late_arrivals_are_refused_and_change_nothing(keeping: Keeping) -> None:
    """One before the newest is refused by name, also of a merged counter; one at the same time is not late."""
    counter = counter_of([5, 9], 0.1, keeping)
    before = counter.logs
    with pytest.raises(EventError, match="an arrival at 8 comes after one at 9"):
        counter.add([12, 8])
    assert equal(counter.logs, before)
    counter.add([9, 9])
    assert counter.count(1).value == 3
    whole = WindowCounter.union([counter, counter_of([7, 9], 0.1, keeping)])
    with pytest.raises(EventError, match="an arrival at 8 comes after one at 9"):
        whole.add([8])
    with pytest.raises(EventError, match=r"2\^62"):
        counter.add([(1 << 62) + 1])


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, 2.0, math.nan, math.inf])
def test_bad_accuracies_are_refused(epsilon: float) -> None:
    """ε lies strictly between 0 and 1."""
    with pytest.raises(WaneError, match="strictly between 0 and 1"):
        WindowCounter(epsilon)


def test_bad_keepings_and_questions_are_refused() -> None:
    """Unknown ways to keep, windows of nothing, as-of times before the newest arrival."""
    with pytest.raises(WaneError, match=r"keeping is .*must be one of eh, dw"):
        WindowCounter(0.1, "wave")  # type: ignore[arg-type]
    with pytest.raises(WaneError, match="basis"):
        WindowCounter(0.1, basis="rows")  # type: ignore[arg-type]
    counter = counter_of([5, 9], 0.1, "eh")
    for window in (0, -3):
        with pytest.raises(QuestionError, match="at least 1"):
            counter.count(window)
    with pytest.raises(QuestionError, match="newest arrival is at 9"):
        counter.count(3, as_of=8)


@both
def test_nothing_one_tick_and_everything(keeping: Keeping) -> None:
    """An empty counter counts nothing; the window of a tick and that of everything are exact where nothing is cut."""
    counter = WindowCounter(0.1, keeping)
    counter.add([])
    assert counter.total == 0
    assert counter.count(1) == counter.count(10**9, as_of=-(10**12)) == WindowCounter(0.1, keeping).count(7)
    counter.add(np.repeat(np.arange(10) * 1000 - 4000, 777))
    assert counter.count(1).lower <= 777 <= counter.count(1).upper
    assert counter.count(1).value == counter.count(1000).value == pytest.approx(777, rel=0.1)
    everything = counter.count(10**6)
    assert everything.lower == everything.value == everything.upper == counter.total == 7770
    assert counter.count(1 << 70).value == 7770
    assert counter.count(5, as_of=10**9).upper == 0.0
