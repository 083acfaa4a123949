"""Merged `ecm` sketches are as narrow and as small as those of one batch, however many parts they are made of."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from sketches import Ecm, Events, Question
from sketches.arrays import Floats, Ints
from sketches.countmin.window_logs import Logs, room
from sketches.errors import CorruptError

DAY: Final = 86_400
ROUNDING: Final = 1e-9
GOLDEN: Final = Path(__file__).resolve().parent.parent.parent / "golden"
LABELS: Final = ("", "naïve café", "日本語", "👩‍🔬 lab", "tab\tand\nnewline", "/index.html")  # of its keys
SPREADS: Final = ("in order", "late", "at random")
DECAYS: Final = ("none", "window:1h", "window:7h", "exp:half_life=2h", "poly:alpha=1.5,unit=10m", "last:500")


def rows_of(seed: int, n: int, *, weighted: bool = False) -> tuple[Ints, Ints, Ints]:
    """Sorted times of a day, skewed keys and weights."""
    rng = np.random.default_rng([seed, n])
    weights = np.where(rng.random(n) < 0.1, rng.integers(2, 300, n), 1) if weighted else np.ones(n, np.int64)
    return np.sort(rng.integers(0, DAY, n)), rng.zipf(1.3, n) % 500, weights


def spread(seed: int, how: str, n: int, parts: int) -> Ints:
    """Which part each of the sorted events comes in; a tenth of them up to a quarter of the parts late."""
    rng = np.random.default_rng([seed, n, parts])
    part = np.arange(n) * parts // n
    if how == "late":
        part = np.where(rng.random(n) < 0.1, np.minimum(part + rng.integers(1, parts // 4 + 2, n), parts - 1), part)
    return rng.integers(0, parts, n) if how == "at random" else part


def built(rows: tuple[Ints, Ints, Ints], chosen: Any, **settings: Any) -> Ecm:
    times, values, weights = (column[chosen] for column in rows)
    return Ecm.build(Events.of(np.arange(len(times)), times, values, weights), **settings)


def one_by_one(sketches: list[Ecm]) -> Ecm:
    """As hourly runs merge them: each into what is stored."""
    return reduce(lambda stored, new: Ecm.from_bytes(stored.merge(new).to_bytes()), sketches)


@cache
def runs_of_a_day(parts: int, n: int = 48_000) -> tuple[Ecm, Ecm, Ecm]:
    """One batch, and its parts in order merged one by one and at once."""
    rows = rows_of(1, n)
    sketches = [built(rows, here, epsilon=0.05) for here in np.array_split(np.arange(n), parts)]
    return built(rows, slice(None), epsilon=0.05), one_by_one(sketches), Ecm.union(sketches)


def width(sketch: Ecm, aggregate: str, **asked: Any) -> float:
    found = sketch.answer(Question(aggregate, **asked))
    return found.upper - found.lower


@pytest.mark.parametrize("parts", [24, 240])
def test_the_runs_of_a_day_cost_no_width(parts: int) -> None:
    """A frequency, over all and over 3 hours, and the sum of 1 hour are at most 1.5 times as wide as of one batch."""
    batch, *merged = runs_of_a_day(parts)
    for sketch in merged:
        for value in (1, 2, 3):
            for decay in ("none", "window:3h"):
                wide = width(batch, "frequency", decay=decay, value=value)
                assert width(sketch, "frequency", decay=decay, value=value) <= 1.5 * wide
        assert width(sketch, "sum", decay="window:1h") <= 1.5 * width(batch, "sum", decay="window:1h")


@pytest.mark.parametrize("parts", [24, 240])
def test_the_runs_of_a_day_cost_no_room(parts: int) -> None:
    """Entries and bytes are at most 1.3 times those of one batch."""
    batch, *merged = runs_of_a_day(parts)
    for sketch in merged:
        assert sketch.kept <= 1.3 * batch.kept
        assert sketch.nbytes <= 1.3 * batch.nbytes


@pytest.mark.parametrize(("how", "parts", "most"), [("in order", 2400, 1.5), ("late", 240, 2.0)])
def test_a_year_of_runs_and_late_arrivals_cost_little_width(how: str, parts: int, most: float) -> None:
    """2,400 runs in order at most 1.5 times the width of one batch, and 1.3 times its room; a tenth late 2 times."""
    rows = rows_of(6, 12_000)
    part = spread(6, how, 12_000, parts)
    batch = built(rows, slice(None), epsilon=0.05)
    merged = reduce(lambda stored, new: stored.merge(new), [built(rows, part == n, epsilon=0.05) for n in range(parts)])
    widths = {}
    for sketch in (batch, merged):
        shares = [width(sketch, "frequency", decay="window:3h", value=value) for value in (1, 2, 3)]
        sums = [width(sketch, "sum", decay=f"window:{hours}h") for hours in (1, 3, 7, 12, 20)]
        widths[id(sketch)] = np.array([np.mean(shares), np.mean(sums)])
    assert (widths[id(merged)] <= most * widths[id(batch)]).all()
    if how == "in order":
        assert merged.kept <= 1.3 * batch.kept
        assert merged.nbytes <= 1.3 * batch.nbytes


def cut_entries(logs: Logs, counter: int, times: Ints) -> tuple[Floats, Floats]:
    """What is in doubt and what is certain of a counter in the window from each of the times on, entry by entry."""
    here = slice(logs.bounds[counter], logs.bounds[counter + 1])
    start, end, size = logs.start[here], logs.end[here], logs.size[here].astype(np.float64)
    cut = (start < times[:, None]) & (times[:, None] <= end)
    return cut @ (size - 1.0), (start >= times[:, None]) @ size + cut.sum(axis=1)


@pytest.mark.parametrize("keeping", ["eh", "dw"])
@pytest.mark.parametrize("how", SPREADS)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_counter_leaves_more_in_doubt_than_it_may(weighted: bool, how: str, keeping: Any) -> None:
    """Of every counter and every window, as the proof wants it, after 2 to 2,400 parts, the tiniest of one event."""
    for seed, parts in enumerate((2, 24, 300, 2400)):
        rows = rows_of(seed, 2400, weighted=weighted)
        part = spread(seed, how, 2400, parts)
        settings: dict[str, Any] = {"epsilon": 0.2, "delta": 0.3, "keeping": keeping, "counting": "weight"}
        sketches = [built(rows, part == number, **settings) for number in range(parts)]
        for merged in (Ecm.union(sketches), one_by_one(sketches)) if parts < 2400 else (Ecm.union(sketches),):
            assert isinstance(merged.logs, Logs)
            k = room(merged.parameters.window_error)
            for counter in range(merged.logs.counters):
                here = slice(merged.logs.bounds[counter], merged.logs.bounds[counter + 1])
                times = np.unique(np.concatenate((merged.logs.start[here] + 1, merged.logs.end[here])))
                doubtful, certain = cut_entries(merged.logs, counter, times)
                assert (k * doubtful <= 2.0 * certain).all()


@pytest.mark.parametrize("counting", ["events", "weight"])
@pytest.mark.parametrize("how", SPREADS)
def test_merged_sums_never_miss(how: str, counting: Any) -> None:
    """Exact sums lie within their certain bounds, under any decay, as of now, of the past and of later."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rows_of(seed, 1500, weighted=True)
        part = spread(seed, how, 1500, parts := int(rng.choice([2, 7, 40, 200])))
        settings: dict[str, Any] = {"epsilon": 0.2, "delta": 0.3, "counting": counting, "seed": seed}
        sketches = [built(rows, part == number, **settings) for number in range(parts)]
        times, _, weights = rows
        mass = (weights if counting == "weight" else np.ones(len(times))).astype(np.float64)
        for merged in (Ecm.union(sketches), one_by_one(sketches)):
            for decay in DECAYS[:-1]:
                for as_of in (int(times[-1]), int(times[-1]) + 777, *rng.integers(0, DAY, 4).tolist()):
                    question = Question("sum" if counting == "weight" else "count", decay, as_of)
                    come = times <= as_of
                    exact = float(question.decay((as_of - times[come]).astype(np.float64)) @ mass[come])
                    found = merged.answer(question)
                    assert found.confidence == 1.0
                    assert found.lower - ROUNDING <= exact <= found.upper * (1 + ROUNDING) + ROUNDING, (seed, question)


@pytest.mark.parametrize("how", SPREADS)
def test_the_newest_of_merged_events_are_found(how: str) -> None:
    """How many of the newest N have a value, with the ties of the oldest of them at most, whatever the parts."""
    failed = asked = 0
    for seed in range(8):
        rows = rows_of(seed, 1500)
        part = spread(seed, how, 1500, 30)
        merged = one_by_one([built(rows, part == number, epsilon=0.2, seed=seed) for number in range(30)])
        times, values, _ = rows
        for count in (10, 200, 900):
            inside = times >= times[-count]
            for value in (1, 2, 3):
                found = merged.answer(Question("frequency", f"last:{count}", value=value))
                exact = np.count_nonzero(values[inside] == value) / np.count_nonzero(inside)
                failed += not found.lower - ROUNDING <= exact <= found.upper + ROUNDING
                asked += 1
    assert failed <= 0.05 * asked


def test_inserted_singly_nothing_is_lost() -> None:
    """Events that are inserted one by one, in order, give every window within ε, with no more entries than a batch."""
    rows = rows_of(3, 400)
    sketch = built(rows, slice(0, 1), epsilon=0.2, delta=0.3)
    for at in range(1, 400):
        times, values, _ = (column[at : at + 1] for column in rows)
        sketch = sketch.insert(Events.of([at], times, values))
    batch = built(rows, slice(None), epsilon=0.2, delta=0.3)
    assert sketch.kept <= 1.3 * batch.kept
    for hours in range(1, 24):
        found = sketch.answer(Question("count", f"window:{hours}h"))
        exact = np.count_nonzero(rows[0] > rows[0][-1] - 3600 * hours)
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= 2 * sketch.parameters.window_error * exact + ROUNDING


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("ecm-aggregated-v*.bin")), ids=lambda path: path.stem)
def test_bytes_of_every_format_merge(path: Path) -> None:
    """Golden bytes, aggregated or not, merged with new ones and themselves: sums never miss, and wear no further."""
    old = Ecm.from_bytes(path.read_bytes())
    number = np.arange(600, dtype=np.int64)  # the events of the file: `tests/sketches/test_golden.py`
    numbers = number * number % 997
    golden = (1_700_000_000 + number * 7919 % 3600, np.array(LABELS, object)[numbers % 6], 1 + numbers**2 % 7)
    rng, whole, held = np.random.default_rng(8), old, [golden]
    missed = asked = 0
    for _ in range(5):
        times, keys = 1_700_000_000 + rng.integers(0, 7200, 300), np.array(LABELS, object)[rng.zipf(1.5, 300) % 6]
        held += [(times, keys, rng.integers(0, 9, 300)), golden]
        whole = Ecm.from_bytes(whole.insert(Events.of(np.arange(300), *held[-2])).merge(old).to_bytes())
        assert whole.depth == old.depth
        t, v, w = (np.concatenate(columns) for columns in zip(*held, strict=True))
        counted = [whole.logs, *(one.logs for one in whole.aggregates)]
        assert sum(int(logs.totals()[-1]) for logs in counted) == w.sum()
        for as_of in (int(t.max()), 1_700_002_000):
            for minutes in (1, 7, 20, 45, 200):
                seen = (t <= as_of) & (t > as_of - 60 * minutes)
                found = whole.answer(Question("sum", f"window:{minutes}m", as_of))
                assert found.lower - ROUNDING <= w[seen].sum() <= found.upper + ROUNDING
                for key in LABELS if seen.any() else ():
                    asked_of = Question("frequency", f"window:{minutes}m", as_of, value=key, counting="weight")
                    found = whole.answer(asked_of)
                    share = w[seen & (v == key)].sum() / w[seen].sum()
                    missed += not found.lower - ROUNDING <= share <= found.upper + ROUNDING
                    asked += 1
    assert asked > 200
    assert missed <= 0.2 * asked  # δ of the file


def test_merged_logs_as_bytes() -> None:
    """They load as they were, and damaged ones are refused."""
    rows = rows_of(4, 3000, weighted=True)
    part = spread(4, "late", 3000, 20)
    merged = Ecm.union([built(rows, part == number, epsilon=0.3, counting="weight") for number in range(20)])
    data = merged.to_bytes()
    again = Ecm.from_bytes(data)
    assert again.to_bytes() == data
    for column in Logs.__slots__:
        assert np.array_equal(getattr(again.logs, column), getattr(merged.logs, column)), column
    logs = merged.logs
    assert isinstance(logs, Logs)
    many = int(np.argmax(logs.size))
    for column, wrong in (("start", logs.start - DAY), ("end", logs.end + DAY), ("size", logs.size + (1 << 61))):
        changed = {name: getattr(logs, name).copy() for name in Logs.__slots__}
        changed[column][many:] = wrong[many:]
        worse = replace(merged, logs=Logs(**changed))
        with pytest.raises(CorruptError):
            Ecm.from_bytes(worse.to_bytes())
