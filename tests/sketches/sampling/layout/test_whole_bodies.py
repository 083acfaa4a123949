"""Many sketches of epochs made at once have the bytes of sketches made one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Events, Integral, TimeUnit
from sketches.errors import EventError, WaneError
from sketches.events import Kind, Labels
from sketches.family import Sketch
from sketches.hashing import _FIRST_FACTOR, _SECOND_FACTOR, _VALUE_FACTOR, salt
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.layout import whole_bodies

CAPACITY = 16  # the least there is, of any epsilon near 1
TEXTS = ("", "日本", "zebra", "a" * 200)
VALUES: dict[str, Callable[[int], Any]] = {
    "int64": lambda code: np.int64(code * 2**61),
    "int32": lambda code: np.int32(code * 2**29),
    "float": lambda code: code / 3,
    "key": lambda code: TEXTS[code],
}


def one_by_one(events: Events, bounds: list[int], family: type[Sketch] = EpochSample, **settings: Any) -> list[bytes]:
    return [family.build(events.rows(*group), **settings).to_bytes() for group in pairwise(bounds)]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Events, list[int]]:
    """Groups of no, few, just as many and more rows than fit, of few ids: rows repeat, and conflict under one id."""
    sizes = draw(st.lists(st.sampled_from((0, 1, 2, 9, CAPACITY - 1, CAPACITY, CAPACITY + 1, 60)), max_size=6))
    rows = sum(sizes)
    times = draw(st.sampled_from((st.integers(0, 3), st.integers(-(2**62), 2**62))))
    row = st.tuples(st.integers(0, 9), times, st.integers(-2, 3), st.sampled_from((1, 1, 1, 2, 5000, 2**40)))
    table = draw(st.lists(row, min_size=rows, max_size=rows))
    if draw(st.booleans()):
        table.sort(key=lambda row: row[1])
    make = VALUES[draw(st.sampled_from(tuple(VALUES)))]
    heavy = draw(st.sampled_from((0, rows // 2, rows)))  # rows from here on weigh 1
    return Events.of(
        np.array([ident for ident, *_ in table], np.int64),
        [time for _, time, *_ in table],
        np.array([make(code) for _, _, code, _ in table]) if rows else None,
        [weight if at < heavy else 1 for at, (*_, weight) in enumerate(table)] if draw(st.booleans()) else None,
    ), [0, *accumulate(sizes)]


@pytest.mark.slow
@pytest.mark.parametrize("family", [EpochSample, Integral])  # all at once, and one by one as every other family
@given(made=groups(), delta=st.sampled_from((0.05, 0.01)), seed=st.integers(0, 3))
@settings(max_examples=60)
def test_the_bytes_of_building_one_by_one(
    family: type[Sketch], made: tuple[Events, list[int]], delta: float, seed: int
) -> None:
    """Whatever the groups, their kind of values and the number of copies, the bytes are those of single builds."""
    events, bounds = made
    chosen: dict[str, Any] = {"epsilon": 0.9, "delta": delta, "seed": seed}
    if family is Integral:
        chosen |= {"decay": "window:1h", "scale": 1}  # else it refuses the heaviest events
    assert family.payloads(events, np.array(bounds), **chosen) == one_by_one(events, bounds, family, **chosen)


@given(made=groups(), buffer_bytes=st.integers(1, 3000))
@settings(max_examples=25)
def test_a_buffer_too_small_is_emptied_or_grows(made: tuple[Events, list[int]], buffer_bytes: int) -> None:
    """However small the buffer is, every group is written whole."""
    events, bounds = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_bodies, "_BUFFER_BYTES", buffer_bytes)
        written = EpochSample.payloads(events, np.array(bounds), epsilon=0.9)
    assert written == one_by_one(events, bounds, epsilon=0.9)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_many_blocks(values: str, weighted: bool) -> None:
    """Groups of hundreds of rows, whose columns take several packed blocks, and one above the default capacity."""
    rng = np.random.default_rng(3)
    sizes = [1, 127, 128, 129, 130, 700, 3074, 3075]
    rows = sum(sizes)
    events = Events.of(
        rng.integers(0, 2**60, rows),
        rng.integers(0, 3600, rows),
        np.array([VALUES[values](code) for code in rng.integers(0, 3, rows).tolist()]),
        rng.integers(1, 1000, rows) if weighted else None,
    )
    bounds = [0, *accumulate(sizes)]
    written = EpochSample.payloads(events, np.array(bounds), seed=2**64 - 1, unit=TimeUnit(1, 1000))
    assert written == one_by_one(events, bounds, seed=2**64 - 1, unit=TimeUnit(1, 1000))


def test_groups_may_leave_rows_out() -> None:
    """Rows before the first bound and after the last one are in no group; without bounds there are no groups."""
    events = Events.of(range(30), range(30), np.arange(30) / 2)
    assert EpochSample.payloads(events, np.array([4, 9, 20])) == one_by_one(events, [4, 9, 20])
    assert EpochSample.payloads(events, np.array([7])) == EpochSample.payloads(events, np.array([], np.int64)) == []


def test_columns_that_are_views() -> None:
    """Columns that are read-only, or every second entry of others, give the bytes of their copies."""
    ids, times, values, weights = (np.arange(60) * step % 11 + 1 for step in (1, 3, 5, 7))
    ids.flags.writeable = False
    events = Events.of(ids[::2], times[::2], values[::2], weights[::2])
    copied = Events.of(ids[::2].copy(), times[::2].copy(), values[::2].copy(), weights[::2].copy())
    assert EpochSample.payloads(events, np.array([0, 10, 30])) == EpochSample.payloads(copied, np.array([0, 10, 30]))


@pytest.mark.parametrize("values", VALUES)
def test_empty_groups_are_the_empty_sketch(values: str) -> None:
    """A group of no rows has no kind of values: its bytes are those of the sketch of nothing."""
    events = Events.of([1, 2], [1, 1], np.array([VALUES[values](0), VALUES[values](1)]))
    first, one, last = EpochSample.payloads(events, np.array([0, 0, 2, 2]), seed=4)
    assert first == last == EpochSample.build(Events.of([], []), seed=4).to_bytes()
    assert one == EpochSample.build(events, seed=4).to_bytes()


def unmixed(mixed: int) -> int:
    """The number that `hashing.finalise` turns into this one."""
    for factor in (_SECOND_FACTOR, _FIRST_FACTOR):
        mixed ^= mixed >> 33
        mixed = mixed * pow(int(factor), -1, 2**64) % 2**64
    return mixed ^ (mixed >> 33)


def colliding(values: list[int], copy: int) -> list[int]:
    """Ids that make up for what the values add to an event's hash: in that copy, all events of one time share it."""
    return [unmixed((7 - value) * int(_VALUE_FACTOR) % 2**64) ^ salt(0, copy) for value in values]


@pytest.mark.parametrize("copy", [0, 2])
def test_two_events_with_one_hash(copy: int) -> None:
    """Events made to share hash and time in one of the copies both stay, in the order of their values."""
    values = [9, 3, 9, 6]
    ids = np.array(colliding(values, copy), np.uint64)
    events = Events.of(ids, [5] * 4, values)
    (written,) = EpochSample.payloads(events, np.array([0, 4]), delta=0.01)
    sketch = EpochSample.from_bytes(written)
    assert len(set(sketch.copies[copy].hashes.tolist())) == 1
    assert sketch.copies[copy].values.tolist() == [3, 6, 9]
    assert [written] == one_by_one(events, [0, 4], delta=0.01)


def test_a_key_without_a_label() -> None:
    """A key whose text is not among the labels is an error, as it is in a single build."""
    events = Events.of([1, 2, 3], [1, 1, 1], ["x", "y", "z"])
    for left in ([0, 1], [1, 2], []):
        labels = Labels(events.labels.hashes[left], tuple(events.labels.texts[place] for place in left))
        broken = Events(events.ids, events.times, events.values, None, labels, Kind.KEY)
        with pytest.raises(KeyError):
            EpochSample.payloads(broken, np.array([0, 3]))


@pytest.mark.parametrize("bounds", [[-1, 3], [0, 4], [0, 2, 1, 3], [3, 0]])
def test_bounds_outside_the_rows(bounds: list[int]) -> None:
    """Bounds that fall, or lie outside the rows, are refused before anything is read."""
    with pytest.raises(EventError, match="bounds"):
        EpochSample.payloads(Events.of([1, 2, 3], [1, 1, 1]), np.array(bounds))


def test_settings_are_checked() -> None:
    """Settings that `build` refuses are refused, also where there is no group."""
    with pytest.raises(WaneError, match="epsilon"):
        EpochSample.payloads(Events.of([1], [1]), np.array([0]), epsilon=2.0)
