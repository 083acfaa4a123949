"""The width that a family expects of its interval, against the width that it then has."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.encoding.envelope import BEGINNING
from sketches.family import Scope, Sketch
from sketches.holdings import Holdings
from sketches.promise import Built
from sketches.registry import FAMILIES

HOUR = 3600
SIZES = (40_000, 10_000, 20_000)
END = len(SIZES) * HOUR - 1
OWN: dict[str, dict[str, Any]] = {
    "ecm": {"bits": 10},
    "qdigest": {"epsilon": 0.1},
    "sample": {"detail": 1},
    "kll": {"epsilon": 0.02},
}
SETTINGS = {"epsilon": 0.05, "delta": 0.05}


@cache
def askable(family: str) -> Any:
    """Three epochs of one source as a store puts them: side by side, or in one sketch of the stream."""
    kind: type[Sketch] = FAMILIES[family]
    sketches = []
    for hour, size in enumerate(SIZES):
        rng = np.random.default_rng(hour)
        times, values = rng.integers(0, HOUR, size) + hour * HOUR, rng.gamma(2.0, 120.0, size).astype(np.int64) % 1024
        given = {"epsilon": 0.05} | OWN.get(family, {}) | ({"span": HOUR} if family in ("histogram", "qdigest") else {})
        sketches.append(kind.build(Events.of(np.arange(size), times, values), **given))
    if kind.scope is Scope.STREAM:
        return kind.union(sketches)
    return kind.side_by_side([kind.gather([sketch]) for sketch in sketches])


def built(family: str) -> Built:
    oldest, ones = np.arange(len(SIZES)) * HOUR, np.ones(len(SIZES))
    size = np.array(SIZES, np.float64)
    holdings = Holdings(oldest, oldest + HOUR - 1, size, size, ones, 0.0 * ones)
    return Built(OWN.get(family, {}), SETTINGS, HOUR, weighted=False, holdings=holdings)


DECAYS = ("window:20m", "window:100m", "exp:half_life=20m", "poly:alpha=1.5,unit=1m", "log:unit=1m")


@pytest.mark.parametrize("end", [END, END - 1500])
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("family", ["sample", "histogram", "qdigest", "ecm"])
def test_counts_are_as_wide_as_expected(family: str, decay: str, end: int) -> None:
    """Within a factor of 2 either way, now and as of the past, on average over some times; exact where expected."""
    measured, expected = [], []
    for as_of in range(end, end + 400, 133):
        question = Question("count", decay, as_of)
        estimate = askable(family).answer(question)
        promise = FAMILIES[family].promise(question, built(family), past=as_of < END)
        assert promise is not None
        assert promise.certain == (family != "sample" or promise.width == 0.0)
        assert estimate.exact or promise.width > 0.0
        measured.append((estimate.upper - estimate.lower) / estimate.value)
        expected.append(promise.width)
    assert np.mean(measured) / 2.0 <= np.mean(expected) <= 2.0 * np.mean(measured), (measured, expected)


@pytest.mark.parametrize("family", ["sample", "qdigest", "kll"])
@pytest.mark.parametrize(
    "question",
    [
        Question("rank", "exp:half_life=20m", END, value=160),
        Question("correlated-count", "window:2h", END - 1500, tau=400),
        Question("range-frequency", "poly:alpha=1.5,unit=1m", END, low=200, high=280),
    ],
    ids=lambda question: question.aggregate,
)
def test_parts_are_about_as_wide_as_expected(family: str, question: Question) -> None:
    """Within a factor of 3: how many events match is not known beforehand."""
    estimate = askable(family).answer(question)
    promise = FAMILIES[family].promise(question, built(family), past=question.as_of != END)
    assert promise is not None
    width = estimate.upper - estimate.lower
    if question.aggregate == "correlated-count":
        width /= estimate.value
    assert width / 3.0 <= promise.width <= 3.0 * width, (width, promise.width)


def of_sources(*counts: float) -> Holdings:
    """What a store holds of sources with so many events each in one epoch."""
    count, one = np.array([float(sum(counts))]), np.ones(1)
    return Holdings(np.zeros(1, int), np.array([HOUR]), count, max(counts) * one, len(counts) * one, 0.0 * one)


def test_a_sample_is_exact_as_long_as_a_level_holds_all() -> None:
    """Up to its capacity of 61,464 a stream is kept whole, whatever part of it is asked; then widths rise with it."""
    question = Question("count", "exp:half_life=20m")

    def width(asked: float, others: float = 0.0, **own: int) -> float:
        held, stream = of_sources(asked), of_sources(asked, others)
        promise = FAMILIES["sample"].promise(
            question, Built(own, SETTINGS, HOUR, holdings=held, stream=stream), past=False
        )
        assert promise is not None
        assert promise.certain == (promise.width == 0.0)
        return promise.width

    assert width(61_464) == width(1_464, 60_000) == 0.0
    assert 0.0 < width(65_000) < width(500_000) < 0.06
    assert width(1_000, 499_000) > 5.0 * width(500_000), "a five-hundredth of the events"
    assert width(3_841, detail=1) == 0.0 < width(4_500, detail=1) < 0.12
    assert width(10_000_000, detail=0) == 0.0, "where all is kept"


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_one_source_of_a_stream_is_as_wide_as_expected(share: float) -> None:
    """Within a factor of 2: from what the source and what the stream have, now and as of the past."""
    rng = np.random.default_rng(3)
    rows = 120_000
    times, names = np.sort(rng.integers(0, HOUR, rows)), np.where(rng.random(rows) < share, "one", "other")
    events = Events.of(np.arange(rows), times, rng.integers(0, 1000, rows))
    sample = Sample.build(events, detail=1, sources=names)
    own, all_of_it = of_sources(share * rows), of_sources(share * rows, (1.0 - share) * rows)
    given = Built({"detail": 1}, SETTINGS, HOUR, weighted=False, holdings=own, stream=all_of_it)
    for decay in ("window:20m", "exp:half_life=10m", "none"):
        for as_of in (HOUR - 1, HOUR // 2):
            question = Question("count", decay, as_of)
            found = sample.of(["one"]).answer(question)
            promise = Sample.promise(question, given, past=as_of < HOUR - 1)
            assert promise is not None
            measured = (found.upper - found.lower) / found.value
            assert measured / 2.0 <= promise.width <= 2.0 * measured, question


@pytest.mark.parametrize("family", ["histogram", "qdigest", "ecm"])
def test_what_later_runs_added_to_is_as_wide_as_expected(family: str) -> None:
    """Within a factor of 2: 24 runs in order, merged; counters of `ecm` are coalesced to what one batch promises."""
    rng, kind = np.random.default_rng(9), FAMILIES[family]
    given = {"epsilon": 0.05} | OWN.get(family, {}) | ({"span": HOUR} if family != "ecm" else {})
    runs = np.array_split(np.sort(rng.integers(0, HOUR, 20_000)), 24)
    sketch = kind.union([kind.build(Events.of(np.arange(len(t)), t, t % 100), **given) for t in runs])
    count, one, measured, expected = np.array([20_000.0]), np.ones(1), [], []
    for minutes in (7, 20, 33, 51):
        question = Question("count", f"window:{minutes}m")
        estimate = sketch.answer(question)
        measured.append((estimate.upper - estimate.lower) / estimate.value)
        for merges in (0.0, 23.0):
            held = Holdings(np.zeros(1, int), np.array([HOUR - 1]), count, count, one, merges * one)
            promise = kind.promise(question, Built(OWN.get(family, {}), SETTINGS, HOUR, False, held), past=False)
            assert promise is not None
            expected.append(promise.width)
    assert np.mean(measured) / 2.0 <= np.mean(expected[1::2]) <= 2.0 * np.mean(measured)
    assert family != "ecm" or expected[1::2] == expected[::2]


@cache
def counted() -> Sample:
    """Twenty sources over four days, one twentieth each, with weights; all rows were counted."""
    rng = np.random.default_rng(5)
    rows, names = 300_000, [f"s{number:02d}" for number in range(20)]
    times, weights = np.sort(rng.integers(0, 96 * HOUR, rows)), 1 + rng.poisson(3.0, rows)
    events = Events.of(np.arange(rows), times, rng.gamma(2.0, 120.0, rows).astype(np.int64), weights)
    return Sample.partial(events, rng.integers(0, 20, rows).astype(np.int32), names, detail=1)


def built_of_days(share: float, beginning: bytes) -> Built:
    day = 24 * HOUR
    oldest, ones = np.arange(4) * day, np.ones(4)
    own, stream = (
        Holdings(oldest, oldest + day - 1, size, size / parts, parts * ones, 0.0 * ones)
        for size, parts in ((75_000.0 * share * ones, 20.0 * share), (75_000.0 * ones, 20.0))
    )
    return Built({"detail": 1}, SETTINGS, day, holdings=own, stream=stream, beginning=beginning)


@pytest.mark.parametrize("decay", ["exp:half_life=6h", "window:20h", "poly:alpha=1.5,unit=1h"])
@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("aggregate", ["count", "sum", "mean", "correlated-sum"])
def test_exact_totals_make_answers_as_much_narrower_as_expected(aggregate: str, share: float, decay: str) -> None:
    """Within a factor of 2 on average. Of some sources values are not counted by class: their τ-sums gain nothing."""
    sample = counted().of(None if share == 1.0 else ["s07", "s08", "s09", "s10"])
    beginning = counted().to_bytes()[:BEGINNING]
    measured, expected, plain = [], [], []
    for as_of in range(60 * HOUR, 96 * HOUR, 13 * HOUR + 700):
        question = Question(aggregate, decay, as_of, tau=400 if aggregate == "correlated-sum" else None)
        found = sample.answer(question)
        measured.append((found.upper - found.lower) / found.value)
        for widths, known in ((expected, beginning), (plain, b"")):
            promise = Sample.promise(question, built_of_days(share, known), past=True)
            assert promise is not None
            widths.append(promise.width)
    assert np.mean(measured) / 2.0 <= np.mean(expected) <= 2.0 * np.mean(measured), (measured, expected)
    assert (np.mean(expected) < 0.8 * np.mean(plain)) == (aggregate != "correlated-sum" or share == 1.0)


@cache
def half_counted() -> Sample:
    """The same rows, of which those of the first two days were not counted."""
    rng = np.random.default_rng(5)
    rows, names = 300_000, [f"s{number:02d}" for number in range(20)]
    times = np.sort(rng.integers(0, 96 * HOUR, rows))
    events = Events.of(np.arange(rows), times, rng.gamma(2.0, 120.0, rows).astype(np.int64), 1 + rng.poisson(3.0, rows))
    sources, early = rng.integers(0, 20, rows).astype(np.int32), times < 48 * HOUR
    before = Sample.build(events.take(early), detail=1, sources=np.array(names)[sources[early]])
    return Sample.union([before, Sample.partial(events.take(~early), sources[~early], names, detail=1)])


@pytest.mark.parametrize("aggregate", ["count", "correlated-sum"])
def test_where_rows_were_not_counted_answers_are_expected_to_be_as_wide_as_without_totals(aggregate: str) -> None:
    """What the first bytes of a sample say is enough: within a factor of 2 before and after rows were counted."""
    beginning = half_counted().to_bytes()[:BEGINNING]
    for hours, narrower in ((range(20, 44, 7), False), (range(72, 96, 7), True)):
        measured, expected, plain = [], [], []
        for hour in hours:
            question = Question(
                aggregate, "exp:half_life=3h", hour * HOUR + 1700, tau=400 if aggregate == "correlated-sum" else None
            )
            found = half_counted().answer(question)
            measured.append((found.upper - found.lower) / found.value)
            for widths, known in ((expected, beginning), (plain, b"")):
                promise = Sample.promise(question, built_of_days(1.0, known), past=True)
                assert promise is not None
                widths.append(promise.width)
        assert np.mean(measured) / 2.0 <= np.mean(expected) <= 2.0 * np.mean(measured), (hours, measured, expected)
        assert (np.mean(expected) < 0.9 * np.mean(plain)) == narrower, (expected, plain)


def test_of_too_many_sources_no_totals_are_expected() -> None:
    """Their slices would be as long as all of time, so none are kept."""
    question, beginning = Question("sum", "exp:half_life=6h", 90 * HOUR), counted().to_bytes()[:BEGINNING]

    def expected(sources: float, known: bytes) -> float:
        built = built_of_days(0.2, known)
        assert built.stream is not None
        parts = np.full(4, sources)
        promise = Sample.promise(question, replace(built, stream=replace(built.stream, parts=parts)), past=True)
        assert promise is not None
        return promise.width

    assert expected(20.0, beginning) < 0.8 * expected(20.0, b"")
    assert expected(60_000.0, beginning) == expected(60_000.0, b"")
