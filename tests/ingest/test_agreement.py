"""The same question to every family, against exact SQL over the raw rows, in thousands of random cases.

The SQL is written from the sentences that people read on the screen (what an event is, what counts, what restricts) and
knows nothing of the sketches. The raw rows have weights of 0, fractions, repeats and rows that must be rejected.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from sketches.errors import UnanswerableError
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.registry import FAMILIES
from store import Store
from tests.support.runs import configure, ingest

CASES = int(os.environ.get("WANE_CASES", "300"))  # 3,000 take about two minutes
ROWS = 3_000
START = 1_700_000_400  # the beginning of an epoch
SPAN = 3_600
STEP = 0.25
HALF_LIFE = 600
KEPT = ("sample", "integral", "histogram", "qdigest", "exponential", "wbmh", "ecm", "retractable")
FIXED = "".join(
    f'[streams.calls.{family}]\ndecay = "exp:half_life=10m"\n' for family in ("integral", "exponential", "retractable")
)
DOMAIN = '[streams.calls.ecm]\nbits = 8\n[streams.calls.wbmh]\ndecay = "poly:alpha=1,unit=5m"\n'
DECAYS = ("exp:half_life=10m", "exp:half_life=10m", "window:15m", "none", "last:400", "poly:alpha=1,unit=5m")


@dataclass(frozen=True)
class Case:
    """One stream as it was ingested, its raw rows, and how it treats repeats."""

    name: str
    store: Store
    raw: Path
    counting: str
    repeats: bool  # whether rows repeat
    outcomes: Counter[str] = field(default_factory=Counter)


def raw_rows(seed: int, *, repeats: bool) -> pa.Table:
    """Calls with fractions and zeros for losses; some rows have no time, a negative loss or a broken fraction."""
    rng = np.random.default_rng(seed)
    source = rng.choice(["north", "south"], ROWS)
    times: list[int | None] = rng.integers(START, START + SPAN, ROWS).tolist()
    values = np.minimum(rng.geometric(0.02, ROWS), 200)
    weights = np.where(rng.random(ROWS) < 0.4, 0, rng.geometric(0.05, ROWS)) * STEP
    spoiled = rng.random(ROWS)
    weights = np.where(spoiled < 0.03, -1.0, np.where(spoiled < 0.06, weights + 0.1, weights))
    for row in np.flatnonzero(spoiled > 0.97).tolist():
        times[row] = None
    table = pa.table(
        {"source": source, "id": np.arange(ROWS), "t": pa.array(times, pa.int64()), "v": values, "w": weights}
    )
    again = rng.choice(ROWS, ROWS // 2) if repeats else np.empty(0, np.int64)
    return pa.concat_tables([table, table.take(pa.array(again))])


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Three streams: with repeats, without, and without where each event counts by its weight."""
    found = []
    for name, counting, repeats in (
        ("repeats", "events", True),
        ("events", "events", False),
        ("weight", "weight", False),
    ):
        folder = tmp_path_factory.mktemp(name)
        (folder / "raw").mkdir()
        raw = folder / "raw" / "calls.parquet"
        pq.write_table(raw_rows(len(name), repeats=repeats), raw)
        more = f"families = {json.dumps(KEPT)}\nweight_step = {STEP}\nunique = {str(not repeats).lower()}\n"
        settings = configure(folder, more + FIXED + DOMAIN, counting=counting)
        assert ingest(settings, None, engine="local").exit_code == 0
        found.append(Case(name, Store(settings.store), raw, counting, repeats))
    return found


class Sql:
    """Exact answers over the raw rows of a case, written from the sentences."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.connection = duckdb.connect()
        self.connection.execute(f"CREATE TABLE raw AS FROM read_parquet('{case.raw}')")
        # a row is an event if it has a time and a weight of at least 0 that is a multiple of the step
        self.connection.execute(
            f"CREATE TABLE taken AS SELECT * FROM raw WHERE t IS NOT NULL AND w >= 0 "
            f"AND abs(w / {STEP} - round(w / {STEP})) < 1e-6"
        )
        self.newest = self.one("SELECT max(t) FROM taken")

    def one(self, query: str) -> Any:
        [(number,)] = self.connection.execute(query).fetchall()
        return number

    def answer(self, question: Question, typed: str, sources: list[str], *, rows: bool) -> float:
        """The answer to a question whose predicate was typed so; `rows`: a row counts as often as it came."""
        as_of = self.newest if question.as_of is None else question.as_of
        among = f"WHERE source IN ({', '.join(map(repr, sources))})" if sources else ""
        distinct = "" if rows else "DISTINCT"
        events = f"SELECT {distinct} id, t, v, w FROM taken {among}"
        seen = f"SELECT * FROM ({events}) WHERE t <= {as_of}"
        counts = "w" if question.counting == "weight" else "1.0"
        faded = f"SELECT *, {counts} AS c, {self._fading(question.decay.spec, as_of, seen)} AS f FROM ({seen})"
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE everything AS {faded}")
        matching = typed.replace("value", "v").replace("weight", "w") or "true"
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE about AS SELECT * FROM everything WHERE {matching}")
        return self._aggregate(question)

    def _fading(self, decay: str, as_of: int, seen: str) -> str:
        age = f"({as_of} - t)"
        match decay.partition(":")[0]:
            case "none":
                return "1.0"
            case "window":
                return f"CASE WHEN {age} < 900 THEN 1.0 ELSE 0.0 END"
            case "exp":
                return f"pow(2.0, -{age} / {HALF_LIFE}.0)"
            case "poly":
                return f"1.0 / (1.0 + {age} / 300.0)"
        newest = decay.removeprefix("last:")
        first = f"(SELECT min(t) FROM (SELECT t FROM ({seen}) ORDER BY t DESC LIMIT {newest}))"
        return f"CASE WHEN t >= {first} THEN 1.0 ELSE 0.0 END"

    def _quantile(self, table: str, phi: float) -> float | None:
        found = self.one(
            "SELECT min(v) FROM (SELECT v, sum(sum(c * f)) OVER (ORDER BY v) AS reached, "
            f"sum(sum(c * f)) OVER () AS whole FROM {table} GROUP BY v) "
            f"WHERE reached >= {phi!r} * whole * (1 - 1e-12) AND whole > 0"
        )
        return None if found is None else float(found)

    def _threshold(self, tau: Any) -> float | None:
        """Over all events, before the predicate."""
        if not isinstance(tau, str):
            return float(tau)
        factor, _, what = tau.rpartition("*")
        if what == "mean":
            number = self.one("SELECT sum(c * v * f) / nullif(sum(c * f), 0) FROM everything")
        else:
            number = self._quantile("everything", 0.5 if what == "median" else float(what[1:]))
        return None if number is None else float(factor or 1) * float(number)

    def _aggregate(self, question: Question) -> float:
        of_value = question.of == "value"
        summed = "c * v * f" if of_value else "w * f"
        over = "c * f" if of_value else "f"
        name = question.aggregate
        if name in ("median", "quantile"):
            found = self._quantile("about", question.phi or 0.5)
            return math.nan if found is None else found
        if name == "self-join":
            return float(self.one("SELECT coalesce(sum(m * m), 0) FROM (SELECT sum(c * f) AS m FROM about GROUP BY v)"))
        which = "true"
        if question.tau is not None:
            tau = self._threshold(question.tau)
            which = "false" if tau is None else f"v >= {tau!r}"
        elif name in ("range-sum", "range-frequency", "selectivity"):
            which = f"v BETWEEN {question.low} AND {question.high}"
        elif name == "rank":
            which = f"v <= {question.value}"
        elif name == "frequency":
            which = f"v = {question.value}"
        if name.endswith("sum"):
            return float(self.one(f"SELECT coalesce(sum({summed}) FILTER ({which}), 0) FROM about"))
        if name.endswith("count"):
            return float(self.one(f"SELECT coalesce(sum(c * f) FILTER ({which}), 0) FROM about"))
        if name.endswith("mean"):
            top, bottom = f"sum({summed}) FILTER ({which})", f"sum({over}) FILTER ({which})"
        else:
            top, bottom = f"coalesce(sum(c * f) FILTER ({which}), 0)", "sum(c * f)"
        found = self.one(f"SELECT {top} / nullif({bottom}, 0) FROM about")
        return math.nan if found is None else float(found)


AGGREGATES = (
    "sum", "count", "mean", "selectivity", "rank", "quantile", "median", "frequency", "range-sum", "range-frequency",
    "correlated-sum", "correlated-count", "correlated-mean", "self-join",
)  # fmt: skip
PREDICATES = (
    "", "", "", "value < 60", "value > 20", "value >= 10 and value <= 80", "value = 7", "weight > 0",
    "weight >= 0.75 and weight < 6", "value < 90 and weight = 0", "value > 30 and weight > 2",
)  # fmt: skip
TAUS = (30, 100.5, "median", "q0.9", "mean", "2*median", "1.5*mean")


def random_case(rng: np.random.Generator) -> tuple[dict[str, Any], str, list[str]]:
    """A question's fields, its predicate as typed, and the sources."""
    name = str(rng.choice(AGGREGATES))
    fields: dict[str, Any] = {"aggregate": name, "decay": str(rng.choice(DECAYS)), "counting": None}
    if rng.random() < 0.3:
        fields["counting"] = str(rng.choice(["events", "weight"]))
    if rng.random() < 0.4:
        fields["as_of"] = int(rng.integers(START + SPAN // 3, START + SPAN))
    if name in ("sum", "mean", "range-sum", "correlated-sum", "correlated-mean") and rng.random() < 0.4:
        fields["of"] = "value"
    if name == "quantile":
        fields["phi"] = float(np.round(rng.uniform(0.05, 0.95), 3))
    if name in ("rank", "frequency"):
        fields["value"] = int(rng.integers(1, 120))
    if name in ("range-sum", "range-frequency", "selectivity"):
        low = int(rng.integers(0, 80))
        fields |= {"low": low, "high": low + int(rng.integers(0, 80))}
    if name.startswith("correlated-"):
        fields["tau"] = TAUS[int(rng.integers(len(TAUS)))]
    sources = [[], ["north"], ["south"]][int(rng.integers(3))]
    return fields, str(rng.choice(PREDICATES)), sources


@pytest.mark.slow
def test_every_family_answers_the_question_on_the_screen(cases: list[Case]) -> None:
    """Certain bounds always hold the exact answer, likely ones as often as they say; and so all of them overlap."""
    rng = np.random.default_rng(13)
    oracles = {case.name: Sql(case) for case in cases}
    misses: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    false: list[str] = []
    for number in range(CASES):
        case = cases[number % len(cases)]
        fields, typed, sources = random_case(rng)
        question = Question(**fields, where=Predicate.parse(typed) if typed else Predicate())
        meant = Question(**(fields | {"counting": fields["counting"] or case.counting}))
        truths = {rows: oracles[case.name].answer(meant, typed, sources, rows=rows) for rows in {False, case.repeats}}
        for family in (None, *KEPT):
            try:
                answer = case.store.ask("calls", question, sources=sources, family=family)
            except UnanswerableError:
                asked[f"{family} refused"] += 1
                continue
            answered = FAMILIES[answer.estimate.family]
            truth = truths[case.repeats and not answered.abilities.forgives_repeats]
            assert family is not None or answered.abilities.forgives_repeats or not case.repeats
            held = holds(answer.estimate, truth)
            name = answer.estimate.family if answer.estimate.confidence < 1 else "certain"
            asked[name] += 1
            misses[name] += not held
            if not held and name == "certain":
                estimate = answer.estimate
                said = f"{answer.estimate.family}: {answer.provenance.asked}, {question.decay.spec} at {question.as_of}"
                false.append(f"{case.name}: {said}: {estimate.lower} to {estimate.upper}, but {truth}")
    assert not false, f"{len(false)} of {asked['certain']}:\n" + "\n".join(false[:20])
    for name, missed in misses.items():
        assert missed <= binom.ppf(1 - 1e-4, asked[name], 0.05), (name, missed, asked[name])
    for family in KEPT:
        assert asked[family] + asked["certain"] > 100, family


def holds(estimate: Any, truth: float) -> bool:
    if math.isnan(truth):
        return math.isnan(estimate.value) or estimate.confidence < 1 or estimate.lower <= estimate.upper
    slack = 1e-9 * abs(truth)
    return bool(estimate.lower - slack <= truth <= estimate.upper + slack)


@pytest.mark.parametrize("words", ["rejected", "exact for the rows taken", "each event counted once"])
def test_every_answer_says_what_was_rejected_and_what_counts(cases: list[Case], words: str) -> None:
    """Beside the number: how many rows were no events and why, and what is counted."""
    case = cases[1]
    lines = "\n".join(case.store.ask("calls", Question("median", "window:2m"), family="sample").lines(cases_unit(case)))
    assert words in lines


def cases_unit(case: Case) -> Any:
    return case.store.catalogue().streams["calls"].unit
