"""Which blocks of time there are: against the definition, tick by tick, and against the regions of the paper."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np
import pytest

from sketches.arrays import Ints
from sketches.blocks.grid import Blocks, Grid
from sketches.blocks.reach import NEVER, regions
from sketches.decay import Decay, parse_decay
from sketches.units import SECOND, TimeUnit

DAY: Final = 86_400
HISTORY: Final = 3650.0 * DAY
SLOW: Final = (
    "poly:alpha=0.5,unit=1m",
    "poly:alpha=1,unit=1m",
    "poly:alpha=1.5,unit=1h",
    "poly:alpha=3,unit=1h",
    "log:unit=1m",
    "none",
)
OTHERS: Final = (
    "exp:half_life=10m",
    "table:0=1,5m=0.9,10m=0.4,1h=0.3",
    "expr:0.5/(1+age/60)+0.5/(1+age/3600)",
    "expr:0.5+0.5/(1+(age/60)^2)",
    "power:alpha=1,unit=5m",
)


def grid(spec: str, span: int = 3600, error: float = 0.0973, unit: TimeUnit = SECOND, history: float = 7200.0) -> Grid:
    return Grid(parse_decay(spec), unit, span, error, history)


def block_at(span: int, time: int, height: int) -> tuple[int, int, int]:
    """The dyadic stretch of a height that holds a time: its first and last time, and how long such stretches are."""
    top = (span - 1).bit_length()
    interval = time // span
    if height <= top:
        first = interval * span + ((time - interval * span) >> height << height)
        return first, min(first + (1 << height) - 1, interval * span + span - 1), min(1 << height, span)
    more = 1 << (height - top)
    first = interval // more * more * span
    return first, first + more * span - 1, more * span


def may_stand(decay: Decay, error: float, age: int, length: int, until: int) -> bool:
    """By the sentence: from this age of its newest time on, the newest never weighs more than 1 + error the oldest."""
    ages = np.arange(age, max(until, age + 1))
    newer, older = decay(ages.astype(float)), decay((ages + length - 1).astype(float))
    return bool((newer <= (1.0 + error) * older).all())


def longest(decay: Decay, span: int, error: float, clock: int, time: int, until: int = 0) -> tuple[int, int]:
    """The longest stretch that may stand; whether it may, tried from a single time up."""
    found = (time, time)
    for height in range(1, 62):
        first, last, length = block_at(span, time, height)
        if length > 1 << 61 or not may_stand(decay, error, max(clock - last, 0), length, until):
            break
        found = (first, last)
    return found


def walk(grid: Grid, clock: int, oldest: int) -> list[tuple[int, int]]:
    """All blocks from the clock back to the oldest time."""
    found, time = [], clock
    while time >= oldest:
        block = grid.holding(np.array([time], np.int64), clock)
        found.append((int(block.first[0]), int(grid.last(block)[0])))
        time = found[-1][0] - 1
    return found


def paper_regions(decay: Decay, error: float, until: int) -> int:
    """b_0 = 0, b_i = max{x : (1 + error)·f(x - 1) ≥ f(b_(i-1))}: how many regions the ages up to `until` fall into."""
    edge, count = 0, 0
    while edge <= until:
        low, high, start = edge, 1 << 62, float(decay(float(edge)))
        while high - low > 1:
            middle = (low + high) // 2
            if (1.0 + error) * float(decay(float(middle - 1))) >= start:
                low = middle
            else:
                high = middle
        edge, count = low, count + 1
    return count


@pytest.mark.parametrize("spec", [*SLOW, OTHERS[0]])
@pytest.mark.parametrize(("span", "clock"), [(3600, 1_000_003), (7, 50), (1000, -999), (4096, 1 << 40), (1, 12_345)])
def test_the_blocks_are_the_longest_stretches_that_may_stand(spec: str, span: int, clock: int) -> None:
    """Closed form and tick by tick, at any clock and length of an epoch; they cover all time and do not overlap."""
    made = grid(spec, span)
    times = np.unique(clock - np.concatenate([np.arange(300), np.geomspace(1, 40_000, 60).astype(np.int64)]))
    blocks = made.holding(times, clock)
    for time, first, last in zip(times.tolist(), blocks.first.tolist(), made.last(blocks).tolist(), strict=True):
        assert (first, last) == longest(made.decay, span, made.error, clock, time)
    found = walk(made, clock, clock - 5000)
    assert all(newer[0] == older[1] + 1 for newer, older in pairwise(found))


@pytest.mark.parametrize("spec", OTHERS[1:])
def test_other_decays_are_judged_by_their_worst_later_age(spec: str) -> None:
    """A block may stand by brute force over all later ages, and twice or four times as long a one may not."""
    made, until = grid(spec, 600, error=0.2), 7200
    lengths = made.lengths
    for height, age in enumerate(made.reach.tolist()):
        length = int(lengths[height])
        if length > 4096:
            break
        if age < NEVER:
            assert may_stand(made.decay, 0.2, age, length, until)
        earlier = (age if age < NEVER else until) * 9 // 10 - 2
        if length > 1 and earlier > 0:
            assert not may_stand(made.decay, 0.2, earlier, length, until), "a block may stand much sooner"


@pytest.mark.parametrize("spec", SLOW)
@pytest.mark.parametrize("days", [1, 10, 100, 1000])
def test_there_are_at_most_two_blocks_a_region(spec: str, days: int) -> None:
    """After 1 to 1,000 days of hourly commits; the number of regions is known without counting them."""
    for error, clock in ((0.05, 1_700_000_000), (0.2, 1_699_999_999)):
        made = grid(spec, error=error, history=HISTORY)
        count = len(walk(made, clock, clock - days * DAY))
        most = paper_regions(made.decay, error, days * DAY)
        assert count <= 2 * most
        assert most <= math.ceil(regions(made.decay, error, days * DAY)) + 1


@pytest.mark.parametrize("spec", ["poly:alpha=1,unit=1m", "log:unit=1s", OTHERS[1], OTHERS[2]])
def test_blocks_only_grow_to_those_of_the_later_clock(spec: str) -> None:
    """However a clock moves on, the blocks of earlier clocks grow to those that the last clock has by itself."""
    rng = np.random.default_rng(5)
    made = grid(spec, 900)
    times = np.sort(rng.integers(-40_000, 40_000, 400))
    clocks = np.sort(rng.integers(40_000, 60_000, 12)).tolist()
    held = made.holding(times, 40_000)
    for clock in clocks:
        held = made.grown(held, clock)
        straight = made.holding(times, clock)
        assert np.array_equal(held.first, straight.first)
        assert np.array_equal(held.height, straight.height)
        assert made.allowed(held, clock).all()


def test_a_block_of_another_computer_takes_in_those_that_it_holds() -> None:
    """Where the last digit of a weight made one site merge sooner, the longer block stays and the rest joins it."""
    made = grid("poly:alpha=1,unit=1m", 1024)
    clock = 100_000
    fine = made.holding(np.arange(clock - 1023, clock, dtype=np.int64), clock)
    one = Blocks(np.array([clock // 1024 * 1024 - 1024], np.int64), np.array([10], np.uint8))
    mixed = Blocks(np.append(fine.first, one.first), np.append(fine.height, one.height))
    grown = made.grown(mixed, clock)
    last = made.last(grown)
    order = np.lexsort((last, grown.first))
    stretches = np.unique(np.column_stack([grown.first, last])[order], axis=0)
    assert (stretches[1:, 0] > stretches[:-1, 1]).all(), "no two overlap"
    assert (int(one.first[0]), int(one.first[0]) + 1023) in {tuple(row) for row in stretches.tolist()}


def pair(rng: np.random.Generator) -> tuple[str, str]:
    """A slow decay for the blocks, and any decay to ask for."""
    built = [f"poly:alpha={rng.uniform(0.2, 3):.3f},unit={rng.integers(1, 600)}s", f"log:unit={rng.integers(1, 600)}s"]
    other = [
        *built,
        f"poly:alpha={rng.uniform(0.2, 4):.3f},unit={rng.integers(1, 600)}s",
        f"exp:half_life={rng.integers(600, 40_000)}s",
        f"table:0=1,{rng.integers(60, 3000)}s={rng.uniform(0.3, 1):.3f},2h=0.2",
        f"superexp:beta=2,scale={rng.integers(4000, 9000)}s",
    ]
    return str(rng.choice(built)), str(rng.choice(other))


def test_the_quotient_holds_for_two_hundred_pairs_of_decays() -> None:
    """Lemma 1: under any decay the newest time of a block weighs at most so many times what the oldest one does.

    Where the other decay is one that the blocks were made for, or a slower one, that is at most 1 + error.
    """
    rng = np.random.default_rng(11)
    for trial in range(200):
        spec, asked = pair(rng)
        made, other = grid(spec, int(rng.integers(50, 5000)), float(rng.uniform(0.02, 0.4))), parse_decay(asked)
        clock, age = int(rng.integers(0, 1 << 30)), int(rng.integers(100, 7000))
        most = made.quotient(other, age)
        later = clock + int(rng.integers(0, 200))
        ends: Ints = np.array(walk(made, clock, clock - age), np.int64)
        ends = ends[(ends[:, 0] >= clock - age)]
        newest, oldest = np.minimum(ends[:, 1], clock), ends[:, 0]
        ratios = other((later - newest).astype(float)) / other((later - oldest).astype(float))
        assert (ratios <= most * (1 + 1e-9)).all(), (spec, asked)
        if asked == spec:
            assert most <= 1.0 + made.error
        for first, length in zip(made.reach.tolist(), made.lengths.tolist(), strict=True):
            if first > age or trial % 5:
                break
            ages = np.arange(first, 7000, dtype=float)
            assert (other(ages) / other(ages + length - 1)).max() <= most * (1 + 1e-12), (spec, asked, length)


def test_the_units_of_time_do_not_matter() -> None:
    """Blocks of milliseconds are those of seconds, a thousand times as long, where both are dyadic."""
    seconds, parts = grid("poly:alpha=1,unit=1m", 4096), grid("poly:alpha=1,unit=1m", 4096, unit=TimeUnit(1, 1024))
    fine = Grid(parts.decay, parts.unit, 4096 * 1024, parts.error, parts.history)
    clock = 1 << 22
    coarse = seconds.last(seconds.holding(np.array([clock - 3000], np.int64), clock)) - (clock - 3000)
    found = fine.holding(np.array([(clock - 3000) * 1024], np.int64), clock * 1024 + 1023)
    assert abs(int(fine.last(found)[0]) / 1024 - (clock - 3000) - int(coarse[0])) <= 1.0


def test_how_many_regions_a_decay_takes() -> None:
    """The number says which decays can be had: exponential decay λ·T/ln(1 + error), a window endlessly many."""
    month = 30.0 * DAY
    assert regions(parse_decay("exp:half_life=1d"), 0.05, month) == pytest.approx(30 * math.log(2) / math.log(1.05))
    assert regions(parse_decay("poly:alpha=2,unit=1m"), 0.05, month) == pytest.approx(
        2 * math.log(1 + month / 60) / math.log(1.05)
    )
    assert regions(parse_decay("none"), 0.05, month) == 0.0
    assert math.isinf(regions(parse_decay("window:1h"), 0.05, month))
    assert regions(parse_decay("table:0=1,1d=0.99"), 0.05, month) < 1.0, "a floor is one region without end"
