"""Tallies: rows, rejects with examples and shared ids come out alike, however the data was cut and merged."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.executor.tally import (
    EXAMPLE_COLUMNS,
    EXAMPLES,
    Ahead,
    FileTally,
    RejectTally,
    SharedIds,
    Tally,
    example_as_dict,
)
from sketches.fields import FieldColumn, Fields

Rows = list[tuple[int, int, int, int]]


def shared_ids(rows: Rows) -> SharedIds:
    found = SharedIds()
    ids, times, values, weights = (
        (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (np.empty(0, np.int64),) * 4
    )
    found.add(ids.view(np.uint64), times, values, weights)
    return found


def shared(rows: Rows) -> int:
    """How many ids several different events have."""
    events = defaultdict(set)
    for row in rows:
        events[row[0]].add(row)
    return sum(len(found) > 1 for found in events.values())


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 1), st.integers(1, 2)), max_size=40)


@settings(max_examples=100)
@given(EVENTS, st.lists(st.integers(0, 40), max_size=4), st.randoms())
def test_shared_ids_are_counted_exactly(rows: Rows, cuts: list[int], random: Any) -> None:
    """Ids that differ in time, value or weight are counted once each, however the rows come together."""
    whole = shared_ids(rows)
    assert (whole.conflicts, whole.exact) == (shared(rows), True)
    if max(Counter(row[0] for row in set(rows)).values(), default=0) <= 2:
        assert whole.repeats == len(rows) - len(set(rows))
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [shared_ids(rows[start:stop]).to_bytes() for start, stop in pairwise(edges)]
    random.shuffle(parts)
    merged = SharedIds()
    for part in parts:
        merged.merge_bytes(part)
    assert merged.to_bytes() == whole.to_bytes()


def stream(rng: np.random.Generator, ids: int, conflicts: int) -> list[np.ndarray[Any, Any]]:
    """Columns of so many ids, each once or twice the same event; of so many there is another event."""
    names = rng.choice(1 << 40, ids, replace=False).astype(np.uint64)
    again = np.concatenate([names, names[: ids // 3], names[:conflicts]])
    times = np.zeros(len(again), np.int64)
    times[len(again) - conflicts :] = 1
    order = rng.permutation(len(again))
    return [again[order], times[order], np.zeros(len(again)), np.ones(len(again), np.int64)]


@pytest.mark.parametrize(("ids", "conflicts"), [(8192, 0), (8192, 1), (8192, 5000), (8191, 8191)])
def test_few_ids_are_counted_exactly(ids: int, conflicts: int) -> None:
    """Up to 8,192 ids nothing is estimated."""
    found = SharedIds()
    found.add(*stream(np.random.default_rng(ids + conflicts), ids, conflicts))
    assert (found.conflicts, found.exact) == (conflicts, True)
    assert found.repeats == ids // 3


def test_many_ids_are_estimated() -> None:
    """Beyond 8,192 ids the count is off by at most five standard errors of a sample of that size, and says so."""
    for seed, (ids, conflicts) in enumerate([(8193, 4000), (100_000, 50_000), (200_000, 2_000), (100_000, 0)]):
        found = SharedIds()
        found.add(*stream(np.random.default_rng(seed), ids, conflicts))
        share = conflicts / ids
        allowed = 5 * ids * np.sqrt(share * (1 - share) / 8192 + share**2 / 8192)
        assert abs(found.conflicts - conflicts) <= allowed
        assert abs(found.repeats - ids // 3) <= 5 * ids * np.sqrt(2 / 9 / 8192 + 1 / 9 / 8192)
        assert not found.exact


def test_no_repeat_is_seen_where_there_is_none() -> None:
    """Ids that come once each, and ids that different events share, however many they are: no repeats."""
    for ids in (0, 100, 50_000):
        names = np.random.default_rng(ids).choice(1 << 40, ids, replace=False).astype(np.uint64)
        found = SharedIds()
        for moment in (0, 1):
            found.add(names, np.full(ids, moment), np.zeros(ids), np.ones(ids, np.int64))
        assert (found.repeats, found.conflicts > 0) == (0, ids > 0)


def test_repeats_in_different_parts_are_seen() -> None:
    """An event that one worker had and another had again is a repeat once the tallies are merged."""
    parts = [shared_ids([(1, 0, 0, 1), (2, 0, 0, 1)]), shared_ids([(2, 0, 0, 1), (3, 0, 0, 1)])]
    merged = SharedIds()
    for part in parts:
        assert part.repeats == 0
        merged.merge_bytes(part.to_bytes())
    assert merged.repeats == 1


def test_many_ids_merge_in_any_order() -> None:
    """Cut as one likes, the parts merge to the same bytes as all in one piece, and these stay small."""
    rng = np.random.default_rng(9)
    columns = stream(rng, 60_000, 20_000)
    whole = SharedIds()
    whole.add(*columns)
    for pieces in (2, 7, 40):
        edges = np.sort(np.r_[0, rng.integers(0, len(columns[0]), pieces - 1), len(columns[0])])
        parts = []
        for start, stop in pairwise(edges):
            part = SharedIds()
            part.add(*(column[start:stop] for column in columns))
            parts.append(part.to_bytes())
        merged = SharedIds()
        for at in rng.permutation(pieces):
            merged.merge_bytes(parts[at])
        assert merged.to_bytes() == whole.to_bytes()
    back = SharedIds()
    back.merge_bytes(whole.to_bytes())
    assert (back.conflicts, back.exact) == (whole.conflicts, False)
    assert back.to_bytes() == whole.to_bytes()
    assert len(whole.to_bytes()) <= 8 + 3 * 2 * 8192 * 8


def batch(rows: list[tuple[Any, ...]]) -> dict[str, pa.Array]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    types = (pa.string(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.int64())
    return {name: pa.array(column, kind) for name, column, kind in zip(EXAMPLE_COLUMNS, columns, types, strict=True)}


def tally_of(rows: list[tuple[Any, ...]], fault: list[int]) -> Tally:
    found = Tally()
    found.reject(batch(rows), np.array(fault, np.uint8), ("first", "second"))
    return found


def told(tally: Tally) -> dict[str, tuple[int, list[Any]]]:
    return {reason: (found.rows, found.examples) for reason, found in tally.rejects.items()}


TEXT = st.sampled_from(["", "a", "b", "ä", "x" * 199 + "1", "x" * 200 + "1", "x" * 200 + "2", None])
REJECTED = st.lists(
    st.tuples(
        st.tuples(st.sampled_from("fg"), st.none() | st.integers(0, 3), TEXT, TEXT, st.just(1.5), st.integers(-1, 0)),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(REJECTED, st.lists(st.integers(0, 60), max_size=4), st.randoms())
def test_examples_do_not_depend_on_the_batches(
    rows: list[tuple[tuple[Any, ...], int]], cuts: list[int], random: Any
) -> None:
    """The examples of a reason are the first different ones in order, whichever way batches and merges went."""
    whole = tally_of([row for row, _ in rows], [number for _, number in rows])
    for number, reason in ((1, "first"), (2, "second")):
        texts = [[None if item is None else str(item)[:200] for item in row] for row, one in rows if one == number]
        distinct = sorted({tuple((text is None, text or "") for text in row) for row in texts})
        if texts:
            assert told(whole)[reason] == (len(texts), distinct[:EXAMPLES])
        else:
            assert reason not in whole.rejects
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [
        tally_of([row for row, _ in rows[start:stop]], [number for _, number in rows[start:stop]]).to_bytes()
        for start, stop in pairwise(edges)
    ]
    random.shuffle(parts)
    merged = Tally()
    for part in parts:
        merged.merge_bytes(part)
    assert told(merged) == told(whole)


def test_equal_rows_are_one_example() -> None:
    """A thousand times the same fault does not crowd out the others of its batch."""
    same = [("f", 1, "s", "i", 1.5, 0)] * 1000
    others = [("f", 1, "s", "z" * 300 + str(number), 1.5, -number) for number in range(5)]
    found = tally_of([*same, *others], [1] * 1005).rejects["first"]
    assert found.rows == 1005
    assert [example_as_dict(one)["weight"] for one in found.examples] == ["0", "-1", "-2", "-3", "-4", "0"]


def test_examples_show_rows_as_they_were_found() -> None:
    """Missing stays missing, bytes are shown as digits, times in UTC and broken text with a sign in its place."""
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    columns = {
        "file": pa.array(["f"]).dictionary_encode(),
        "time": pa.array([0], pa.timestamp("s", "No/Where")),
        "source": broken,
        "id": pa.array([b"\x01\xff"]),
        "value": pa.nulls(1),
        "weight": pa.array(["-1"], pa.string_view()),
    }
    tally = Tally()
    tally.reject(columns, np.array([1], np.uint8), ("because",))
    (example,) = tally.rejects["because"].examples
    assert example_as_dict(example) == {
        "file": "f",
        "time": "1970-01-01 00:00:00Z",
        "source": "a\ufffd",
        "id": "01ff",
        "value": None,
        "weight": "-1",
    }
    json.dumps(example_as_dict(example)).encode()


FILES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.none() | st.tuples(st.integers(-9, 0), st.integers(0, 9))),
    max_size=12,
)


@given(FILES, st.randoms())
def test_files_add_up_in_any_order(files: list[tuple[str, int, tuple[int, int] | None]], random: Any) -> None:
    """Rows add up and times reach from the oldest to the newest; parts without events do not touch them."""
    parts = []
    for name, rows, times in files:
        part = Tally()
        part.files[name] = FileTally()
        part.files[name].add(rows, *(times or (None, None)))
        parts.append(part.to_bytes())
    random.shuffle(parts)
    merged = Tally()
    for data in parts:
        merged.merge_bytes(data)
    assert merged.rows == sum(rows for _, rows, _ in files)
    assert set(merged.files) == {name for name, _, _ in files}
    for name, found in merged.files.items():
        spans = [times for one, _, times in files if one == name and times]
        assert found.oldest == min((oldest for oldest, _ in spans), default=None)
        assert found.newest == max((newest for _, newest in spans), default=None)
        assert found.rows == sum(rows for one, rows, _ in files if one == name)


def test_a_tally_survives_the_wire() -> None:
    """All of it comes back from its bytes, and merging with nothing changes nothing."""
    tally = tally_of([("f", None, "ä", "\0", 1.5, -1)], [1])
    tally.files["f ü"] = FileTally(3, -5, 1 << 60)
    tally.shared_ids.add(*stream(np.random.default_rng(2), 100, 10))
    tally.ahead.add(4, 17)
    back = Tally()
    back.merge_bytes(tally.to_bytes())
    back.merge_bytes(Tally().to_bytes())
    assert back.files == tally.files
    assert back.rejects == tally.rejects == {"first": RejectTally(1, tally.rejects["first"].examples, {"f": 1})}
    assert back.shared_ids.to_bytes() == tally.shared_ids.to_bytes()
    assert (back.shared_ids.conflicts, back.shared_ids.repeats) == (10, 33)
    assert back.ahead == Ahead(4, 17)
    assert back.to_bytes() == tally.to_bytes()


def test_the_first_row_of_all_is_the_earliest_of_the_parts() -> None:
    """A part without rows has none."""
    merged = Tally()
    for moment, expected in ((None, None), (7.5, 7.5), (None, 7.5), (9.0, 7.5), (3.25, 3.25)):
        merged.merge_bytes(Tally(first_row=moment).to_bytes())
        assert merged.first_row == expected


FIELDS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 2)), max_size=40)


@settings(max_examples=100)
@given(FIELDS, st.lists(st.integers(0, 40), max_size=4), st.randoms())
def test_events_whose_copies_differ_in_a_field_are_counted(
    rows: list[tuple[int, int, int]], cuts: list[int], random: Any
) -> None:
    """Exactly, however the rows come together; a field makes no event of its own, and no conflict of ids."""
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = []
    for start, stop in pairwise(edges):
        part = SharedIds()
        ids, times, status = (np.array(column, np.int64) for column in zip(*rows[start:stop], strict=True))
        ones = np.ones(len(ids), np.int64)
        part.add(ids.view(np.uint64), times, ones, ones, Fields.of(len(ids), {"status": FieldColumn.of(status)}))
        parts.append(part.to_bytes())
    random.shuffle(parts)
    merged = SharedIds()
    for data in parts:
        merged.merge_bytes(data)
    statuses = defaultdict(set)
    for identity, time, status in rows:
        statuses[identity, time].add(status)
    assert merged.field_conflicts == sum(len(found) > 1 for found in statuses.values())
    assert merged.conflicts == shared([(identity, time, 1, 1) for identity, time, _ in rows])
    assert merged.repeats == len(rows) - len(statuses)


def test_many_events_that_differ_in_a_field_are_estimated() -> None:
    """Beyond 8,192 ids from so many of them: a tenth of a million is found to within a tenth of itself."""
    found = SharedIds()
    ids = np.tile(np.arange(100_000, dtype=np.uint64), 2)
    status = np.where(np.arange(200_000) < 110_000, 0, 1) * (ids < 60_000)
    ones = np.ones(len(ids), np.int64)
    found.add(ids, ones, ones, ones, Fields.of(len(ids), {"status": FieldColumn.of(status)}))
    assert not found.exact
    assert found.field_conflicts == pytest.approx(50_000, rel=0.1)


def test_what_fields_lack_adds_up() -> None:
    """Rows by field and reason, of all parts."""
    whole = Tally()
    for rows in (2, 3):
        part = Tally()
        part.miss_fields({"status": {"it is too long": rows}, "path": {"it is not a number": 1}})
        whole.merge_bytes(part.to_bytes())
    assert whole.field_faults == {"status": {"it is too long": 5}, "path": {"it is not a number": 2}}
