"""A slice of benchmarks/leaned.py: intervals of answers that lean on exact totals, counted by cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.arrays import Floats
from sketches.decay import parse_decay
from sketches.event_rules import Repeats
from sketches.sampling.difference_estimator import leaning
from sketches.sampling.difference_estimator.leaning import Quantity, lean
from sketches.sampling.estimation import quotients
from sketches.sampling.totals.row_totals import RowTotals
from sketches.sampling.totals.slice_totals import VALUE
from tests.support.leaned import (
    DAY,
    DAYS,
    KINDS,
    QUESTIONS,
    SELECTIONS,
    TIMES_ASKED,
    Asked,
    Cell,
    Exact,
    Rows,
    count,
    question_of,
    rows_of,
)
from tests.support.oracle import Oracle
from tests.support.streams import Stream
from tests.support.thinned import holm

SEEDS = range(25)
FORGIVEN, COUNTED, NONE = Repeats.FORGIVEN, Repeats.COUNTED, Repeats.NONE
SLICE = {
    "60% repeated": [
        Asked("sum", "exp:half_life=6h", "two", FORGIVEN, "many"),
        Asked("mean of values", "window:1d", "all", FORGIVEN, "few"),
        Asked("correlated-count, 30%", "none", "all", COUNTED, "many"),
    ],
    "long slices, no repeats": [
        Asked("count", "exp:half_life=6h", "one", NONE, "few"),
        Asked("count below", "poly:alpha=1.5,unit=6h", "all", FORGIVEN, "many"),
    ],
    "late by days": [
        Asked("sum of values", "exp:half_life=6h", "field = common", FORGIVEN, "few"),
        Asked("count", "none", "field in two", NONE, "many"),
    ],
    "backfilled": [
        Asked("sum", "exp:half_life=6h", "field not common", COUNTED, "few"),
        Asked("count", "window:1d", "all", COUNTED, "few"),
        Asked("range-sum", "exp:half_life=6h", "all", FORGIVEN, "few"),
    ],
}


def too_often(kinds: dict[str, list[Asked]]) -> list[Cell]:
    """The cells of the slice that miss more often than 5% by more than chance explains."""
    chances = {}
    for kind, asked in kinds.items():
        found = count(kind, asked, SEEDS, events=8_000, epsilon=0.2)
        assert found, "some answers lean"
        chances |= {cell: one.chance for cell, one in found.items()}
    return holm(chances)


def test_intervals_that_lean_on_totals_cover() -> None:
    """Repeats in and across sources, long slices, a backfill that cuts hours: no cell misses too often."""
    assert too_often(SLICE) == []


def test_the_count_goes_red_where_limits_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits a third as far away miss too often in several cells."""
    honest = quotients.deviation

    def short(variance: Floats, unseen: Floats, events: Floats, tail: float) -> Floats:
        return honest(variance, unseen, events, tail) / 3.0

    monkeypatch.setattr(quotients, "deviation", short)
    monkeypatch.setattr(leaning, "deviation", short)
    assert len(too_often({"60% repeated": SLICE["60% repeated"]})) >= 2


@pytest.mark.parametrize("values", ["lognormal", "negative"])
def test_the_exact_answers_are_those_of_the_other_oracle(values: str) -> None:
    """Of events that two sources report, for every question that both can answer."""
    kind = KINDS["60% repeated"]._replace(values=values)
    rng = np.random.default_rng(3)
    rows = rows_of(kind, 300, rng)
    exact = Exact(rows)
    for name in QUESTIONS:
        question = question_of(name, "exp:half_life=6h", values)
        for selection in ("one", "all"):
            chosen = np.isin(rows.sources, [int(source[1:]) for source in SELECTIONS[selection]])
            some = rows.take(chosen)
            for repeats in (FORGIVEN, COUNTED):
                ids = np.arange(len(some.ids)) if repeats is COUNTED else some.ids
                other = Oracle(Stream.of("some", ids, some.times, some.values, some.weights))
                found = exact.answers(question, SELECTIONS[selection], repeats)
                for at, moment in enumerate(TIMES_ASKED["few"].tolist()):
                    truth = other.answer(question.at(moment))
                    assert found[at] == pytest.approx(truth, nan_ok=True), (name, selection, repeats)


def stream(seed: int, size: int = 20_000) -> Rows:
    """Ten days of events of two sources, values 1 to 99, each once."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, DAYS * DAY, size))
    sources = (np.arange(size) % 2).astype(np.int32)
    return Rows(rng.integers(0, 1 << 60, size), times, rng.integers(1, 100, size), np.ones(size, int), sources, sources)


def sampled(rows: Rows, seed: int, epsilon: float = 0.1) -> Sample:
    events = Events.of(rows.ids, rows.times, rows.values, rows.weights)
    return Sample.partial(events, rows.sources, ["s0", "s1"], epsilon=epsilon, detail=1, seed=seed)


def test_a_slice_is_not_cut_where_the_sample_begins() -> None:
    """The oldest slices of a source are days long, and the first kept event lies within one."""
    missed = 0
    question = Question("count", "exp:half_life=6h", as_of=3 * DAY, confidence=0.95)
    for seed in range(20):
        rows = stream(seed)
        sample = sampled(rows, seed, 0.05)
        totals = sample.totals
        assert totals is not None
        long = replace(sample, totals=RowTotals(totals.hourly, totals.by_source.fitted(12), totals.by_class))
        own = rows.take((rows.sources == 0) & (rows.times <= 3 * DAY))
        truth = question.decay((3 * DAY - own.times).astype(np.float64)).sum()
        found = long.of(["s0"]).answer(question)
        missed += not found.lower <= truth <= found.upper
    assert missed <= 4


@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize(("repeats", "weights"), [(COUNTED, (1, 6)), (FORGIVEN, (0, 2))], ids=["rows", "0 or 1"])
def test_values_by_weight_do_not_lean_on_totals_of_values(
    aggregate: str, repeats: Repeats, weights: tuple[int, int]
) -> None:
    """Totals are of v, not of w·v: where each row counts, and where weights are 0 or 1."""
    rows = stream(1)
    rows = replace(rows, weights=np.random.default_rng(2).integers(*weights, len(rows.ids)))
    twice = rows.and_also(rows.take(np.arange(0, len(rows.ids), 3))) if repeats is COUNTED else rows
    found = sampled(twice, 1).of(None, repeats).answer(Question(aggregate, of="value", counting="weight"))
    truth = (twice.values * twice.weights).sum() / (1.0 if aggregate == "sum" else twice.weights.sum())
    assert found.lower <= truth <= found.upper
    assert found.value == pytest.approx(truth, rel=0.2)


def test_a_value_below_nothing_that_was_not_kept_leaves_nothing_certain() -> None:
    rows = stream(2)
    values = rows.values.copy()
    values[len(values) // 3] = -1_000
    for seed in range(9):
        sample = sampled(replace(rows, values=values), seed).of(None, NONE).sample
        if sample.values.min() > 0:
            break
    assert sample.values.min() > 0, "it was not kept"
    found = lean(sample, (Quantity(VALUE),))
    assert found is not None
    assert not found.certain


def test_an_unseen_event_that_came_once_may_be_missing_beside_many_that_repeat() -> None:
    """Totals count for less than 1 where rows repeat, so an event that came once is not all in them."""
    rows = stream(7)
    again = np.flatnonzero(np.random.default_rng(1).random(len(rows.ids)) < 0.5)
    sample = sampled(rows.and_also(rows.take(again)).and_also(rows.take(again)), 1).askable_sample.sample
    found = lean(sample, (Quantity(VALUE),))
    assert found is not None
    assert 0.1 < found.beta < 0.9
    unseen = found.sums(parse_decay("none"), np.array([DAYS * DAY]), sample.unit)[0]
    largest = float(sample.strata.event_design_weight.max()) * 99.0
    assert unseen.more[0, 0] == pytest.approx((1.0 - found.beta) * largest)
    assert unseen.fewer[0, 0] == pytest.approx((3.0 * found.beta - 1.0) * largest)


def test_negative_values_survive_bytes() -> None:
    rows = stream(4, 3_000)
    sample = sampled(replace(rows, values=rows.values - 50), 1, 0.2)
    back = Sample.from_bytes(sample.to_bytes())
    assert back.totals is not None
    assert sample.totals is not None
    assert np.array_equal(back.totals.by_class.groups, sample.totals.by_class.groups)
    assert back.totals.by_class.groups[0] < 0


def test_limits_are_numbers_where_nothing_is_left_to_chance() -> None:
    """A long series without decay: what rounding leaves of the variance must not be taken a root of."""
    rows = stream(5)
    rows = replace(rows, values=rows.values / 7.0, weights=np.full(len(rows.ids), 3))
    moments = np.linspace(2 * DAY, DAYS * DAY, 30).astype(np.int64)
    for seed in range(3):
        for names in (["s0"], ["s0", "s1"]):
            askable = sampled(rows, seed).of(names)
            for question in (Question("mean", of="value"), Question("mean"), Question("sum", of="value")):
                found = askable.series(question, moments)
                assert np.isfinite([found.value, found.lower, found.upper]).all()


def test_an_answer_is_hardly_wider_than_without_totals() -> None:
    """Under a range of values what is unseen may count more beside totals: where it would, they are not used."""
    rows = stream(6)
    askable = sampled(rows, 3).of(None)
    plain = replace(askable, sample=replace(askable.sample, totals=None))
    for question in (
        Question("correlated-mean", of="value", tau=90),
        Question("sum", "window:1d", of="value", high=30),
        Question("mean", "poly:alpha=1.5,unit=6h", of="value", high=30),
    ):
        moments = np.array([4 * DAY, 7 * DAY, DAYS * DAY])
        leant, before = askable.series(question, moments), plain.series(question, moments)
        assert (leant.upper - leant.lower <= 1.2 * (before.upper - before.lower)).all()
