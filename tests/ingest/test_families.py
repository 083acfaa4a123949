"""The deterministic families on real Spark: spread over tasks, files and runs, no answer is outside its bounds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ingest.driver import parquet_reading
from ingest.driver.configuration.settings import Settings
from sketches import Events, Question
from sketches.digests.decayed_masses import Masses
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.digests.wbmh import Wbmh
from sketches.registry import FAMILIES, load
from store import Answer, Store
from tests.support.oracle import Oracle
from tests.support.runs import EPOCH, WHOLE, configure, ingest, stored, totals, write
from tests.support.streams import STREAMS, Stream
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECAY = "exp:half_life=20m"
EPSILON = 0.2  # as `configure` has it
FOUR = (
    'unique = true\ncounting = "weight"\nfamilies = ["sample", "histogram", "qdigest", "exponential"]\n'
    f'[streams.calls.exponential]\ndecay = "{DECAY}"\n[streams.calls.histogram]\nepsilon = 0.1\n'
)
FINE = FOUR.replace(f'decay = "{DECAY}"', f'decay = "{DECAY}"\nepsilon = 0.005')  # as many masses as there are values
SURE = ("histogram", "qdigest", "exponential")
SOURCES = ("north", "south")
ANY_DECAY = ("none", "window:7m", DECAY, "poly:alpha=1.5,unit=1m")


def rows_of(rows: Stream, sources: Sequence[str]) -> Stream:
    """Those of some sources, as `write` gives them out."""
    return rows.take(np.isin(rows.ids % len(SOURCES), [SOURCES.index(source) for source in sources]))


def questions_for(family: str, text: bool) -> list[Question]:
    """Something of all that a family answers, under decays that it can."""
    decays = (DECAY,) if family == "exponential" else ANY_DECAY
    asked: list[dict[str, Any]] = [{"aggregate": aggregate} for aggregate in ("sum", "count", "mean")]
    asked += [{"aggregate": "heavy-hitters", "top": 5}, {"aggregate": "heavy-hitters", "phi": 0.05}]
    asked += [{"aggregate": "frequency", "value": "日本語" if text else 300}]
    if not text:
        asked += [{"aggregate": "median"}, {"aggregate": "quantile", "phi": 0.95}, {"aggregate": "rank", "value": 200}]
        asked += [{"aggregate": "correlated-sum", "tau": 700}, {"aggregate": "range-sum", "low": 100, "high": 400}]
    answered: tuple[str, ...] = FAMILIES[family].abilities.aggregates  # type: ignore[attr-defined]
    return [
        Question(decay=decay, counting="weight", **one)
        for one in asked
        if one["aggregate"] in answered
        for decay in decays
    ]


def check(answer: Answer, oracle: Oracle, question: Question) -> None:
    """The exact answer is within bounds that are sure, and those of sums and counts are as narrow as promised."""
    estimate = answer.estimate
    assert estimate.confidence == 1.0
    assert answer.provenance.complete
    if question.aggregate == "heavy-hitters":
        shares = oracle.shares(question)
        for item in estimate.items:
            assert item.lower - 1e-11 <= shares.get(item.value, 0.0) <= item.upper + 1e-11, (question, item)
        if question.phi is not None:
            listed = {item.value for item in estimate.items}
            assert {value for value, share in shares.items() if share > max(question.phi, EPSILON)} <= listed
        return
    exact = oracle.answer(question)
    slack = 1e-11 * abs(exact)
    assert estimate.lower - slack <= exact <= estimate.upper + slack, (question, estimate)
    if question.aggregate in ("sum", "count"):
        assert estimate.upper - estimate.lower <= 0.1 * exact + slack, (question, estimate)


def hold(settings: Settings, rows: Stream) -> None:
    """Every deterministic family against exact answers of all rows, of each source and of both."""
    store = Store(settings.store)
    estimated = 0
    for sources in ([], ["north"], ["south"]):
        oracle = Oracle(rows_of(rows, sources or SOURCES))
        for family in SURE:
            for question in questions_for(family, rows.is_text):
                answer = store.ask("calls", question, sources=sources, family=family)
                check(answer, oracle, question.at(int(rows.t.max())))
                estimated += not answer.estimate.exact
    assert estimated > 0, "else nothing was folded"


@pytest.mark.parametrize("name", ["late", "keys"])
def test_runs_tasks_and_files_keep_every_bound(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each epoch comes from many tasks, merged by the driver or by the workers, and again from a second, late run."""
    rows = STREAMS[name](9_000, 1).distinct()
    *first, late = rows.split(4, 2)
    for number, part in enumerate(first):
        write(tmp_path / f"raw/{number}.parquet", part, group=500)
    monkeypatch.setattr(parquet_reading, "_TASK_ROWS", 1500)
    monkeypatch.setattr("ingest.driver.spark.engine.FEW_TASKS", 3 if name == "late" else 1000)
    settings = configure(tmp_path, FOUR)
    summary = ingest(settings, spark)
    assert (summary.exit_code, summary.outcomes[0].rows) == (0, len(rows) - len(late))
    before = stored(settings)
    write(tmp_path / "raw/late.parquet", late, group=500)
    assert ingest(settings, spark).outcomes[0].rows == len(late)
    after = stored(settings)
    assert after.keys() == before.keys(), "the second run brings no new epochs"
    assert all(after[key] != before[key] for key in after)
    assert totals(settings)[0] == len(rows)
    hold(settings, rows)


@pytest.mark.parametrize("name", ["late", "keys", "floats"])
def test_small_epochs_are_as_one_machine_builds_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """While nothing is folded it is all the same where rows were sketched: the same bytes, the same masses."""
    rows = STREAMS[name](250, 3).distinct()
    for number, part in enumerate(rows.split(3, 4)):
        write(tmp_path / f"raw/{number}.parquet", part, group=20)
    monkeypatch.setattr(parquet_reading, "_TASK_ROWS", 40)
    settings = configure(tmp_path, FINE)
    assert ingest(settings, spark).exit_code == 0
    found = stored(settings)
    assert {family for *_, family in found} == {"sample", *SURE}
    starts = rows.t - rows.t % EPOCH
    for source, start in sorted({key[:2] for key in found if key != WHOLE}):
        some = rows_of(rows.take(starts == start), [source])
        events = Events.of(some.ids, some.t, some.v, some.w)
        exact = Histogram.build(events, epsilon=0.1, span=EPOCH)
        assert exact.kept == len(np.unique(some.t)), "nothing is folded"
        assert found[source, start, "histogram"] == exact.to_bytes()
        assert found[source, start, "qdigest"] == QDigest.build(events, epsilon=EPSILON, span=EPOCH).to_bytes()
        here, there = (
            load(found[source, start, "exponential"]),
            Exponential.build(events, decay=DECAY, epsilon=0.005, counting="weight"),
        )
        assert isinstance(here, Exponential)
        assert (here.parameters, here.extremes, here.kind) == (there.parameters, there.extremes, there.kind)
        assert here.labels.texts == there.labels.texts
        assert here.kept == len(set(some.v.tolist())), "nothing is folded"
        for column in dataclasses.fields(Masses):  # but for the rounding of scaled and added masses
            one, other = (getattr(sketch.masses, column.name) for sketch in (here, there))
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_one_sketch_of_a_source_grows_with_every_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever tasks and runs bring, in whatever order: one payload a source, whose tails are as narrow as promised."""
    rows = STREAMS["late"](6_000, 5).distinct()
    fading = "poly:alpha=1,unit=1m"
    settings = configure(
        tmp_path, f'unique = true\nfamilies = ["sample", "wbmh"]\n[streams.calls.wbmh]\ndecay = "{fading}"\n'
    )
    for number, part in enumerate(rows.split(3, 6)):
        write(tmp_path / f"raw/{number}.parquet", part, group=500)
        assert ingest(settings, spark).outcomes[0].rows == len(part)
    found = {key: payload for key, payload in stored(settings).items() if key[-1] == "wbmh"}
    assert set(found) == {("north", 0, "wbmh"), ("south", 0, "wbmh")}
    for source in SOURCES:
        alone = rows_of(rows, [source])
        events = Events.of(alone.ids, alone.t, alone.v, alone.w)
        one, other = load(found[source, 0, "wbmh"]), Wbmh.build(events, decay=fading, epsilon=EPSILON, span=EPOCH)
        assert isinstance(one, Wbmh)
        assert (one.parameters, one.blocks) == (other.parameters, other.blocks)
    store = Store(settings.store)
    for sources in ([], ["north"]):
        oracle = Oracle(rows_of(rows, sources or SOURCES))
        for tau in (100, 900, 990):
            question = Question("correlated-sum", fading, int(rows.t.max()), tau=tau)
            answer = store.ask("calls", question, sources=sources, family="wbmh")
            exact = oracle.answer(question)
            assert answer.provenance.complete
            assert answer.estimate.lower <= exact * (1 + 1e-9)
            assert exact <= answer.estimate.upper * (1 + 1e-9)
            assert answer.estimate.upper - answer.estimate.lower <= EPSILON * exact * (1 + 1e-9)
    query = ["query", "--store", str(settings.store), "--stream", "calls", "--aggregate", "correlated-count"]
    assert main([*query, "--tau", "990", "--decay", fading, "--family", "wbmh"]) == 0
    assert "of the answer wide" in capsys.readouterr().out


def test_the_command_line_asks_a_family(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`wane query --family` answers with certainty, and without it the planner says what it weighed."""
    rows = STREAMS["late"](4_000, 5).distinct()
    for number, part in enumerate(rows.split(2, 6)):
        write(tmp_path / f"raw/{number}.parquet", part)
    settings = configure(tmp_path, FOUR)
    ingest(settings, spark)
    query = ["query", "--store", str(settings.store), "--stream", "calls", "--json"]

    def asked(*more: str) -> dict[str, Any]:
        assert main([*query, *more]) == 0
        shape: dict[str, Any] = json.loads(capsys.readouterr().out)
        return shape

    shape = asked("--aggregate", "sum", "--decay", "window:20m", "--family", "histogram")
    exact = Oracle(rows).answer(Question("sum", "window:20m"))
    assert (shape["confidence"], shape["family"], shape["why"]) == (1.0, "histogram", "asked for")
    assert shape["lower"] <= exact <= shape["upper"] <= 1.1 * shape["lower"]
    assert "the interval is at most 0.1 of the whole decayed" in shape["guarantee"] or shape["lower"] == shape["upper"]
    north = asked(
        "--aggregate", "median", "--source", "north", "--decay", "poly:alpha=1,unit=10m", "--family", "qdigest"
    )
    median = Question("median", "poly:alpha=1,unit=10m", as_of=int(rows.t.max()), counting="weight")
    exact = Oracle(rows_of(rows, ["north"])).answer(median)
    assert north["confidence"] == 1.0
    assert north["lower"] <= exact <= north["upper"]
    picked = asked("--aggregate", "sum", "--decay", DECAY)
    assert picked["family"] == "exponential", "the stream's settings say for which decay it was built"
    assert math.isclose(picked["estimate"], Oracle(rows).answer(Question("sum", DECAY)), rel_tol=1e-9)
    assert "histogram about" in picked["why"]
    assert main([*query, "--aggregate", "median", "--family", "histogram"]) == 2
    assert "the histogram family does not answer median; it answers sum, count, mean" in capsys.readouterr().err


def test_keys_are_counted_across_sources(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ECM-sketches from many tasks and late files: frequencies, heavy hitters by name, joins of sources."""
    rows = STREAMS["keys"](6_000, 1).distinct()
    *first, late = rows.split(4, 2)
    for number, part in enumerate(first):
        write(tmp_path / f"raw/{number}.parquet", part, group=500)
    monkeypatch.setattr(parquet_reading, "_TASK_ROWS", 1500)
    settings = configure(
        tmp_path, 'families = ["sample", "ecm"]\n[streams.calls.ecm]\nepsilon = 0.05\npurpose = "inner"\n'
    )
    ingest(settings, spark)
    write(tmp_path / "raw/late.parquet", late, group=500)
    ingest(settings, spark)
    store = Store(settings.store)
    for decay in ANY_DECAY:
        for sources in ([], ["north"]):
            oracle = Oracle(rows_of(rows, sources or SOURCES))
            shares = oracle.shares(Question("heavy-hitters", decay))
            for value in [*list(shares)[:5], "never seen"]:
                question = Question("frequency", decay, value=value)
                found = store.ask("calls", question, sources=sources, family="ecm").estimate
                assert abs(found.value - shares.get(value, 0.0)) <= 0.05
                assert found.lower <= shares.get(value, 0.0) <= found.upper + 1e-11
            listed = store.ask("calls", Question("heavy-hitters", decay, phi=0.05), sources=sources, family="ecm")
            names = {item.value for item in listed.estimate.items}
            assert {value for value, share in shares.items() if share >= 0.1} <= names
            assert names <= {value for value, share in shares.items() if share >= 0.05}
            assert "aggregated" not in listed.estimate.guarantee
    north, south = (Oracle(rows_of(rows, [source])) for source in SOURCES)
    question = Question("inner-product", "window:20m", as_of=int(rows.t.max()))
    answer = store.ask("calls", question, sources=["north"], other="south", family="ecm").estimate
    assert answer.lower <= north.answer(question, south) <= answer.upper
    query = ["query", "--store", str(settings.store), "--stream", "calls", "--json", "--family", "ecm"]
    assert main([*query, "--aggregate", "self-join", "--decay", "window:20m", "--source", "north"]) == 0
    shape = json.loads(capsys.readouterr().out)
    assert shape["lower"] <= north.answer(Question("self-join", "window:20m")) <= shape["upper"]
    assert main([*query, "--aggregate", "median"]) == 2
    assert "text" in capsys.readouterr().err
