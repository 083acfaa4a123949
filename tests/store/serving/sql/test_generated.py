"""Generated statements answer as the Python API does, and their intervals hold the exact answers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from sketches import Question
from sketches.predicate import Predicate, columns_with
from store.serving.store import Store
from tests.support.streams import START
from tests.support.wide import Wide
from tests.support.wide_stores import REQUESTS, requests

DECAYS = {
    "": "none",
    " DECAY BY none": "none",
    " DECAY BY window(INTERVAL 20 MINUTES)": "window:20m",
    " DECAY BY exp(half_life => INTERVAL 10 MINUTES)": "exp:half_life=10m",
    " DECAY BY poly(alpha => 1.5, unit => INTERVAL 1 MINUTE)": "poly:alpha=1.5,unit=1m",
    " DECAY BY 'chordal:1h'": "chordal:1h",
    " WINDOW INTERVAL 20 MINUTES": "window:20m",
    " DECAY BY exp(half_life => INTERVAL 10 MINUTES) WINDOW INTERVAL 30 MINUTES": "exp:half_life=10m,window=30m",
}
WHERES = ("", "status = 500", "bytes > 2000 and cached = true", "path in ('/', '/it''s') or value < 40")
AGGREGATES: dict[str, dict[str, Any]] = {
    "count(*)": {"aggregate": "count"},
    "sum(bytes)": {"aggregate": "sum", "of": "bytes"},
    "mean(latency_ms)": {"aggregate": "mean", "of": "value"},
    "avg(bytes)": {"aggregate": "mean", "of": "bytes"},
    "median(latency_ms)": {"aggregate": "median"},
    "quantile(bytes, 0.9)": {"aggregate": "quantile", "of": "bytes", "phi": 0.9},
    "rank(latency_ms, 60)": {"aggregate": "rank", "value": 60},
    "ratio(bytes, *)": {"aggregate": "ratio", "of": "bytes", "per": "events"},
    "rate(*)": {"aggregate": "count", "per_second": True},
    "rate(bytes)": {"aggregate": "sum", "of": "bytes", "per_second": True},
}
ALONE: dict[str, dict[str, Any]] = {
    "stddev(bytes)": {"aggregate": "stddev", "of": "bytes"},
    "variance(latency_ms)": {"aggregate": "variance", "of": "value"},
    "frequency(path, '/cart')": {"aggregate": "frequency", "of": "path", "value": "/cart"},
    "share(status = 500)": {"aggregate": "selectivity", "share": "status = 500"},
}


class Asked(NamedTuple):
    """A statement but for its last clauses, and the same as a question."""

    select: str
    rest: str
    question: Question


@pytest.fixture(scope="module")
def wide() -> Wide:
    return requests()


def asked(rng: np.random.Generator, wide: Wide, *, alone: bool) -> Asked:
    known = AGGREGATES | (ALONE if alone else {})
    select, decay, where = (str(rng.choice(list(some))) for some in (known, DECAYS, WHERES))
    as_of = START + int(rng.integers(1800, 3600))
    columns = columns_with(wide.kinds)
    given = dict(known[select])
    if "share" in given:
        given["share"] = Predicate.parse(given["share"], columns)
    if where:
        given["where"] = Predicate.parse(where, columns)
    confidence = float(rng.choice([0.8, 0.95]))
    question = Question(**given, decay=DECAYS[decay], as_of=as_of, confidence=confidence)
    clauses = [decay, f" AS OF {as_of}", f" WITH CONFIDENCE {confidence}"]
    rest = "".join(clauses[at] for at in rng.permutation(3))
    return Asked(f"SELECT {select} AS found FROM requests{' WHERE ' + where if where else ''}", rest, question)


def same(found: list[float | None], expected: Any) -> bool:
    numbers = np.array([np.nan if one is None else one for one in found])
    return bool(np.array_equal(numbers, np.asarray(expected, np.float64), equal_nan=True))


def test_a_statement_answers_as_its_question_does(store: Store, wide: Wide) -> None:
    rng = np.random.default_rng(1)
    with store.held_open():
        for _ in range(250):
            one = asked(rng, wide, alone=True)
            found, expected = store.sql(one.select + one.rest).columns, store.ask(REQUESTS, one.question).estimate
            for name, number in (("", expected.value), ("_lower", expected.lower), ("_upper", expected.upper)):
                assert same(list(found[f"found{name}"]), [number]), one


def test_group_by_answers_as_a_split_does(store: Store, wide: Wide) -> None:
    rng = np.random.default_rng(2)
    with store.held_open():
        for _ in range(150):
            one = asked(rng, wide, alone=False)
            by = str(rng.choice(["source", "path", "status", "cached"]))
            split = store.split(REQUESTS, one.question, by=by).split
            expected = {name: at for at, name in enumerate(split.names) if not math.isnan(split.value[at])}
            bound = float(np.nanmedian(split.value)) if expected else 0.0
            kept = [name for name, at in expected.items() if split.value[at] >= bound]
            kept.sort(key=lambda name: -split.value[expected[name]])
            found = store.sql(
                f"{one.select} GROUP BY {by} HAVING found >= {bound!r} ORDER BY found DESC LIMIT 3{one.rest}"
            ).columns
            places = [expected[name] for name in found[by]]
            assert sorted(split.value[places].tolist()) == sorted(split.value[expected[name]] for name in kept[:3]), one
            for end, column in (("", split.value), ("_lower", split.lower), ("_upper", split.upper)):
                assert same(list(found[f"found{end}"]), column[places]), one


def test_every_answers_as_a_series_does(store: Store, wide: Wide) -> None:
    rng = np.random.default_rng(3)
    times = list(range(START + 600, START + 3601, 300))
    with store.held_open():
        for _ in range(100):
            one = asked(rng, wide, alone=False)
            rest = one.rest.replace(f" AS OF {one.question.as_of}", "")
            series, _ = store.series(REQUESTS, one.question, times)
            found = store.sql(
                f"{one.select}{rest} EVERY INTERVAL 5 MINUTES FROM {START + 600} TO {START + 3600}"
            ).columns
            known = np.flatnonzero(~np.isnan(series.value))
            assert list(found["as_of"]) == series.as_of[known].tolist()
            for end, column in (("", series.value), ("_lower", series.lower), ("_upper", series.upper)):
                assert same(list(found[f"found{end}"]), column[known]), one


def test_intervals_hold_the_exact_answers(store: Store, wide: Wide) -> None:
    """At 95% some of 60 may miss. They share one sample, so misses come together; more than 8 are too many."""
    rng, missed = np.random.default_rng(4), 0
    for _ in range(60):
        one = asked(rng, wide, alone=False)
        if one.question.per_second:
            continue
        found, exact = store.sql(f"{one.select}{one.rest.replace('0.8', '0.95')}").columns, wide.exact(one.question)
        lower, upper = found["found_lower"][0], found["found_upper"][0]
        missed += not (
            math.isnan(exact) or lower is None or (lower <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= upper)
        )
    assert missed <= 8
