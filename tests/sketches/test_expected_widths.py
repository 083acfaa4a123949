"""The width that a family expects of its interval, against the width that it then has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.family import Built, Scope, Sketch
from sketches.holdings import Holdings
from sketches.registry import FAMILIES

HOUR = 3600
SIZES = (40_000, 10_000, 20_000)
END = len(SIZES) * HOUR - 1
OWN: dict[str, dict[str, Any]] = {"ecm": {"bits": 10}, "qdigest": {"epsilon": 0.1}, "sample": {"detail": 1}}
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
    holdings = Holdings(oldest, oldest + HOUR - 1, size, size, ones, 0.0 * ones, ones)
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


@pytest.mark.parametrize("family", ["sample", "qdigest"])
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
    return Holdings(np.zeros(1, int), np.array([HOUR]), count, max(counts) * one, len(counts) * one, 0.0 * one, one)


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


def test_later_runs_make_digests_finer_and_ecm_coarser() -> None:
    """A digest adds ranges as fine as each run's own; counters of `ecm` are aggregated once more by each run."""
    count, one = np.array([20_000.0]), np.ones(1)
    ends = np.zeros(1, int), np.array([HOUR - 1])
    question = Question("count", "window:20m")
    widths = {}
    for family in ("qdigest", "ecm"):
        for runs in (1, 24):
            held = Holdings(*ends, count, count, one, (runs - 1.0) * one, one / runs)
            promise = FAMILIES[family].promise(question, Built({}, SETTINGS, HOUR, False, held), past=False)
            assert promise is not None
            widths[family, runs] = promise.width
    assert widths["qdigest", 24] < widths["qdigest", 1] / 3.0
    assert widths["ecm", 24] > 3.0 * widths["ecm", 1]
