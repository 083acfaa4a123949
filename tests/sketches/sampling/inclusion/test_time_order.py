"""The order of rows by (time, hash) is that of a stable sort on both, whatever the order before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches.arrays import Ints, Words
from sketches.sampling.inclusion.time_order import drop_repeats, time_order

LARGEST = 2**64 - 1
LIMITS = np.iinfo(np.int64)


def expected(times: Ints, hashes: Words) -> list[int]:
    return sorted(range(len(times)), key=lambda row: (int(times[row]), int(hashes[row])))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Ints, Words]:
    """Sorted parts one behind the other. Parts of one row are in no order; a single part is in order throughout.

    Parts are sorted by time, or by time and hash. Few times and few hashes make ties; many make none.
    """
    times = draw(st.sampled_from((st.integers(0, 2), st.integers(-300, 300), st.integers(LIMITS.min, LIMITS.max))))
    hashes = draw(st.sampled_from((st.integers(0, 2), st.integers(LARGEST - 500, LARGEST), st.integers(0, LARGEST))))
    by_both = draw(st.booleans())
    rows: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 6))):
        part = draw(st.lists(st.tuples(times, hashes), max_size=draw(st.sampled_from((1, 40, 120)))))
        rows += sorted(part) if by_both else sorted(part, key=lambda row: row[0])
    return np.array([time for time, _ in rows], np.int64), np.array([code for _, code in rows], np.uint64)


@given(tables())
@settings(max_examples=300)
def test_the_order_is_that_of_a_stable_sort(table: tuple[Ints, Words]) -> None:
    """Rows come by time, then by hash, equal ones in the order they had; the columns stay as they are."""
    times, hashes = table
    before = times.copy(), hashes.copy()
    assert time_order(times, hashes).tolist() == expected(times, hashes)
    assert (times == before[0]).all()
    assert (hashes == before[1]).all()


def random_words(rows: int) -> Words:
    return np.random.default_rng(rows).integers(0, LARGEST, rows, dtype=np.uint64)


ARRIVALS: dict[str, Callable[[int], Ints]] = {
    "random": lambda rows: np.random.default_rng(1).integers(0, 3600, rows),
    "sorted": lambda rows: np.arange(rows) // 3,
    "reversed": lambda rows: np.arange(rows)[::-1].copy(),
    "one second": lambda rows: np.zeros(rows, np.int64),
    "24 parts": lambda rows: np.arange(rows) % (rows // 24),
    "saw of two": lambda rows: np.arange(rows) ^ 1,
    "saw against the grain": lambda rows: np.arange(rows) % 30 - np.arange(rows),
    "late": lambda rows: np.arange(rows) - np.random.default_rng(2).exponential(50, rows).astype(np.int64),
    "one long, many short": lambda rows: np.where(
        np.arange(rows) < rows // 2, np.arange(rows), np.arange(rows)[::-1] % 100
    ),
}


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_no_arrival_takes_quadratic_time(arrival: str) -> None:
    """200,000 rows in orders that are hard for some sorts; a quadratic sort would take minutes."""
    times = ARRIVALS[arrival](200_000)
    hashes = random_words(len(times))
    assert (time_order(times, hashes) == np.lexsort((hashes, times))).all()


def test_the_whole_range_of_times_and_hashes() -> None:
    """Times at both ends of int64 and hashes above 2^63 are ordered as the numbers they are."""
    times = np.array([LIMITS.max, 0, LIMITS.min, LIMITS.max, -1, LIMITS.min], np.int64)
    hashes = np.array([LARGEST, 5, 1 << 63, 0, 5, (1 << 63) - 1], np.uint64)
    assert time_order(times, hashes).tolist() == [5, 2, 4, 1, 3, 0]


def test_nothing_and_one_row() -> None:
    """No rows and one row are in order."""
    assert time_order(np.empty(0, np.int64), np.empty(0, np.uint64)).tolist() == []
    assert time_order(np.array([7]), np.array([3], np.uint64)).tolist() == [0]


@pytest.mark.parametrize(
    ("values", "weights", "left", "conflict"),
    [
        ([1, 1, 1, 1], [2, 2, 2, 2], [0, 3], False),
        ([1, 1, 1, 1], [], [0, 3], False),
        ([1, 2, 2, 1], [2, 2, 2, 2], [0, 1, 3], True),
        ([1, 1, 1, 1], [2, 2, 3, 3], [0, 2, 3], True),
        ([1, 1, 1, 2], [2, 2, 2, 3], [0, 3], False),
    ],
)
def test_repeats_are_dropped(values: list[int], weights: list[int], left: list[int], conflict: bool) -> None:
    """A row that repeats the one before is dropped; one that only shares its time and hash stays and is reported."""
    times, hashes = np.array([4, 4, 4, 4]), np.array([8, 8, 8, 9], np.uint64)
    order = np.arange(4)
    kept, conflicting = drop_repeats(order, times, hashes, np.array(values), np.array(weights, np.int64))
    assert order[:kept].tolist() == left
    assert conflicting == conflict
