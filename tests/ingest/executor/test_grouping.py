"""Rows put together by source and epoch, against a dictionary filled row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.executor import grouping
from ingest.executor.grouping import Groups, group, put
from sketches.event_rules import MAX_TIME


def grouped(sources: list[int], times: list[int], length: int) -> Groups:
    return group(np.array(sources, np.int32), np.array(times, np.int64), length)


def assert_grouped(sources: list[int], times: list[int], length: int) -> None:
    wanted: dict[tuple[int, int], list[int]] = {}
    for row, (source, time) in enumerate(zip(sources, times, strict=True)):
        wanted.setdefault((source, time // length), []).append(row)
    found = grouped(sources, times, length)
    assert len(found.bounds) == len(wanted) + 1
    assert (found.bounds[0], found.bounds[-1]) == (0, len(times))
    keys = list(zip(found.sources.tolist(), found.epochs.tolist(), strict=True))
    assert keys == sorted(wanted)
    rows = put(np.arange(len(times)), found.place)
    for number, key in enumerate(keys):
        assert rows[found.bounds[number] : found.bounds[number + 1]].tolist() == wanted[key]


@pytest.fixture(params=["counting", "sorting"])
def branch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "sorting":
        monkeypatch.setattr(grouping, "_MOST_CELLS", 0)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(-50, 50) | st.integers(-5000, 5000)), min_size=1, max_size=60)


@pytest.mark.usefixtures("branch")
def test_groups_are_those_of_a_dictionary() -> None:
    """Both ways give the groups in the order of source and epoch, and rows inside them in their own order."""

    @settings(max_examples=100)
    @given(ROWS, st.integers(1, 700))
    def agree(rows: list[tuple[int, int]], length: int) -> None:
        assert_grouped([source for source, _ in rows], [time for _, time in rows], length)

    agree()


@pytest.mark.usefixtures("branch")
def test_epochs_before_1970_are_whole() -> None:
    """Times below zero are rounded down to their epoch, so none is twice as long."""
    assert grouped([0] * 4, [-11, -10, -1, 0], 10).epochs.tolist() == [-2, -1, 0]
    assert_grouped([1, 0, 1, 0], [-1, -10, 0, -11], 10)


@pytest.mark.usefixtures("branch")
def test_one_row_is_a_group() -> None:
    """A single row, also of a source that is not the first, and at the ends of the clock."""
    for time in (-MAX_TIME, -1, 0, MAX_TIME):
        assert_grouped([3], [time], 3600)


@pytest.mark.usefixtures("branch")
def test_no_rows_are_no_groups() -> None:
    """Nothing gives nothing, with bounds that still begin and end."""
    found = grouped([], [], 3600)
    assert (len(found.place), found.bounds.tolist()) == (0, [0])
    assert (len(found.sources), len(found.epochs)) == (0, 0)


@pytest.mark.usefixtures("branch")
@pytest.mark.parametrize("length", [1 << 40, (1 << 62) - 1, 1 << 62, 3_600_000_000_000])
def test_the_whole_clock_fits(length: int) -> None:
    """Rows at both ends of the clock lie 2^63 apart, which 64 bits do not hold; their groups are right all the same."""
    assert_grouped([0, 1, 0, 1, 0], [MAX_TIME, -MAX_TIME, -MAX_TIME, MAX_TIME, 0], length)


def test_both_ways_agree_on_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting and sorting give the same places, bounds and names."""
    rng = np.random.default_rng(1)
    sources, times = rng.integers(0, 300, 50_000).astype(np.int32), rng.integers(-(10**6), 10**6, 50_000)
    counted = group(sources, times, 3600)
    monkeypatch.setattr(grouping, "_MOST_CELLS", 0)
    in_order = group(sources, times, 3600)
    for name in ("place", "bounds", "sources", "epochs"):
        one, other = getattr(counted, name), getattr(in_order, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_many_cells_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows far apart do not take memory for every epoch between them."""
    monkeypatch.setattr(grouping, "_counted", lambda *_: pytest.fail("counted"))
    assert_grouped([0, 1], [0, 10**12], 1)
