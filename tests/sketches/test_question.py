"""A question that makes no sense is refused when it is asked, with what would be valid."""

from __future__ import annotations

from typing import Any

import pytest

from sketches import AGGREGATES, Decay, Question
from sketches.errors import DecayError, QuestionError
from sketches.predicate import Predicate
from sketches.threshold import Threshold

NEEDED: dict[str, dict[str, Any]] = {
    "selectivity": {"tau": 5},
    "ratio": {"of": "value", "per": "events"},
    "rank": {"value": 5},
    "quantile": {"phi": 0.3},
    "frequency": {"value": "key"},
    "range-sum": {"low": 1, "high": 2},
    "range-frequency": {"low": 1, "high": 1},
    "correlated-sum": {"tau": 5},
    "correlated-count": {"tau": "median"},
    "correlated-mean": {"tau": "q0.9"},
}


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_aggregate_can_be_asked(aggregate: str) -> None:
    """With what it needs, every aggregate of the list is a question, and its decay is parsed."""
    question = Question(aggregate, "window:1h", **NEEDED.get(aggregate, {}))
    assert isinstance(question.decay, Decay)


@pytest.mark.parametrize(
    ("aggregate", "settings", "message"),
    [
        ("rank", {}, "'rank' needs value"),
        ("quantile", {}, "'quantile' needs phi"),
        ("frequency", {}, "'frequency' needs value"),
        ("range-sum", {"low": 1}, "'range-sum' needs high"),
        ("range-frequency", {"high": 1}, "'range-frequency' needs low"),
        ("correlated-sum", {}, "'correlated-sum' needs tau"),
        ("correlated-count", {}, "'correlated-count' needs tau"),
        ("correlated-mean", {}, "'correlated-mean' needs tau"),
        ("selectivity", {}, "'selectivity' needs what it is the share of: share, tau, or low and/or high"),
        ("quantile", {"phi": 0}, "phi is 0; it must lie strictly between 0 and 1"),
        ("quantile", {"phi": 1.0}, "phi is 1.0; it must lie strictly between 0 and 1"),
        ("quantile", {"phi": float("nan")}, "phi is nan; it must lie strictly between 0 and 1"),
        ("sum", {"confidence": 1.5}, "confidence is 1.5; it must lie strictly between 0 and 1"),
        ("rank", {"value": float("nan")}, "value is NaN; it must be a number"),
        ("range-sum", {"low": float("nan"), "high": 1}, "low is NaN; it must be a number"),
        ("range-sum", {"low": 0, "high": float("nan")}, "high is NaN; it must be a number"),
        ("range-sum", {"low": 3, "high": 2}, "low is 3 and high is 2; low must not exceed high"),
        ("correlated-sum", {"tau": float("nan")}, "tau is NaN; it must be a number"),
        ("heavy-hitters", {"top": 0}, "top is 0; it must be at least 1"),
        (
            "sum",
            {"of": "the price"},
            "of is 'the price'; it must be 'weight', 'value' or a field: 'the",
        ),
        (
            "sum",
            {"of": "events"},
            "of is 'events'; it must be 'weight', 'value' or a field: 'events'",
        ),
        ("sum", {"per": "events"}, "per='events' goes with ratio, not with 'sum'"),
        ("ratio", {"of": "bytes"}, "aggregate 'ratio' needs per"),
        (
            "count",
            {"of": "value"},
            "of='value' goes with correlated-mean, correlated-sum, frequency, heavy-hitters, inner-product, mean,",
        ),
        ("mean", {"per_second": True}, "a rate is of a sum or a count, not of 'mean'"),
        ("sum", {"counting": "rows"}, "counting is 'rows'; it must be 'events' or 'weight'"),
        ("sum", {"phi": 0.5}, "phi goes with heavy-hitters, median, quantile, not with 'sum'"),
        ("count", {"top": 3}, "top goes with heavy-hitters, not with 'count'"),
        ("median", {"phi": 0.9}, "the median is the quantile at 0.5, not at 0.9"),
        ("heavy-hitters", {"tau": "mean"}, "tau='mean' goes with"),
        ("selectivity", {"tau": 1, "low": 0}, "'selectivity' is the share of one thing"),
        ("sum", {"low": 5, "high": 7, "where": Predicate.parse("value > 9")}, "no event has both"),
        ("quantile", {"phis": (0.5, 1.0)}, "shares strictly between 0 and 1"),
        ("sum", {"phis": (0.5,)}, "several shares go with quantile, not with 'sum'"),
    ],
)
def test_what_is_missing_or_wrong_is_named(aggregate: str, settings: dict[str, Any], message: str) -> None:
    """The refusal names the setting, its value and what would be valid."""
    with pytest.raises(QuestionError) as refusal:
        Question(aggregate, **settings)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("avg", None),
        ("cuont", "count"),
        ("heavy_hitters", "heavy-hitters"),
        ("quantil", "quantile"),
        ("selfjoin", "self-join"),
    ],
)
def test_unknown_aggregates_are_refused_with_the_closest(typed: str, meant: str | None) -> None:
    """An unknown aggregate is answered with the whole list and, where one is close, a suggestion."""
    with pytest.raises(QuestionError) as refusal:
        Question(typed)
    assert all(aggregate in str(refusal.value) for aggregate in AGGREGATES)
    assert (f"did you mean {meant!r}?" in str(refusal.value)) == (meant is not None)
    assert ("did you mean" in str(refusal.value)) == (meant is not None)


@pytest.mark.parametrize(
    ("text", "level"),
    [("median", 0.5), ("q0.9", 0.9), ("q.25", 0.25), ("q0.999", 0.999), ("q0.5", 0.5), ("mean", None)],
)
def test_thresholds_that_are_aggregates(text: str, level: float | None) -> None:
    """`median` and `q0.9` are quantiles, `mean` is the mean, all of them may be multiplied; a number is itself."""
    assert Question("correlated-sum", tau=text).threshold == Threshold(level)
    assert Question("correlated-sum", tau=f"1.5*{text}").threshold == Threshold(level, 1.5)
    assert Question("correlated-sum", tau=0.9).threshold is None


@pytest.mark.parametrize(
    "text",
    [
        "q0",
        "q1",
        "q1.0",
        "q0.0",
        "q1.5",
        "q-0.5",
        "q",
        "means",
        "x*mean",
        "-2*mean",
        "mean*2",
        "0.9",
        "q0.9 ",
        "q0.9\n",
        "Q0.9",
        "q0,9",
    ],
)
def test_other_texts_are_no_thresholds(text: str) -> None:
    """Any other text, a quantile outside (0, 1) included, is refused and shown."""
    with pytest.raises(QuestionError) as refusal:
        Question("correlated-sum", tau=text)
    assert f"tau is {text!r}; it must be a number, 'median', 'mean', a quantile like 'q0.9', or" in str(refusal.value)


def test_the_median_is_a_quantile() -> None:
    """`median` sets phi, whatever was given."""
    assert Question("median").phi == 0.5


def test_a_bad_decay_is_a_decay_error() -> None:
    """What is wrong with a decay is said by the decay, not hidden behind the question."""
    with pytest.raises(DecayError):
        Question("sum", "window:-1h")


def test_the_same_question_at_another_time() -> None:
    """`at` changes the as-of time and nothing else, and leaves the question it was called on alone."""
    question = Question("correlated-sum", "exp:half_life=1h", tau="q0.9", confidence=0.9)
    later = question.at(99)
    assert (later.as_of, question.as_of) == (99, None)
    assert later.at(1) == question.at(1)


@pytest.mark.parametrize("as_of", [10**30, -(10**30), (1 << 62) + 1])
def test_times_beyond_the_range_are_refused(as_of: int) -> None:
    """An as-of time that no event can have is refused by name, not by an overflow."""
    with pytest.raises(QuestionError, match="as_of"):
        Question("sum", as_of=as_of)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Question("mean", high=60), "the value is at most 60"),
        (Question("correlated-sum", tau=100, high=200), "the value is at most 200"),
        (Question("median", tau=5), "the value is at least 5"),
        (Question("heavy-hitters", value=7), "the value is 7"),
        (Question("sum", value="GET /"), "the value is 'GET /'"),
        (Question("rank", value=3, low=1, where=Predicate.parse("weight > 0")), "the value is at least 1"),
    ],
)
def test_what_an_aggregate_does_not_measure_restricts_it(asked: Question, words: str) -> None:
    """A bound that was typed is never ignored: it is what the aggregate measures, or it restricts the answer."""
    assert words in asked.where.words()
    assert asked.at(5).where == asked.where


@pytest.mark.parametrize("aggregate", ["sum", "count", "mean"])
def test_sums_above_a_threshold_are_correlated_aggregates(aggregate: str) -> None:
    """`mean --tau median` is the correlated mean: the same question by two names."""
    assert Question(aggregate, tau="median") == Question(f"correlated-{aggregate}", tau="median")


@pytest.mark.parametrize(
    ("question", "masses"),
    [
        (Question("count"), {"events"}),
        (Question("count", counting="weight"), {"weight"}),
        (Question("sum"), {"weight"}),
        (Question("mean"), {"weight", "events"}),
        (Question("mean", counting="weight"), {"weight", "events"}),
        (Question("mean", of="value"), {"value", "events"}),
        (Question("sum", of="value", counting="weight"), {"value", "weight"}),
        (Question("median"), {"events"}),
        (Question("correlated-sum", tau="median"), {"weight", "events"}),  # the median is of events
        (Question("correlated-sum", tau=3), {"weight"}),
        (Question("self-join", counting="weight"), {"weight"}),
    ],
)
def test_a_question_knows_what_it_adds_up(question: Question, masses: set[str]) -> None:
    """Of each event: 1, its weight, its value."""
    assert question.masses == masses


@pytest.mark.parametrize("name", ["where", "share"])
def test_a_text_is_no_predicate(name: str) -> None:
    """It has to be parsed with the columns that a stream has; the sentence says how."""
    with pytest.raises(QuestionError, match=r"where and share are Predicates.*Predicate\.parse"):
        Question("selectivity", tau=1, **{name: "value > 3"})  # type: ignore[arg-type]
