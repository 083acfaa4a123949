"""Exact answers to every form of question: predicates, counting, thresholds, newest events, weights of 0 and in steps.

The truth is the oracle's, over the rows as a person has them: weights in their own unit, repeats forgiven or counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sketches.errors import QuestionError, UnanswerableError
from sketches.event_rules import MAX_TIME, MAX_WEIGHT, PlainColumn
from sketches.events import Kind
from sketches.predicate import Predicate, Range
from sketches.question import Question
from sketches.vocabulary import AGGREGATES
from store import InputFile, Run, SketchTables, StoreError, Stream, commit
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, raw_files
from store.writing.ledger import fingerprint
from tests.support.oracle import DECAYS, KEY_AGGREGATES, Oracle, random_question
from tests.support.predicates import random_predicates, selected
from tests.support.stores import EPOCH, NOON, STREAM, overlapping
from tests.support.streams import START, STREAMS, joined
from tests.support.streams import Stream as Rows

SITES = ("north", "south", "west")
MORE_DECAYS = ("last:1", "last:50", "last:700", "last:100000", "power:alpha=0.5,unit=1m", "table:0=7,30m=2,1h=0")
TAUS = ("median", "mean", "q0.9", "2*median", "1.5*mean", "0.5*q0.75", "0.001*mean")
SUMS = ("sum", "mean", "range-sum", "correlated-sum", "correlated-mean")
BASIC = {"source": "site", "id": "id", "time": "t", "value": "v", "weight": "w"}


@dataclass(frozen=True)
class Case:
    """A stream as ingest would describe it, with what its rows are to the person who asks."""

    exact: Exact
    by_site: dict[str, Rows]
    counts_repeats: bool

    def oracle(self, sources: Sequence[str]) -> Oracle:
        rows = joined([self.by_site[site] for site in sources or self.by_site])
        return Oracle(replace(rows, ids=np.arange(len(rows)))) if self.counts_repeats else Oracle(rows)


def opened(folder: Path, table: pa.Table, kind: Kind, **settings: Any) -> Exact:
    """The exact events of one Parquet file."""
    path = folder / "rows.parquet"
    pq.write_table(table, path)
    status = path.stat()
    file = InputFile(
        str(path), status.st_size, fingerprint(str(path)), len(table), status.st_mtime_ns, -MAX_TIME, MAX_TIME
    )
    known = {"input": [f"{folder}/*"], "format": "parquet", **BASIC, "kind": str(kind), "families": ["sample"]}
    stream = Stream(STREAM, EPOCH, settings={**known, **settings})
    commit(folder / "wane.duckdb", Run(stream, SketchTables.of([]), NOON, NOON, files=[file]))
    return Exact(raw_files(folder / "wane.duckdb", STREAM))


def table_of(by_site: dict[str, Rows]) -> pa.Table:
    parts = [
        pa.table({"site": [site] * len(rows), "id": rows.ids, "t": rows.t, "v": pa.array(rows.v.tolist()), "w": rows.w})
        for site, rows in by_site.items()
    ]
    return pa.concat_tables(parts)


def raw_rows(name: str) -> Rows:
    """Zipf values with weights of which a third are 0; whole numbers, floats or keys."""
    rows = STREAMS["zipf"](1200, 7)
    weights = np.where(rows.ids % 3 == 0, 0, rows.w)
    values: Any = {"floats": rows.v / 8 - 3.25, "keys": [f"k'{value % 50}\"" for value in rows.v.tolist()]}.get(
        name, rows.v
    )
    return Rows.of(name, rows.ids, rows.t, values, weights)


CASES = [
    ("whole", "1", "forgive"),
    ("floats", "0.01", "forgive"),
    ("keys", "0.25", "count"),
    ("whole", "1e-3", "count"),
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Sites that report some events alike and repeat their rows; among them rows that ingest rejects."""
    name, step, repeats = request.param
    rows: Any = raw_rows(name)
    if step != "1":
        size = Fraction(step)
        rows = replace(rows, w=rows.w * size.numerator / size.denominator)
    by_site = {site: one.duplicated(3, 3) for site, one in overlapping(rows, SITES, seed=5).items()}
    kind = {"i": Kind.INTEGER, "f": Kind.FLOAT}.get(rows.v.dtype.kind, Kind.KEY)
    table = table_of(by_site)
    rejected = table.slice(0, 40)
    wrong = [-1.0, -float(Fraction(step)), 1.5 * float(Fraction(step)), math.nan] * 10
    rejected = rejected.set_column(4, "w", pa.array(wrong if step != "1" else [-1] * 40))
    settings = {"weight_step": float(step), "repeats": repeats}
    folder = tmp_path_factory.mktemp("exact")
    with opened(folder, pa.concat_tables([rejected, table]), kind, **settings) as exact:
        assert exact.events == len(table)
        yield Case(exact, by_site, repeats == "count")


def near(found: float, truth: float) -> bool:
    return math.isclose(found, truth, rel_tol=1e-10, abs_tol=1e-300) or (math.isnan(found) and math.isnan(truth))


def random_where(rng: np.random.Generator, rows: Rows) -> Predicate:
    """Ranges with ends on values and weights that occur, so that open and closed differ; or a key."""
    if rows.is_text and rng.random() < 0.5:
        return Predicate.of(rows.v[int(rng.integers(len(rows)))])
    ranges = {}
    for name, column in (("weight", rows.w), ("value", rows.v))[: 1 if rows.is_text else 2]:
        low, high = sorted(rng.choice(column, 2).tolist())
        ends = (rng.random(4) < 0.5).tolist()
        if ends[0] or ends[1]:
            ranges[name] = Range(low if ends[0] else -math.inf, high if ends[1] else math.inf, ends[2], ends[3])
    try:
        return Predicate.of(None, **ranges)
    except QuestionError:
        return Predicate()


def asked(rng: np.random.Generator, rows: Rows, aggregate: str, decay: str) -> Question:
    of: Any = "value" if aggregate in SUMS and not rows.is_text and rng.random() < 0.5 else "weight"
    counting: Any = "weight" if rng.random() < 0.5 else "events"
    question = random_question(rng, rows, aggregate, [decay], of=of, counting=counting, tau_as_quantile=0)
    if question.tau is not None and rng.random() < 0.5:
        question = replace(question, tau=TAUS[int(rng.integers(len(TAUS)))])
    question = question if question.as_of is not None else question.at(int(rows.t.max()))
    return replace(question, where=random_where(rng, rows)) if rng.random() < 0.7 else question


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", [name for name in AGGREGATES if name not in ("heavy-hitters", "inner-product")])
def test_random_questions_have_the_oracle_s_answer(case: Case, aggregate: str) -> None:
    """Any predicate, counting, measure, threshold and decay, the newest events among them, of any sources."""
    if case.exact.kind is Kind.KEY and aggregate not in KEY_AGGREGATES:
        pytest.skip("needs ordered values")
    rng = np.random.default_rng([4, len(aggregate), len(case.by_site["north"])])
    for number, decay in enumerate((*DECAYS, *MORE_DECAYS)):
        sources = ((), ("north",), ("north", "west"))[number % 3]
        oracle = case.oracle(sources)
        question = asked(rng, oracle.events, aggregate, decay)
        assert near(case.exact.answer(question, sources=sources), oracle.answer(question)), (question, sources)


@pytest.mark.slow
def test_random_shares_and_joins_are_the_oracle_s(case: Case) -> None:
    rng = np.random.default_rng(8)
    for decay in (*DECAYS, *MORE_DECAYS):
        oracle, other = case.oracle(("west",)), case.oracle(("north",))
        question = asked(rng, oracle.events, "inner-product", decay)
        found = case.exact.answer(question, sources=["west"], other="north")
        assert near(found, oracle.answer(question, other)), question
        listed = asked(rng, oracle.events, "heavy-hitters", decay)
        truth = oracle.shares(listed)
        every = case.exact.shares(listed, sources=["west"], every=True)
        assert {value: share for value, share in every if not near(share, truth[value])} == {}
        assert len(every) == len(truth)


def test_any_predicate_has_the_oracle_s_answer(case: Case) -> None:
    """Whatever restricts, also by source, and the share of whatever satisfies it, as SQL over the raw files."""
    rng = np.random.default_rng(19)
    sources = ("north", "west")
    rows = case.oracle(sources).events
    texts = random_predicates(rng, rows, 40)
    masks = selected(texts, rows)
    about: dict[str, Any] = {"decay": "exp:half_life=10m", "as_of": int(rows.t.max()), "counting": "events"}
    for at, (text, mask) in enumerate(zip(texts, masks, strict=True)):
        only = Oracle(replace(rows.take(mask), ids=np.arange(mask.sum())))
        where = Predicate.parse(f"source in ('north', 'west') and ({text})")
        for aggregate in ("count", "sum"):
            truth = only.answer(Question(aggregate, **about))
            assert near(case.exact.answer(Question(aggregate, **about, where=where)), truth), text
        if any(masks[at - 1]):
            question = Question(
                "selectivity", **about, where=Predicate.parse(texts[at - 1]), share=Predicate.parse(text)
            )
            part, whole = (
                Oracle(replace(rows.take(one), ids=np.arange(one.sum()))).answer(Question("count", **about))
                for one in (mask & masks[at - 1], masks[at - 1])
            )
            assert near(case.exact.answer(question, sources=sources), part / whole), (text, texts[at - 1])


def test_several_shares_are_answered_at_once(case: Case) -> None:
    """In the order in which they were asked; the single answer is the first."""
    if case.exact.kind is Kind.KEY:
        with pytest.raises(UnanswerableError, match="needs ordered values"):
            case.exact.quantiles(Question("quantile", phi=0.5))
        return
    oracle = case.oracle(())
    shares = (0.9, 0.01, 0.5, 0.5, 0.999)
    for where in (Predicate(), Predicate.of(None, weight=Range(0, open_low=True))):
        question = Question("quantile", "exp:half_life=10m", phis=shares, where=where, counting="weight")
        truth = [oracle.answer(replace(question, phis=(), phi=phi)) for phi in shares]
        assert case.exact.quantiles(question).tolist() == truth
        assert case.exact.answer(question) == truth[0]
        assert case.exact.quantiles(Question("median")).tolist() == [oracle.answer(Question("median"))]
        assert np.isnan(case.exact.quantiles(question, START - 10)).all()


FIVE = Rows.of("calls", range(5), [10, 11, 12, 13, 14], [60, 120, 180, 600, 3600], [1, 1, 1, 1, 96])


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exact]:
    with opened(tmp_path_factory.mktemp("calls"), table_of({"a": FIVE}), Kind.INTEGER) as exact:
        yield exact


@pytest.mark.parametrize(
    ("settings", "truth"),
    [
        ({"aggregate": "median"}, 180),
        ({"aggregate": "median", "counting": "weight"}, 3600),
        ({"aggregate": "count"}, 5),
        ({"aggregate": "count", "counting": "weight"}, 100),
        ({"aggregate": "sum", "counting": "weight"}, 100),
        ({"aggregate": "mean", "counting": "weight"}, 20),
        ({"aggregate": "mean", "of": "value"}, 912),
        ({"aggregate": "mean", "of": "value", "counting": "weight"}, 3465.6),
        ({"aggregate": "mean", "high": 60}, 1),
        ({"aggregate": "mean", "where": Predicate.parse("value < 60")}, math.nan),
        ({"aggregate": "mean", "where": Predicate.parse("value <= 600")}, 1),
        ({"aggregate": "count", "where": Predicate.parse("weight > 1")}, 1),
        ({"aggregate": "count", "where": Predicate.parse("value < 120.5")}, 2),
        ({"aggregate": "count", "where": Predicate.parse("value <= 119.5")}, 1),
        ({"aggregate": "count", "where": Predicate.parse("value > 119.5")}, 4),
        ({"aggregate": "count", "where": Predicate.parse("value >= 120.5 and weight < 1.5")}, 2),
        ({"aggregate": "median", "where": Predicate.parse("weight <= 1")}, 120),
        ({"aggregate": "sum", "tau": "median", "where": Predicate.parse("value < 3600")}, 2),
        ({"aggregate": "count", "tau": "2*median"}, 2),
        ({"aggregate": "count", "tau": "mean"}, 1),
        ({"aggregate": "count", "tau": "0.5*mean", "counting": "weight"}, 96),
        ({"aggregate": "range-sum", "low": 100, "high": 700, "of": "value"}, 900),
        ({"aggregate": "selectivity", "low": 100, "where": Predicate.parse("value < 3600")}, 0.75),
        ({"aggregate": "count", "where": Predicate.parse("value in (60, 180) or weight > 50")}, 3),
        ({"aggregate": "count", "where": Predicate.parse("not (value != 60 and weight < 50)")}, 2),
        ({"aggregate": "count", "where": Predicate.parse("time >= '1970-01-01T00:00:12' and source like 'a%'")}, 3),
        ({"aggregate": "count", "where": Predicate.parse("value is null or time is not null")}, 5),
        ({"aggregate": "sum", "where": Predicate.parse("value >= median(value) and value != 600")}, 97),
        ({"aggregate": "selectivity", "share": Predicate.parse("value != 60")}, 0.8),
        ({"aggregate": "selectivity", "share": Predicate.parse("value >= 2 * median(value)")}, 0.4),
        ({"aggregate": "count", "where": Predicate.of(None, value=Range(60, 60, open_low=True))}, 0),
        ({"aggregate": "count", "decay": "last:2"}, 2),
        ({"aggregate": "sum", "decay": "last:2", "where": Predicate.parse("value < 3600")}, 1),
        ({"aggregate": "sum", "decay": "last:2", "as_of": 12, "of": "value"}, 300),
        ({"aggregate": "sum", "decay": "last:9"}, 100),
        ({"aggregate": "count", "decay": "last:3", "as_of": 9}, 0),
        ({"aggregate": "count", "decay": "table:0=5,1h=5"}, 25),
    ],
)
def test_five_calls(calls: Exact, settings: dict[str, Any], truth: float) -> None:
    """Calls of 60, 120, 180, 600 and 3,600 s with losses 1, 1, 1, 1, 96: answers that one can work out by hand."""
    found = calls.answer(Question(**settings))
    assert found == pytest.approx(truth, rel=1e-12, nan_ok=True)


def test_the_newest_events_include_those_at_the_time_of_the_oldest(tmp_path: Path) -> None:
    """Two of three events at one second are asked for: all three count. Repeats are one event, or each its own."""
    rows = Rows.of("ties", [1, 2, 3, 4, 4, 4], [10, 20, 20, 30, 30, 30], [1, 1, 1, 1, 1, 1])
    for repeats, truths in (("forgive", [1, 3, 3, 4]), ("count", [3, 3, 3, 5, 5, 6])):
        folder = tmp_path / repeats
        folder.mkdir()
        with opened(folder, table_of({"a": rows}), Kind.INTEGER, repeats=repeats) as exact:
            found = [exact.answer(Question("count", f"last:{number + 1}")) for number in range(len(truths))]
            assert found == truths


def test_a_stream_settles_what_a_question_leaves_open(tmp_path: Path) -> None:
    """It counts as the stream's setting says, and sums the value where the stream has numbers and no weight."""
    by_weight, weightless, keys = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    for folder in (by_weight, weightless, keys):
        folder.mkdir()
    with opened(by_weight, table_of({"a": FIVE}), Kind.INTEGER, counting="weight") as exact:
        assert exact.answer(Question("median")) == 3600
        assert exact.answer(Question("median", counting="events")) == 180
        assert exact.answer(Question("sum")) == 100
    with opened(weightless, table_of({"a": FIVE}), Kind.INTEGER, weight="1") as exact:
        assert exact.answer(Question("mean")) == 912
        assert exact.answer(Question("mean", of="weight")) == 1
    texts = replace(FIVE, v=np.array(list("aabbb"), object))
    with opened(keys, table_of({"a": texts}), Kind.KEY, weight="1") as exact:
        assert exact.answer(Question("sum")) == 5


def test_as_of_is_the_stream_s_newest_event_whatever_the_sources(tmp_path: Path) -> None:
    """For a source that went silent, the last ten seconds are empty."""
    silent = Rows.of("silent", [1, 2], [10, 11], [1, 1])
    with opened(tmp_path, table_of({"now": replace(silent, t=silent.t + 100), "then": silent}), Kind.INTEGER) as exact:
        assert exact.answer(Question("count", "window:10s"), sources=["then"]) == 0
        assert exact.answer(Question("count", "window:10s", 11), sources=["then"]) == 2


def test_conditions_that_the_values_cannot_have_are_refused(tmp_path: Path) -> None:
    """Ranges need numbers; text that is a number is that number to a stream of numbers."""
    texts = replace(FIVE, v=np.array(list("aabbb"), object))
    with opened(tmp_path, table_of({"a": texts}), Kind.KEY) as exact:
        assert exact.answer(Question("sum", value="b")) == 98
        assert exact.answer(Question("count", where=Predicate.parse("value = 'b' and weight < 96"))) == 2
        with pytest.raises(UnanswerableError, match=r"the value is at most 5: that needs numbers"):
            exact.answer(Question("sum", high=5))
    folder = tmp_path / "numbers"
    folder.mkdir()
    with opened(folder, table_of({"a": FIVE}), Kind.INTEGER) as exact:
        assert exact.answer(Question("sum", value="600")) == 1
        with pytest.raises(UnanswerableError, match="this stream's values are numbers"):
            exact.answer(Question("sum", value="b"))


WEIGHTS: dict[str, tuple[pa.Array, str, list[int]]] = {
    "a hundredth": (pa.array([0.0, 0.07, 0.1 + 0.2, 1, 0.005, 0.010000001, 0.01001, None]), "0.01", [0, 1, 7, 30, 100]),
    "not there": (pa.array([-0.01, -1.0, math.nan, math.inf, -math.inf, 1e300]), "0.01", []),
    "rounds to 0": (pa.array([-1e-9, 1e-9, -1e-7]), "0.01", [0, 0]),
    "32 bits": (pa.array([0.07, 655.36, 0.075], pa.float32()), "0.01", [7, 65536]),
    "32 bits between steps": (pa.array([713938.125, 598331.625], pa.float32()), "0.01", [59833162, 71393812]),
    "whole": (pa.array([0, 3, 7, -5]), "0.5", [0, 6, 14]),
    "of larger steps": (pa.array([0, 5, 7, 10, 12.5]), "5", [0, 1, 2]),
    "decimals": (pa.array([1.25, 1.2], pa.float64()).cast(pa.decimal128(9, 2)), "0.25", [5]),
    "thirds": (pa.array([1 / 3, 0.3, 2 / 3]), "1e-9", [300_000_000]),
    "the largest": (pa.array([MAX_WEIGHT / 100, MAX_WEIGHT / 100 + 0.01]), "0.01", [MAX_WEIGHT]),
    "digits run out": (pa.array([1e10 + 0.01, 123456789.12]), "0.01", [12345678912, 10**12 + 1]),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_whole_numbers_of_steps(name: str, tmp_path: Path) -> None:
    """Within a millionth of a step, or as near as a float comes; others, and negative ones, are rejected."""
    column, step, truth = WEIGHTS[name]
    count = len(column)
    table = pa.table({"site": ["a"] * count, "id": range(count), "t": [9] * count, "v": [3] * count, "w": column})
    with opened(tmp_path, table, Kind.INTEGER, weight_step=float(step)) as exact:
        assert sorted(row[0] for row in exact._execute("SELECT w FROM events")) == truth
        total = float(sum(truth) * Fraction(step))
        assert exact.answer(Question("sum"), 9) == pytest.approx(total, rel=1e-14)
        assert exact.answer(Question("count", counting="weight"), 9) == pytest.approx(total, rel=1e-14)


def test_conditions_on_weights_are_in_the_user_s_unit(tmp_path: Path) -> None:
    """0.07 is 7 steps, although 7 times 0.01 is a little more."""
    weights = pa.array([0.06, 0.07, 0.08, 0.3])
    table = pa.table({"site": ["a"] * 4, "id": range(4), "t": [9] * 4, "v": [3] * 4, "w": weights})
    truths = {"weight >= 0.07": 3, "weight > 0.07": 2, "weight <= 0.07": 2, "weight < 0.07": 1, "weight = 0.07": 1}
    with opened(tmp_path, table, Kind.INTEGER, weight_step=0.01) as exact:
        for text, truth in truths.items():
            assert exact.answer(Question("count", where=Predicate.parse(text))) == truth, text
        between = Predicate.of(None, weight=Range(0.065, 0.1 + 0.2))
        assert exact.answer(Question("count", where=between)) == 3


def test_text_is_no_weight_in_steps(tmp_path: Path) -> None:
    table = pa.table({"site": ["a"], "id": [1], "t": [9], "v": [3], "w": ["0.5"]})
    with pytest.raises(StoreError, match="`w` is of type VARCHAR, which cannot be checked here as a weight"):
        opened(tmp_path, table, Kind.INTEGER, weight_step=0.5)


def test_the_settings_of_a_stream_are_read(tmp_path: Path) -> None:
    """An old store says nothing of steps, counting and repeats: whole weights, events, forgiven."""
    old = RawFiles(STREAM)
    assert (old.weight_step, old.counting, old.counts_repeats) == (Fraction(1), "events", False)
    settings = {"weight_step": "0.01", "counting": "weight", "repeats": "count"}
    with opened(tmp_path, table_of({"a": FIVE}), Kind.INTEGER, **settings) as exact:
        raw = exact.raw
        assert (raw.weight_step, raw.counting, raw.counts_repeats) == (Fraction(1, 100), "weight", True)
        assert raw.has_weight
        assert not replace(raw, columns={**raw.columns, "weight": PlainColumn(None, 1)}).has_weight
