"""Quantiles of what lies above a threshold that is itself an aggregate: the exact answer lies within the interval."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.errors import QuestionError, UnanswerableError
from sketches.predicate import Predicate, Range, columns_with
from sketches.registry import FAMILIES
from sketches.threshold import Threshold
from tests.support.wide import Wide, quantile

SIZE = 3_000
DECAYS = ("none", "exp:half_life=20m", "window:15m")
TAUS = ("median", "1.5*mean", "q0.8")


def events(seed: int) -> tuple[Wide, Events]:
    """Values with a heavy tail, a field that goes with them, another that does not and has few values."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.lognormal(3.0, 1.0, SIZE), 1)
    fields = {
        "size": np.round(values + rng.normal(0.0, 20.0, SIZE), 1),
        "grade": rng.integers(0, 5, SIZE),
        "site": np.array(["a", "b", "c"], object)[rng.choice(3, SIZE, p=[0.6, 0.3, 0.1])],
    }
    times = np.sort(rng.integers(0, 3_600, SIZE))
    wide = Wide(np.arange(SIZE), times, values, rng.integers(1, 9, SIZE), np.full(SIZE, "here"), fields)
    return wide, Events.of(wide.ids, times, values, wide.weights, fields=fields)


def exact(wide: Wide, question: Question, rows: np.ndarray | slice = slice(None)) -> float:
    """The sentence, word by word: τ over all events, then the quantile of what is at least τ, under the same decay."""
    f = question.decay((3_599 - wide.times).astype(np.float64))
    f = f * wide.weights if question.by_weight else f
    compared = wide.column(question.compared)
    threshold = question.threshold
    assert threshold is not None
    assert question.phi is not None

    def of(some: np.ndarray | slice) -> float:
        at = compared[some], f[some]
        return float((at[0] * at[1]).sum() / at[1].sum()) if threshold.phi is None else quantile(*at, threshold.phi)

    about = compared >= threshold.factor * of(rows if threshold.own else slice(None))
    if question.where:
        about &= wide.column("grade") != 2
    return quantile(wide.column(question.ranked)[rows].astype(float), np.where(about, f, 0.0)[rows], question.phi)


def asked(seed: int) -> list[Question]:
    """Thresholds, columns, decays and countings in turn, so that all of them meet."""
    rng = np.random.default_rng(seed)
    where = Predicate.parse("grade != 2", columns_with(events(1)[0].kinds))
    found = []
    for decay, tau in product(DECAYS, TAUS):
        found.append(
            Question(
                "quantile",
                decay,
                as_of=3_599,
                tau=tau,
                phi=float(rng.choice([0.1, 0.5, 0.9])),
                of=[None, "size", "grade", "weight"][rng.integers(4)],
                tau_of=[None, None, "size"][rng.integers(3)],
                counting=("events", "weight")[rng.integers(2)],
                where=where if rng.random() < 0.3 else Predicate(),
                confidence=0.9,
            )
        )
    return found


@pytest.mark.parametrize("own", [False, True], ids=["of all events", "of each group"])
def test_intervals_hold_the_exact_answer(own: bool) -> None:
    """Each sample has a seed of its own. At 90% hardly any misses: the intervals of τ and of the rank are added up.
    Without that of τ 4% do."""
    wide, batch = events(1)
    missed = []
    for seed in range(30):
        sample = Sample.build(batch, epsilon=0.25, detail=1, seed=seed).askable_sample
        split = Sample.by_field(sample, "site")
        inside = [wide.column("site") == name for name in split.names]
        for question in asked(seed):
            if not own:
                found = sample.answer(question)
                assert found.lower <= found.value <= found.upper
                missed.append(not found.lower <= exact(wide, question) <= found.upper)
            of_each = replace(question, tau=Threshold.read(str(question.tau)).text(own=own))
            answers, truths = split.answer(of_each), [exact(wide, of_each, rows) for rows in inside]
            missed.append(not bool(((answers.lower <= truths) & (truths <= answers.upper)).all()))
    assert sum(missed) <= 0.02 * len(missed)


def test_an_interval_is_little_wider_than_above_a_number() -> None:
    """Of a large sample; else it could hold everything and pass."""
    rng = np.random.default_rng(0)
    values = rng.lognormal(3.0, 1.0, 60_000).round(2)
    size = (values + rng.normal(0.0, 20.0, len(values))).round(1)
    batch = Events.of(np.arange(60_000), np.sort(rng.integers(0, 3_600, 60_000)), values, fields={"size": size})
    sample = Sample.build(batch, epsilon=0.1).askable_sample
    assert len(sample.sample) < 50_000
    number = float(np.median(values))
    for of in (None, "size"):
        above = sample.answer(Question("quantile", phi=0.9, tau="median", of=of))
        known = sample.answer(Question("quantile", phi=0.9, of=of, where=Predicate.of(None, value=Range(number))))
        assert above.value == pytest.approx(known.value, rel=0.02)
        assert known.upper - known.lower < above.upper - above.lower < 2.0 * (known.upper - known.lower)


def test_what_is_kept_whole_is_exact() -> None:
    """Also over time, and where nothing counts."""
    wide, batch = events(2)
    sample = Sample.build(batch, epsilon=0.01).askable_sample
    for question in asked(3):
        found, truth = sample.answer(question), exact(wide, question)
        assert (found.lower, found.value, found.upper) == (truth, truth, truth), question
    series = sample.series(asked(3)[0], [-1, 1_800, 3_599])
    assert math.isnan(series.value[0])
    assert series.value[2] == exact(wide, asked(3)[0])


def test_other_families_and_curves_refuse_it() -> None:
    """None answers as if there were no threshold."""
    question = Question("median", tau="q0.9")
    for name in ("integral", "histogram", "qdigest", "exponential", "ecm", "retractable"):
        assert not FAMILIES[name].abilities.include(question), name
    _, batch = events(2)
    with pytest.raises(UnanswerableError, match="a curve cannot be drawn"):
        Sample.build(batch, epsilon=0.3).askable_sample.quantile_curve(question, [0.5])
    with pytest.raises(QuestionError, match="with sum, count, mean, quantile and median"):
        Question("stddev", where=Predicate.parse("value >= median(value)", columns_with({})))
