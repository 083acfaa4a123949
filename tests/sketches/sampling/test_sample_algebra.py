"""Lemmas 3.1 and 3.2 to the byte: a sample is a function of the set of events, however they came and were merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from sketches import Events, Sample
from tests.support.streams import HOUR, STREAMS, Stream

DataSet = Callable[[str], Path]

BYTES_PER_EVENT = 12  # on unit-weight integer streams, 1 h epochs, 1 s resolution
KINDS = {
    "integers": lambda code: code,
    "floats": lambda code: code / 3,
    "keys": lambda code: ("", "日本", "zebra")[code],
}


def sketch_of(stream: Stream, **settings: float) -> Sample:
    return Sample.build(
        Events.of(stream.ids, stream.t, stream.v, stream.w), **{"epsilon": 0.9, "detail": 1, **settings}
    )


def merged(sketches: Sequence[Sample], rng: np.random.Generator) -> Sample:
    """Merge two random ones until one is left: over all draws, every binary tree."""
    left = list(sketches)
    while len(left) > 1:
        one = left.pop(int(rng.integers(len(left))))
        other = left.pop(int(rng.integers(len(left))))
        left.append(one.merge(other))
    return left[0]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Up to 150 rows over few ids, times, values and weights: levels overflow, cuts tie, rows repeat and conflict."""
    spread = draw(st.sampled_from((2, 20, 2000)))
    row = st.tuples(
        st.integers(0, 80), st.integers(-spread, spread), st.integers(0, 2), st.sampled_from((1, 1, 3, 5000))
    )
    rows = draw(st.lists(row, max_size=150))
    kind = KINDS[draw(st.sampled_from(tuple(KINDS)))]
    values = [kind(code) for _, _, code, _ in rows]
    unit = draw(st.booleans())
    return Stream.of(
        "drawn",
        [ident for ident, *_ in rows],
        [t for _, t, _, _ in rows],
        values if rows else np.zeros(0, np.int64),
        [1 if unit else w for *_, w in rows],
    )


@given(streams(), st.integers(0, 2**32), st.sampled_from((0.05, 0.001)))
@settings(max_examples=120)
def test_order_and_repeats_leave_no_trace(stream: Stream, seed: int, delta: float) -> None:
    """Lemma 3.1: any order of the rows, and any number of repeats of each, give the same bytes."""
    data = sketch_of(stream, delta=delta).to_bytes()
    assert sketch_of(stream.shuffled(seed), delta=delta).to_bytes() == data
    assert sketch_of(stream.duplicated(seed, 5), delta=delta).to_bytes() == data
    assert sketch_of(stream.distinct(), delta=delta).to_bytes() == data


@pytest.mark.slow
@given(streams(), st.integers(1, 7), st.integers(0, 2**32), st.sampled_from((0.05, 0.001)))
@settings(max_examples=120)
def test_any_merge_tree_gives_the_same_bytes(stream: Stream, parts: int, seed: int, delta: float) -> None:
    """Lemma 3.2: parts that share events, merged in any tree and order, give the bytes of one build."""
    rng = np.random.default_rng(seed)
    pieces = [sketch_of(part, delta=delta) for part in stream.duplicated(seed, 3).split(parts, seed)]
    assert merged(pieces, rng).to_bytes() == sketch_of(stream, delta=delta).to_bytes()


@given(streams(), st.integers(1, 7), st.integers(0, 2**32))
@settings(max_examples=60)
def test_union_of_many_is_merging_one_by_one(stream: Stream, parts: int, seed: int) -> None:
    """One union of all parts gives the bytes of merging them one after the other."""
    pieces = [sketch_of(part) for part in stream.split(parts, seed)]
    assert Sample.union(pieces).to_bytes() == merged(pieces, np.random.default_rng(seed)).to_bytes()


def test_conflicting_rows_are_separate_events() -> None:
    """Rows that share an id but differ in time, value or weight all count; equal ones count once."""
    rows = Events.of([7, 7, 7, 7, 7], [1, 2, 2, 2, 2], [5, 5, 6, 6, 6], [1, 1, 1, 2, 2])
    assert Sample.build(rows).kept == 4


def columns_of(path: Path, *names: str) -> list[NDArray[np.int64]]:
    table = pq.read_table(path, columns=list(names))
    return [table[name].to_numpy() for name in names]


@pytest.mark.parametrize("value", ["value", "key"])
def test_real_repeats_leave_no_trace(data: DataSet, value: str) -> None:
    """zeek_wrccdc: each id once, and each as often as it was captured (equal to its first copy), give equal bytes."""
    ids, times, values = columns_of(data("zeek_wrccdc"), "id", "ts", value)
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    assert len(ids) - len(first) == 29_015
    once = np.sort(first)
    often = first[place]
    assert (ids[often] == ids).all()
    for epsilon in (0.05, 0.2):
        alone = Sample.build(Events.of(ids[once], times[once], values[once]), epsilon=epsilon, detail=1)
        repeated = Sample.build(Events.of(ids[often], times[often], values[often]), epsilon=epsilon, detail=1)
        assert alone.kept < len(once), "events were discarded, else nothing is shown"
        assert alone.to_bytes() == repeated.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_real_splits_merge_in_any_tree(data: DataSet, weighted: bool) -> None:
    """azure_vm_noise: three random splits of two million of its rows, each merged in another tree, give equal bytes."""
    names = ["id", "ts", "value", *(["weight"] if weighted else [])]
    table = pq.ParquetFile(data("azure_vm_noise")).read_row_groups([0, 1], names)
    columns = [table[name].to_numpy() for name in names]
    assert len(table) > 2_000_000
    expected = Sample.build(Events.of(*columns)).to_bytes()
    for parts, seed in ((2, 1), (5, 2), (9, 3)):
        rng = np.random.default_rng(seed)
        part = rng.integers(0, parts, len(columns[0]), dtype=np.uint8)
        pieces = [Sample.build(Events.of(*(column[part == number] for column in columns))) for number in range(parts)]
        assert merged(pieces, rng).to_bytes() == expected


@pytest.mark.parametrize("name", ["uniform", "sorted", "reversed", "zipf", "bursty", "late", "conflicts"])
@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_bytes_per_event(name: str, epsilon: float) -> None:
    """An hour of unit-weight events with whole-second times takes at most 12 bytes for each one kept."""
    stream = STREAMS[name](200_000, 1)
    sketch = Sample.build(Events.of(stream.ids, stream.t, stream.v), epsilon=epsilon, detail=1)
    assert sketch.nbytes / sketch.kept <= BYTES_PER_EVENT


@pytest.mark.parametrize("name", ["zeek_wrccdc", "cran_downloads", "bikeshare14"])
def test_bytes_per_event_of_real_hours(data: DataSet, name: str) -> None:
    """The fullest hours of real streams take at most 12 bytes an event, headers included."""
    ids, times, values = columns_of(data(name), "id", "ts", "value")
    hours, counts = np.unique(times // HOUR, return_counts=True)
    fullest = hours[np.argsort(-counts)[:20]]
    sizes = []
    for hour in fullest:
        rows = times // HOUR == hour
        sketch = Sample.build(Events.of(ids[rows], times[rows], values[rows]), detail=1)
        sizes.append(sketch.nbytes / sketch.kept)
    assert max(sizes) <= BYTES_PER_EVENT


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.05), (0.1, 0.2), (0.2, 0.05), (0.2, 0.001)])
@pytest.mark.parametrize("events", [100, 20_000, 500_000])
def test_as_many_are_kept_as_announced(events: int, epsilon: float, delta: float) -> None:
    """The formula of docs/sample.md is right to within a tenth on a steady stream."""
    times = np.arange(events)
    kept = Sample.build(Events.of(times, times), epsilon=epsilon, delta=delta, seed=5, detail=1).kept
    capacity = 2.5 * (norm.isf(delta / 2) / epsilon) ** 2
    assert kept == pytest.approx(min(events, capacity * (1 + np.log2(max(events / capacity, 1)) / 2)), rel=0.1)
