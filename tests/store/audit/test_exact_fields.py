"""Exact answers about fields: any column summed, ranked and filtered by, converted as ingest converts it."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ingest.executor.field_columns import check_fields, column_name, fields_of
from sketches import Events, Sample
from sketches.errors import QuestionError, UnanswerableError
from sketches.event_rules import PlainColumn
from sketches.fields import FieldKind
from sketches.predicate import Predicate, columns_with
from sketches.question import Question
from store import EpochSketches, Run, SketchTables, Stream, commit
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, raw_files
from tests.store.audit.test_exact import entry, ledger, near, settings_of
from tests.support.stores import EPOCH, NOON, STREAM
from tests.support.wide import NAMES, Wide, random_question, requests

FIELDS = {"status": "code", "path": "`the path`", "size_kb": "size_kb", "cached": "cached", "agent": "agent"}
KINDS = {"status": "integer", "path": "text", "size_kb": "float", "cached": "boolean", "agent": "text"}


def table_of(wide: Wide) -> pa.Table:
    """The rows in the order of their arrival, with columns as users call them."""
    fields = {PlainColumn.read(FIELDS[name]).column: pa.array(column.tolist(), from_pandas=True)  # type: ignore[union-attr]
              for name, column in wide.fields.items()}  # fmt: skip
    return pa.table(
        {
            "site": [NAMES[at] for at in wide.sources.tolist()],
            "id": wide.ids,
            "t": wide.times,
            "v": wide.values,
            "w": wide.weights,
            **fields,
        }
    )


def opened(folder: Path, paths: list[Path], form: str = "parquet", **changes: Any) -> Exact:
    settings = settings_of(**({"kind": "float", "fields": FIELDS, "field_kinds": KINDS} | changes), form=form)
    return Exact(raw_files(ledger(folder / "wane.duckdb", [entry(path) for path in paths], settings), STREAM))


@pytest.fixture(scope="module")
def wide() -> Wide:
    return requests(9, 2_000)


@pytest.fixture(scope="module", params=["parquet", "csv", "json"])
def exact(request: pytest.FixtureRequest, wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exact]:
    """The rows in two files of one format."""
    folder = tmp_path_factory.mktemp(request.param)
    table, paths = table_of(wide), []
    for number, part in enumerate((table.slice(0, 900), table.slice(900))):
        path = folder / f"{number}.{request.param}"
        if request.param == "parquet":
            pq.write_table(part, path)
        elif request.param == "csv":
            pyarrow.csv.write_csv(part, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in part.to_pylist()))
        paths.append(path)
    with opened(folder, paths, request.param) as found:
        yield found


def test_random_questions_have_the_exact_answer(wide: Wide, exact: Exact) -> None:
    """Of any column, where up to four conditions hold, above any median, counting events or weight, now and past."""
    rng, answered = np.random.default_rng(31), 0
    for number in range(150):
        question = replace(random_question(wide, rng), counting="weight" if number % 4 == 0 else "events")
        truth = wide.exact(question)
        assert near(exact.answer(question), truth), question
        answered += not math.isnan(truth)
    assert answered > 100


def test_a_question_about_a_group_is_one_with_a_condition(wide: Wide, exact: Exact) -> None:
    for name, text in (("path", "path = '/it''s'"), ("status", "status = 404"), ("agent", "agent is null")):
        where = Predicate.parse(text, columns_with(wide.kinds))
        question = Question("mean", "exp:half_life=20000s", int(wide.times.max()), of="size_kb", where=where)
        assert near(exact.answer(question), wide.exact(question)), name


def test_lists_and_joins_are_of_a_field_too(wide: Wide, exact: Exact) -> None:
    question = Question("heavy-hitters", as_of=int(wide.times.max()), of="path", top=3)
    counts = {path: inside.sum() / len(wide.first) for path, inside in wide.groups("path").items()}
    largest = sorted(counts.items(), key=lambda item: -item[1])[:3]
    found: list[Any] = exact.shares(question)
    assert found == [(path, pytest.approx(share)) for path, share in largest]
    joined = exact.answer(replace(question, aggregate="self-join", top=None))
    assert joined == pytest.approx(sum(inside.sum() ** 2 for inside in wide.groups("path").values()))


def test_a_mean_of_true_and_false_is_a_share(wide: Wide, exact: Exact) -> None:
    cached = wide.column("cached")
    assert exact.answer(Question("mean", of="cached")) == pytest.approx(cached.mean())


def test_what_cannot_be_summed_or_ranked_is_refused(exact: Exact) -> None:
    with pytest.raises(UnanswerableError, match="sums of path need numbers, but path is text"):
        exact.answer(Question("mean", of="path"))
    with pytest.raises(UnanswerableError, match="median needs ordered values, but agent is text"):
        exact.answer(Question("median", of="agent"))
    with pytest.raises(QuestionError, match=r"field 'stauts' is not in the store; .*did you mean 'status'"):
        exact.answer(Question("mean", of="stauts"))
    wrong = Predicate.parse("status = 'x'", {**columns_with({}), "status": columns_with({})["value"]})
    with pytest.raises(UnanswerableError, match="that needs text, but this stream's are numbers"):
        exact.answer(Question("count", where=wrong))


def test_weights_are_ranked_in_their_own_unit(tmp_path: Path) -> None:
    """The median weight and its neighbours, of a stream whose weights are hundredths."""
    weights = np.array([0.07, 0.3, 0.01, 5.0, 0.29])
    table = pa.table({"site": ["a"] * 5, "id": range(5), "t": range(5), "v": np.ones(5), "w": weights})
    pq.write_table(table, tmp_path / "a.parquet")
    with opened(tmp_path, [tmp_path / "a.parquet"], fields={}, field_kinds={}, weight_step=0.01) as exact:
        assert exact.answer(Question("median", of="weight")) == pytest.approx(0.29)
        assert exact.quantiles(Question("quantile", of="weight", phis=(0.1, 0.9))) == pytest.approx([0.01, 5.0])
        assert exact.answer(Question("selectivity", of="weight", tau=0.29)) == 0.6
        assert exact.answer(Question("rank", of="weight", value=0.07)) == 0.4
        assert [value for value, _ in exact.shares(Question("heavy-hitters", of="weight", top=1))] == [0.01]


def test_of_copies_that_differ_the_least_is_taken(tmp_path: Path) -> None:
    """Field by field in the order of names, a missing one last, whichever source is asked: as a sample takes them."""
    rng = np.random.default_rng(6)
    size = 400
    ids, sources = rng.integers(0, 100, size), rng.integers(0, 2, size)
    a = np.array(["x", "y", "ä", None], object)[rng.integers(0, 4, size)]
    n = rng.choice([1.0, 2.0, np.nan], size)
    table = pa.table(
        {"site": [NAMES[at] for at in sources], "id": ids, "t": ids, "v": np.ones(size), "w": np.ones(size, int),
         "a": pa.array(a.tolist()), "n": pa.array(n, from_pandas=True)}
    )  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    events = Events.of(ids, ids, np.ones(size), fields={"a": a, "n": n})
    parameters = Sample.build(events).parameters
    sample = Sample.of_sources(events, sources.astype(np.int32), NAMES[:2], parameters)
    about: dict[str, Any] = {"fields": {"a": "a", "n": "n"}, "field_kinds": {"a": "text", "n": "float"}}
    with opened(tmp_path, [tmp_path / "a.parquet"], **about) as exact:
        for names in ([], ["east"], ["north"]):
            for question in (Question("sum", of="n"), Question("frequency", of="a", value="ä")):
                assert exact.answer(question, sources=names) == sample.of(names or None).answer(question).value


MOMENT = datetime.datetime(2026, 1, 31, 12, 30, 1, 250_000, tzinfo=datetime.UTC)
RAW: dict[str, pa.Array] = {
    "whole": pa.array([3, -1, 2**62, None]),
    "unsigned": pa.array([3, 2**63, 2**64 - 1, None], pa.uint64()),
    "narrow": pa.array([0.1, -0.0, 3.0, None], pa.float32()),
    "floats": pa.array([0.5, 3.0, math.nan, math.inf, -math.inf, 1e301, 2.0**63, -0.0, None]),
    "decimals": pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(10, 2)),
    "texts": pa.array([" 12 ", "+3", "1e3", ".5", "x", "", "TRUE", " false", "9" * 19, "é" * 501, "é" * 500, None]),
    "booleans": pa.array([True, False, None]),
    "dates": pa.array([datetime.date(2026, 1, 31), None]),
    "times": pa.array([MOMENT, MOMENT.replace(microsecond=0), None], pa.timestamp("us", "UTC")),
    "local times": pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("ms")),
    "nothing": pa.array([None, None], pa.string()),
}


@pytest.mark.parametrize("kind", list(FieldKind))
@pytest.mark.parametrize("name", RAW)
def test_columns_are_converted_as_ingest_converts_them(name: str, kind: FieldKind, tmp_path: Path) -> None:
    column = RAW[name]
    size = len(column)
    rows, _ = check_fields({column_name("x"): column}, {"x": kind}, None)
    wanted = fields_of(size, {"x": kind}, {"x": [rows["x"]]})["x"].to_list()
    table = pa.table({"site": ["a"] * size, "id": range(size), "t": range(size), "v": [1.0] * size, "w": [1] * size})
    pq.write_table(table.append_column("x", column), tmp_path / "a.parquet")
    with opened(tmp_path, [tmp_path / "a.parquet"], fields={"x": "x"}, field_kinds={"x": str(kind)}) as exact:
        if kind is FieldKind.TEXT and name in ("narrow", "floats", "decimals"):
            with pytest.raises(
                UnanswerableError, match="'x' cannot be checked against the raw files: its column is of"
            ):
                exact.answer(Question("frequency", of="x", value="1"))
            return
        found = exact._execute("SELECT field_x FROM event_fields ORDER BY t")
    assert [value for (value,) in found] == wanted


def test_a_field_that_is_a_constant_is_that_in_all_rows(tmp_path: Path) -> None:
    table = pa.table({"site": ["a"], "id": [1], "t": [1], "v": [1.0], "w": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    about: dict[str, Any] = {"fields": {"x": "7", "y": "'all'"}, "field_kinds": {"x": "integer", "y": "text"}}
    with opened(tmp_path, [tmp_path / "a.parquet"], **about) as exact:
        assert exact.answer(Question("sum", of="x")) == 7
        assert exact.answer(Question("frequency", of="y", value="all")) == 1


def test_fields_that_cannot_be_checked_are_refused_by_name_and_the_rest_is_not(tmp_path: Path) -> None:
    """Expressions, and fields that were removed; other questions are answered."""
    table = pa.table({"site": ["a"], "id": [1], "t": [1], "v": [1.0], "w": [1], "n": [3]})
    pq.write_table(table, tmp_path / "a.parquet")
    kinds = {"n": "integer", "made": "text", "gone": "float"}
    with opened(tmp_path, [tmp_path / "a.parquet"], fields={"n": "n", "made": "upper(n)"}, field_kinds=kinds) as exact:
        assert exact.answer(Question("sum", of="n")) == 3
        with pytest.raises(
            UnanswerableError, match=r"field 'made' cannot be checked .* it is the expression `upper\(n\)`"
        ):
            exact.answer(Question("frequency", of="made", value="3"))
        with pytest.raises(UnanswerableError, match=r"field 'gone' cannot be checked .* no longer say"):
            exact.answer(Question("mean", of="gone"))


def test_a_field_that_was_added_later_is_refused(tmp_path: Path) -> None:
    """Its column may be in older files too, of which the store took none of it."""
    table = pa.table({"site": ["a"] * 2, "id": [1, 2], "t": [1, 2], "v": [1.0, 1.0], "w": [1, 1], "n": [3, 4]})
    pq.write_table(table, tmp_path / "a.parquet")
    events = [Events.of([1], [1], [1.0]), Events.of([2], [2], [1.0], fields={"n": np.array([4])})]
    parts = [EpochSketches("a", 0, EPOCH, 1, 1.0, at + 1, at + 1, [Sample.build(one)]) for at, one in enumerate(events)]
    settings = settings_of("float", fields={"n": "n"}, field_kinds={"n": "integer"})  # type: ignore[arg-type]
    for part in parts:
        stream = Stream(STREAM, EPOCH, settings=settings)
        files = [entry(tmp_path / "a.parquet")] if part is parts[0] else []
        commit(tmp_path / "wane.duckdb", Run(stream, SketchTables.of([part]), NOON, NOON, files=files))
    raw: RawFiles = raw_files(tmp_path / "wane.duckdb", STREAM, [str(tmp_path)])
    with Exact(raw) as exact:
        assert exact.answer(Question("count")) == 2
        with pytest.raises(
            UnanswerableError, match=r"field 'n' cannot be checked .* some events were taken without it"
        ):
            exact.answer(Question("mean", of="n"))


def test_a_stream_without_a_value_sums_its_events(tmp_path: Path) -> None:
    """As a store does: every value is 0, so that a sum of them would say nothing."""
    pq.write_table(pa.table({"site": ["a"] * 3, "id": range(3), "t": range(3)}), tmp_path / "a.parquet")
    about: dict[str, Any] = {"kind": "integer", "value": "0", "weight": "1", "fields": {}, "field_kinds": {}}
    with opened(tmp_path, [tmp_path / "a.parquet"], **about) as exact:
        assert exact.answer(Question("sum")) == 3
