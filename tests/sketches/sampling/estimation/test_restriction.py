"""Answers over the events that a predicate leaves: exact where all events are kept, and else covered as stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.errors import UnanswerableError
from sketches.event_rules import Repeats
from sketches.predicate import Predicate
from tests.support.coverage import Tally, build
from tests.support.oracle import Oracle
from tests.support.predicates import random_predicates, selected
from tests.support.streams import START, STREAMS

DECAYS = ("none", "window:20m", "exp:half_life=10m", "poly:alpha=1.5,unit=1m")
FORMS: tuple[dict[str, Any], ...] = (
    {"aggregate": "count"},
    {"aggregate": "sum"},
    {"aggregate": "count", "counting": "weight"},
    {"aggregate": "mean"},
    {"aggregate": "self-join"},
    {"aggregate": "mean", "of": "value"},
    {"aggregate": "median"},
    {"aggregate": "correlated-sum", "tau": 300},
)
NEWEST = START + 3600


@pytest.mark.parametrize("name", ["correlated", "keys", "floats"])
def test_a_sample_of_everything_answers_exactly(name: str) -> None:
    """A hundred random predicates a stream, each restricting an aggregate, and each the share of another."""
    rows = STREAMS[name](300, 3).distinct()
    rng = np.random.default_rng(4)
    sketch, forms = build(rows, 1, 0.05, 0.05, 16), FORMS[:5] if rows.is_text else FORMS
    texts = random_predicates(rng, rows, 100)
    masks = selected(texts, rows)
    for at, (text, mask) in enumerate(zip(texts, masks, strict=True)):
        about = {"decay": DECAYS[at % len(DECAYS)], "as_of": NEWEST - 300 * int(rng.integers(0, 4))}
        form, where = forms[at % len(forms)], Predicate.parse(text)
        answer = sketch.answer(Question(**form, **about, where=where))
        exact = Oracle(rows.take(mask)).answer(Question(**form, **about))
        assert answer.value == pytest.approx(exact, nan_ok=True), (text, form)
        assert answer.exact or np.isnan(exact), (text, form)
        other = masks[at - 1]
        part, whole = (Oracle(rows.take(one)).answer(Question("count", **about)) for one in (mask & other, other))
        share = sketch.answer(Question("selectivity", **about, where=Predicate.parse(texts[at - 1]), share=where))
        assert share.value == pytest.approx(part / whole if whole else np.nan, nan_ok=True), (text, texts[at - 1])


RARE = (
    "value > 800 or weight in (3, 5, 8)",
    "not (value between 50 and 900) and weight != 200",
    "value in (1, 2, 3, 8, 13, 400) or value > 900 and weight < 1000",
    f"time >= {START + 900} and time < {START + 2400} and value != 4",
    "value > 990 or value < 10 and weight < 20",
)


def test_thinned_samples_cover_what_a_predicate_leaves() -> None:
    """Counts, sums, means and shares from samples that keep a part of the events: no more misses than stated.

    Rows were counted, so that an answer could lean on totals, which are of all events.
    """
    rows = STREAMS["correlated"](6_000, 8)
    events = rows.distinct()
    masks = selected(RARE, events)
    asked: list[tuple[Question, float]] = []
    for text, mask in zip(RARE, masks, strict=True):
        about = {"decay": "exp:half_life=20m", "as_of": NEWEST}
        some = Oracle(events.take(mask))
        for aggregate in ("count", "sum", "mean", "median"):
            exact = some.answer(Question(aggregate, **about))
            asked.append((Question(aggregate, **about, where=Predicate.parse(text)), exact))
        part, whole = (one.answer(Question("count", **about)) for one in (some, Oracle(events)))
        asked.append((Question("selectivity", **about, share=Predicate.parse(text)), part / whole))
    counted, certain = Tally(), 0
    for seed in range(24):
        arrived = Events.of(rows.ids, rows.t, rows.v, rows.w)
        sketch = Sample.partial(arrived, np.zeros(len(rows), np.int32), [""], epsilon=0.2, seed=seed, detail=1)
        for question, truth in asked:
            found = sketch.answer(question)
            slack = 1e-9 * abs(truth)
            counted.trials += 1
            counted.above += truth > found.upper + slack
            counted.below += truth < found.lower - slack
            certain += found.exact
    assert certain < 0.1 * counted.trials
    assert not counted.too_many(0.05)


def test_a_stretch_of_time_that_was_kept_whole_is_exact() -> None:
    """What was thinned outside of it adds no doubt."""
    rows = STREAMS["correlated"](6_000, 8).distinct()
    sketch = build(rows, 3, 0.2, 0.05)
    recent = int(np.sort(rows.t)[-200])
    found = sketch.answer(Question("count", where=Predicate.parse(f"time >= {recent}")))
    assert found.exact
    assert found.value == (rows.t >= recent).sum()
    assert not sketch.answer(Question("count", where=Predicate.parse(f"time < {recent}"))).exact


def test_weights_are_those_of_events_however_often_rows_are_counted() -> None:
    """Where rows are counted, an event of weight 3 that came twice is not one of weight 6."""
    events = Events.of([1, 1, 2], [10, 10, 11], [7, 7, 8], [3, 3, 6])
    sketch = Sample.partial(events, np.zeros(3, np.int32), ["a"])
    by_row = sketch.of(None, Repeats.COUNTED)
    for text, rows, share in (("weight >= 5", 1, 1 / 3), ("weight = 3", 2, 2 / 3), ("weight in (3, 4)", 2, 2 / 3)):
        where = Predicate.parse(text)
        assert by_row.answer(Question("count", where=where)).value == rows
        assert by_row.answer(Question("selectivity", share=where)).value == pytest.approx(share)
    found = sketch.answer(Question("count", where=Predicate.parse("weight = 3")))
    assert found.seen is not None
    assert (found.value, found.seen.rows.estimate) == (1, 2)


def test_a_sample_does_not_know_other_columns() -> None:
    """A column that is not kept is refused, never ignored."""
    sketch = Sample.build(Events.of([1], [10], [7]))
    with pytest.raises(UnanswerableError, match="by time, value, weight and fields, not by source"):
        sketch.answer(Question("count", where=Predicate.parse("source = 'a'")))
