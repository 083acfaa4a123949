"""Exact answers from raw files agree with the oracle, take the rows that ingest takes, and refuse what is not sure."""

from __future__ import annotations

import gzip
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.executor.columns import Conversion, check
from ingest.executor.columns import kind_of as ingest_kind_of
from sketches.errors import QuestionError, UnanswerableError
from sketches.event_rules import MAX_TIME, PlainColumn
from sketches.events import Kind
from sketches.question import Question
from sketches.units import SECOND, TimeUnit
from sketches.vocabulary import AGGREGATES
from store import InputFile, KnownFile, Run, SketchTables, StoreError, Stream, commit
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, raw_files
from store.writing.ledger import fingerprint
from tests.support.oracle import DECAYS, KEY_AGGREGATES, Oracle, random_question
from tests.support.stores import EPOCH, NOON, STREAM, execute, overlapping
from tests.support.streams import START, STREAMS, joined
from tests.support.streams import Stream as Rows

MILLISECOND = TimeUnit(1, 1000)
COLUMNS = {"source": "site", "id": "id", "time": "t", "value": "v", "weight": "w"}
SITES = ("north", "o'hare", 'so"uth')


def settings_of(kind: Kind | None = Kind.INTEGER, form: str = "parquet", **changes: Any) -> dict[str, object]:
    """A stream's settings as ingest writes them."""
    known = {"input": ["/data/*"], "format": form, **COLUMNS, "time_unit": "1s", "epoch": "10m", "families": ["sample"]}
    return {**known, **({"kind": str(kind)} if kind is not None else {}), **changes}


def entry(path: Path, rows: int = 1, **changes: Any) -> InputFile:
    """A file as the ledger knows it; every time in it was taken."""
    status = path.stat()
    known: dict[str, Any] = {"oldest": -MAX_TIME, "newest": MAX_TIME} | changes
    return InputFile(str(path), status.st_size, fingerprint(str(path)), rows, status.st_mtime_ns, **known)


def ledger(
    store: Path, files: Sequence[InputFile], settings: dict[str, object] | None = None, unit: TimeUnit = SECOND
) -> Path:
    """A store that knows these files and no sketches."""
    settings = settings_of() if settings is None else settings
    if settings.get("input") == ["/data/*"]:
        settings = settings | {"input": [f"{store.parent}/*"]}
    stream = Stream(STREAM, EPOCH, unit, settings)
    commit(store, Run(stream, SketchTables.of([]), NOON, NOON, files=list(files)))
    return store


def table_of(site: str, rows: Rows, unit: int = 1) -> pa.Table:
    values = rows.v.tolist()
    return pa.table(
        {"site": [site] * len(rows), "id": rows.ids, "t": rows.t * unit, "v": pa.array(values), "w": rows.w}
    )


def written(folder: Path, by_site: Mapping[str, Rows], parts: int = 2, unit: int = 1) -> list[InputFile]:
    """The rows of every site, spread over Parquet files that hold rows of all sites."""
    files = []
    for number in range(parts):
        path = folder / f"part {number}.parquet"
        cut = {site: rows.split(parts, seed=1)[number] for site, rows in by_site.items()}
        pq.write_table(pa.concat_tables([table_of(site, rows, unit) for site, rows in cut.items()]), path)
        files.append(entry(path, sum(map(len, cut.values()))))
    return files


def opened(folder: Path, path: Path, settings: dict[str, object], unit: TimeUnit = SECOND) -> Exact:
    """The exact events of one file."""
    return Exact(raw_files(ledger(folder / "one.duckdb", [entry(path)], settings, unit), STREAM))


def near(found: float, truth: float) -> bool:
    return math.isclose(found, truth, rel_tol=1e-10, abs_tol=1e-300) or (math.isnan(found) and math.isnan(truth))


@pytest.fixture(scope="module", params=["zipf", "floats", "keys"])
def sites(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Exact]]:
    """Sites that report some events alike, each event up to three times, in several files; and their exact answers."""
    rows = numbered(request.param)
    by_site = {site: one.duplicated(3, 3) for site, one in overlapping(rows, SITES, seed=5).items()}
    folder = tmp_path_factory.mktemp(request.param)
    kind = {"i": Kind.INTEGER, "f": Kind.FLOAT}.get(rows.v.dtype.kind, Kind.KEY)
    store = ledger(folder / "wane.duckdb", written(folder, by_site), settings_of(kind))
    with Exact(raw_files(store, STREAM)) as exact:
        yield by_site, exact


def numbered(name: str) -> Rows:
    rows = STREAMS["zipf"](1500, 7)
    if name == "zipf":
        return rows
    values = [f"k'{value % 50}\"" for value in rows.v.tolist()] if name == "keys" else rows.v / 8 - 3.25
    return Rows.of(name, rows.ids, rows.t, values, rows.w)


def of_sites(by_site: Mapping[str, Rows], sources: Sequence[str]) -> Oracle:
    return Oracle(joined([by_site[site] for site in sources or by_site]))


CHOICES = [(), ("o'hare",), ("north", 'so"uth'), SITES]


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", [name for name in AGGREGATES if name not in ("heavy-hitters", "inner-product")])
def test_every_aggregate_under_every_decay_is_the_oracle_s(sites: tuple[Any, Exact], aggregate: str) -> None:
    """For sources alone and together, at the newest event and before, τ given or itself a quantile."""
    by_site, exact = sites
    if exact.kind is Kind.KEY and aggregate not in KEY_AGGREGATES:
        with pytest.raises(UnanswerableError, match="values are text"):
            exact.answer(random_question(np.random.default_rng(1), numbered("zipf"), aggregate))
        return
    rng = np.random.default_rng(11)
    for number, decay in enumerate(DECAYS * 2):
        sources = CHOICES[number % len(CHOICES)]
        oracle = of_sites(by_site, sources)
        of = "value" if exact.kind is not Kind.KEY and aggregate in ("sum", "mean") and number % 2 else "weight"
        question = random_question(rng, oracle.events, aggregate, [decay], of=of, tau_as_quantile=0.5)  # type: ignore[arg-type]
        question = question if question.as_of is not None else question.at(oracle.newest or 0)
        assert near(exact.answer(question, sources=sources), oracle.answer(question)), (question, sources)


@pytest.mark.slow
def test_inner_products_and_shares_are_the_oracle_s(sites: tuple[Any, Exact]) -> None:
    by_site, exact = sites
    for number, decay in enumerate(DECAYS):
        sources = CHOICES[number % 3]
        oracle, other = of_sites(by_site, sources), of_sites(by_site, ["north"])
        as_of = exact.newest if number % 2 else START + 2000
        question = Question("inner-product", decay, as_of)
        assert near(exact.answer(question, sources=sources, other="north"), oracle.answer(question, other))
        truth = oracle.shares(Question("heavy-hitters", decay, as_of))
        every = exact.shares(Question("heavy-hitters", decay, as_of, top=3), sources=sources, every=True)
        assert len(every) == len(truth)
        assert all(near(share, truth[value]) for value, share in every)
        assert [share for _, share in every] == sorted((share for _, share in every), reverse=True)
        top = exact.shares(Question("heavy-hitters", decay, as_of, top=3), sources=sources)
        assert len(top) == 3  # which of equal shares come first depends on the last digits of sums
        assert all(near(share, large) for (_, share), (_, large) in zip(top, every, strict=False))
        large = exact.shares(Question("heavy-hitters", decay, as_of, phi=0.0213), sources=sources)
        assert {value for value, _ in large} == {value for value, share in every if share >= 0.0213}


def test_a_series_is_the_answers_at_each_time(sites: tuple[Any, Exact]) -> None:
    """Before the first event a sum is 0 and a mean is NaN."""
    by_site, exact = sites
    moments = np.array([START - 10, START, START + 900, START + 1800, START + 100_000])
    for aggregate in ("sum", "count", "mean", "self-join"):
        oracle = of_sites(by_site, ())
        truth = [oracle.answer(Question(aggregate, "window:10m", as_of)) for as_of in moments.tolist()]
        series = exact.series(Question(aggregate, "window:10m"), moments)
        assert series.dtype == np.float64
        assert all(map(near, series.tolist(), truth)), aggregate
    assert math.isnan(exact.answer(Question("mean"), START - 10))
    assert exact.answer(Question("sum"), START - 10) == 0


def test_counts_rows_and_knows_the_sources(sites: tuple[Any, Exact]) -> None:
    by_site, exact = sites
    everything = joined(list(by_site.values()))
    assert exact.events == len(everything)
    assert exact.sources == tuple(sorted(SITES))
    assert (exact.oldest, exact.newest) == (everything.t.min(), everything.t.max())
    with pytest.raises(QuestionError, match="'east' is not in the raw files"):
        exact.answer(Question("sum"), sources=["east"])


def test_questions_that_have_no_number_are_refused(sites: tuple[Any, Exact]) -> None:
    _, exact = sites
    with pytest.raises(UnanswerableError, match="ask for shares"):
        exact.answer(Question("heavy-hitters", top=3))
    with pytest.raises(QuestionError, match="needs another source"):
        exact.answer(Question("inner-product"))
    with pytest.raises(QuestionError, match="needs another source"):
        exact.answer(Question("sum"), other="north")
    with pytest.raises(QuestionError, match="2\\^62"):
        exact.answer(Question("sum"), 1 << 63)


def test_many_selections_and_threads_do_not_get_in_each_other_s_way(sites: tuple[Any, Exact]) -> None:
    """More choices of sources than are kept ready, from several threads with different decays at once."""
    by_site, exact = sites
    choices = [(), *((site,) for site in SITES), *((one, other) for one in SITES for other in SITES if one < other)]
    wrong = []

    def ask(shift: int) -> None:
        for number in range(12):
            sources = choices[(number + shift) % len(choices)]
            question = Question("sum", DECAYS[(3 * number + shift) % len(DECAYS)], START + 3000)
            if not near(exact.answer(question, sources=sources), of_sites(by_site, sources).answer(question)):
                wrong.append((question, sources))

    threads = [threading.Thread(target=ask, args=(shift,)) for shift in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_whole_numbers_are_compared_as_such(tmp_path: Path) -> None:
    """2^53 and 2^53 + 1 are one float and two values; a bound between whole numbers falls on the right side."""
    big = 1 << 53
    rows = Rows.of("big", [1, 2, 3], [10, 11, 12], [big, big + 1, 5], [1, 10, 100])
    store = ledger(tmp_path / "wane.duckdb", written(tmp_path, {"a": rows}, 1))
    with Exact(raw_files(store, STREAM)) as exact:
        assert exact.answer(Question("frequency", value=big + 1, counting="weight")) == 10 / 111
        assert exact.answer(Question("frequency", value="5", counting="weight")) == 100 / 111
        assert exact.answer(Question("frequency", value=5.5)) == 0
        assert exact.answer(Question("range-sum", low=5.5, high=big)) == 1
        assert exact.answer(Question("range-sum", low=-math.inf, high=5.5)) == 100
        assert exact.answer(Question("correlated-sum", tau=1e30)) == 0
        assert exact.answer(Question("correlated-sum", tau=-(10**40))) == 111
        assert exact.answer(Question("rank", value=10**30)) == 1
        with pytest.raises(UnanswerableError, match="values are numbers"):
            exact.answer(Question("frequency", value="five"))


def test_times_in_units_other_than_seconds(tmp_path: Path) -> None:
    """In milliseconds a window of ten minutes is 600,000 units, and the as-of time is in units."""
    rows = STREAMS["zipf"](500, 3)
    fine = replace(rows, t=rows.t * 1000 + rows.ids % 1000)
    store = ledger(tmp_path / "wane.duckdb", written(tmp_path, {"a": fine}), unit=MILLISECOND)
    oracle = Oracle(fine, 0.001)
    with Exact(raw_files(store, STREAM)) as exact:
        for decay in DECAYS:
            for aggregate in ("sum", "median"):
                question = Question(aggregate, decay, START * 1000 + 1_800_500)
                assert near(exact.answer(question), oracle.answer(question)), question


INSTANT = datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)
NEGATIVE = datetime(1969, 12, 31, 23, 59, 59, 900_000, UTC)
TIMES: dict[str, pa.Array] = {
    **{
        f"{unit} {zone}": pa.array([INSTANT, NEGATIVE, None], pa.timestamp("us", "UTC")).cast(
            pa.timestamp(unit, zone or None), safe=False
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in ("", "UTC", "+02:00")
    },
    "date": pa.array([date(2026, 1, 31), date(1960, 2, 29), None]),
    "whole": pa.array([5, -5, None]),
    "unsigned": pa.array([5, (1 << 64) - 1, None], pa.uint64()),
    "small": pa.array([5, -5, None], pa.int16()),
    "far": pa.array([MAX_TIME, MAX_TIME + 1, -MAX_TIME - 1]),
    "float": pa.array([5.9, -5.1, math.nan]),
    "far float": pa.array([math.inf, -math.inf, 1e19]),
    "float32": pa.array([5.5, -5.5, None], pa.float32()),
    "decimal": pa.array([Decimal("5.99"), Decimal("-5.01"), None]),
}
WEIGHTS: dict[str, pa.Array] = {
    "whole": pa.array([1, 0, -1, None, 1 << 40, (1 << 40) + 1]),
    "unsigned": pa.array([1, 0, (1 << 64) - 1, None], pa.uint64()),
    "float": pa.array([1.0, 1.5, math.nan, math.inf, -2.0, 1e30, 2.0**40, None]),
    "float32": pa.array([3.0, 0.5, None], pa.float32()),
    "decimal": pa.array([Decimal("2.00"), Decimal("2.50"), Decimal("-1.00"), None]),
}
VALUES: dict[str, pa.Array] = {
    "whole": pa.array([7, -7, None, (1 << 63) - 1]),
    "unsigned": pa.array([7, (1 << 64) - 1, None], pa.uint64()),
    "float": pa.array([7.0, 7.5, -0.0, math.nan, math.inf, 1e301, 1e300, 2.0**63, -(2.0**63), None]),
    "float32": pa.array([0.1, 7.0, None], pa.float32()),
    "decimal": pa.array([Decimal("7.00"), Decimal("7.25"), None]),
    "large decimal": pa.array([Decimal(10) ** 30, Decimal(-7), None], pa.decimal128(38, 2)),
    "boolean": pa.array([True, False, None]),
    "text": pa.array(["7", " +7 ", "-7.5", "1e3", "\t.5\n", "1e999", "x", "", "1_000", "0x10", "nan", "+-7", None]),
    "text with blanks": pa.array([f"{blank}7{blank}" for blank in map(chr, range(0x3001)) if blank.isspace()]),
    "coded text": pa.array(["7", "x", None, "7"]).dictionary_encode(),
    "long text": pa.array(["é" * (1 << 19), "é" * (1 << 19) + "x"]),
}
SOURCES: dict[str, pa.Array] = {
    "text": pa.array(["a", "", None, "x" * 1000, "x" * 1001, "é" * 501]),
    "whole": pa.array([1, -1, None]),
    "boolean": pa.array([True, False, None]),
    "date": pa.array([date(2026, 1, 31), None]),
    "coded": pa.array(["a", None, "a"]).dictionary_encode(),
}
IDS: dict[str, pa.Array] = {
    "whole": pa.array([1, -1, 1, None]),
    "unsigned": pa.array([1, (1 << 64) - 1, 1, None], pa.uint64()),
    "text": pa.array(["a", "b", "a", None, ""]),
    "bytes": pa.array([b"\xff", b"\\xFF", b"\xff", None]),
    "date": pa.array([date(2026, 1, 31), None]),
    "decimal": pa.array([Decimal("1.5"), Decimal("1.5"), None]),
}
ROWS = [
    *(pytest.param("time", column, Kind.INTEGER, unit, id=f"time {name} {unit}")
      for name, column in TIMES.items()
      for unit in (SECOND, TimeUnit(1, 1_000_000), TimeUnit(3, 10))),
    *(pytest.param("weight", column, Kind.INTEGER, SECOND, id=f"weight {name}") for name, column in WEIGHTS.items()),
    *(pytest.param("value", column, kind, SECOND, id=f"value {name} as {kind}")
      for name, column in VALUES.items()
      for kind in Kind
      if kind is not Kind.KEY or not (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type))),
    *(pytest.param("source", column, Kind.INTEGER, SECOND, id=f"source {name}") for name, column in SOURCES.items()),
    *(pytest.param("id", column, Kind.INTEGER, SECOND, id=f"id {name}") for name, column in IDS.items()),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("role", "column", "kind", "unit"), ROWS)
def test_takes_the_rows_that_ingest_takes(
    role: str, column: pa.Array, kind: Kind, unit: TimeUnit, tmp_path: Path
) -> None:
    """Every type a column may have, with values at its edges: the same rows, as the same events."""
    count = len(column)
    plain = {"source": ["a"] * count, "id": list(range(count)), "time": [9] * count, "value": [3] * count}
    columns = {name: pa.array(values) for name, values in plain.items()} | {"weight": pa.array([1] * count)}
    if kind is Kind.KEY:
        columns["value"] = pa.array(["k"] * count)
    columns[role] = column
    if role == "id":
        columns = {name: pa.array(values.to_pylist()[:1] * count) for name, values in columns.items()} | {role: column}
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({COLUMNS[name]: values for name, values in columns.items()}), path)
    read = {name: pq.read_table(path)[COLUMNS[name]].combine_chunks() for name in columns}
    truth = check(read, Conversion(kind, unit))
    values = [truth.labels[code] for code in truth.values.tolist()] if kind is Kind.KEY else truth.values.tolist()
    names = [truth.source_names[code] for code in truth.sources.tolist()]
    expected = list(zip(names, truth.ids.tolist(), truth.times.tolist(), values, truth.weights.tolist(), strict=True))
    names_of = {name: PlainColumn(column) for name, column in COLUMNS.items()}
    known = KnownFile(1, str(path), path.stat().st_size, fingerprint(str(path)), 0, count, -MAX_TIME, MAX_TIME)
    here = (str(tmp_path),)
    raw = RawFiles(STREAM, (known,), format="parquet", kind=kind, unit=unit, columns=names_of, folders=here)
    with Exact(raw) as exact:
        found = exact._execute("SELECT source, t, v, w, repeats FROM events")
        assert exact.events == len(expected)
        assert len(found) == len(set(expected))
        assert {row[:4] for row in found} == {(name, t, v, w) for name, _, t, v, w in expected}
        assert not any(math.copysign(1, row[2]) < 0 for row in found if row[2] == 0)


def test_the_table_of_columns_above_has_every_kind(tmp_path: Path) -> None:
    """Whatever type ingest takes for a value is in the list, so that the test above means something."""
    assert {ingest_kind_of(column.type) for column in VALUES.values()} == set(Kind)


def test_files_of_different_types_are_read_each_as_it_is(tmp_path: Path) -> None:
    """One file has whole numbers where another has floats or text, and names its columns in another order and case."""
    tables = [
        pa.table({"site": ["a"], "id": [1], "t": pa.array([10]), "v": [1], "w": [1]}),
        pa.table({"w": [2.0], "V": ["2"], "t": pa.array([11.5]), "ID": [2], "site": ["a"], "more": [0]}),
        pa.table({"site": ["a"], "id": [1], "t": pa.array([datetime(1970, 1, 1, 0, 0, 10)]), "v": [1.0], "w": [1]}),  # noqa: DTZ001
    ]
    files = []
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
        files.append(entry(tmp_path / f"{number}.parquet"))
    with Exact(raw_files(ledger(tmp_path / "wane.duckdb", files), STREAM)) as exact:
        assert exact._execute("SELECT t, v, w, repeats FROM events ORDER BY t") == [(10, 1, 1, 2), (11, 2, 2, 1)]


def test_times_outside_a_file_s_span_were_rejected(tmp_path: Path) -> None:
    """The ledger says what times ingest took from a file: others lay too far in the future or the past."""
    rows = Rows.of("spans", [1, 2, 3, 4], [10, 20, 30, 40], [1, 1, 1, 1])
    pq.write_table(table_of("a", rows), tmp_path / "a.parquet")
    pq.write_table(table_of("b", rows), tmp_path / "b.parquet")
    pq.write_table(table_of("c", rows), tmp_path / "c.parquet")
    files = [
        entry(tmp_path / "a.parquet", 4, oldest=20, newest=30),
        entry(tmp_path / "b.parquet", 4, oldest=10, newest=10),
        entry(tmp_path / "c.parquet", 4, oldest=None, newest=None),
    ]
    store = ledger(tmp_path / "wane.duckdb", files)
    with Exact(raw_files(store, STREAM)) as exact:
        assert exact._execute("SELECT source, t FROM events ORDER BY ALL") == [("a", 20), ("a", 30), ("b", 10)]
    execute(store, "UPDATE files SET oldest = NULL, newest = NULL, modified = 0")
    with Exact(raw_files(store, STREAM)) as exact:
        assert exact.events == 12


def test_constants_and_hostile_names(tmp_path: Path) -> None:
    """Columns, sources and paths with quotes and wildcards are names like any other, and reach no other file."""
    hostile = '"; DROP TABLE events; --'
    folder = tmp_path / "it's {x,y} q"
    folder.mkdir()
    path = folder / "pa*rt[0]'.parquet"
    pq.write_table(pa.table({hostile: [1, 2, 2], "o'clock $1": [10, 20, 20], "file": ["x", "y", "y"]}), path)
    pq.write_table(pa.table({hostile: [9], "o'clock $1": [90], "file": ["z"]}), folder / "part0'.parquet")
    settings = settings_of(
        Kind.KEY, source="'$id, ; --'", id=f"`{hostile}`", time="`o'clock $1`", value="file", weight="3"
    )
    with opened(tmp_path, path, settings) as exact:
        assert exact.sources == ("$id, ; --",)
        assert exact.answer(Question("sum")) == 6
        assert exact.answer(Question("frequency", value="y")) == 0.5
        with pytest.raises(StoreError, match="disabled"), exact._plain_errors():
            exact._execute("FROM read_parquet($p)", {"p": str(folder / "part0'.parquet")})
        with pytest.raises(StoreError), exact._plain_errors():
            exact._execute("COPY events TO '/tmp/wane-must-not-be'")


@pytest.mark.parametrize("packed", [False, True])
def test_csv_is_read_as_spark_reads_it(packed: bool, tmp_path: Path) -> None:
    """Types are found over all files; empty fields, short and quoted ones are what they are to Spark."""
    text = (
        'id,site,t,"v ""x""",w\n'
        '1,north,2026-01-31T12:00:00Z,1.5,2\n'
        '1,north,2026-01-31T12:00:00Z,1.50,2\n'
        '2,"o\'hare, ""big""",2026-01-31 12:00:01.9,3,1\n'
        "3,,2026-01-31T12:00:02Z,3,1\n"
        "4,north,,3,1\n"
        "5,north,2026-01-31T14:00:03+02:00,NaN,1\n"
        "6,north,2026-01-31T14:00:02+02:00,7,0\n"
        "9,north,2026-01-31T14:00:03+02:00,7,-1\n"
        "7,north\n"
        "8,north,2026-01-31T14:00:03+02:00,-1e2,3\n"
    )  # fmt: skip
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    noon = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp())
    with opened(tmp_path, path, settings_of(Kind.FLOAT, "csv", value='`v "x"`')) as exact:
        assert exact._execute("SELECT source, t, v, w, repeats FROM events ORDER BY t") == [
            ("north", noon, 1.5, 2, 2),
            ('o\'hare, "big"', noon + 1, 3.0, 1, 1),
            ("north", noon + 2, 7.0, 0, 1),
            ("north", noon + 3, -100.0, 3, 1),
        ]
        assert exact.events == 5


def test_csv_keys_keep_their_spelling_where_any_is_text(tmp_path: Path) -> None:
    """Numbers of one column are numbers only where all are; dates stay as written; an empty text is none."""
    path = tmp_path / "keys.csv"
    path.write_text('id,t,v,day\n1,5,007,2026-01-31\n2,5,x,2026-01-31\n3,5,"",2026-02-01\n4,5,,2026-02-01\n')
    with opened(tmp_path, path, settings_of(Kind.KEY, "csv", source="day", weight="1")) as exact:
        assert sorted(exact._execute("SELECT source, v FROM events")) == [
            ("2026-01-31", "007"),
            ("2026-01-31", "x"),
        ]


def test_json_is_read_as_spark_reads_it(tmp_path: Path) -> None:
    """One object a line; a torn line is a row without values, and text that looks like a time stays text."""
    lines = [
        {"id": "a", "site": "n", "t": 5, "v": 7, "w": 1},
        {"id": "a", "site": "n", "t": 5, "v": 7.0, "w": 1, "more": {"x": [1]}},
        {"id": "b", "site": 12, "t": 6, "v": 8.0, "w": 2},
        {"id": "c", "site": "2026-01-31", "t": 7, "v": 1, "w": 1.5},
        {"id": "d", "t": 7, "v": 1, "w": 1},
        {"id": "e", "site": "2026-01-31", "t": 7, "v": 1, "w": 3},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"id": "z", "si\n')
    with opened(tmp_path, path, settings_of(Kind.INTEGER, "json")) as exact:
        assert exact._execute("SELECT source, id, t, v, w, repeats FROM events ORDER BY t") == [
            ("n", "a", 5, 7, 1, 2),
            ("12", "b", 6, 8, 2, 1),
            ("2026-01-31", "e", 7, 1, 3, 1),
        ]


def test_csv_and_json_of_the_same_events_agree_with_the_oracle(tmp_path: Path) -> None:
    rows = STREAMS["zipf"](400, 9).duplicated(2, 3)
    halves = rows.split(2, 4)
    for form, settings in (("csv", settings_of(form="csv")), ("json", settings_of(form="json"))):
        files = []
        for number, half in enumerate(halves):
            path = tmp_path / f"{number}.{form}"
            table = table_of("north", half)
            if form == "csv":
                lines = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())]
            else:
                lines = [json.dumps(row) for row in table.to_pylist()]
            path.write_text("\n".join(lines) + "\n")
            files.append(entry(path, len(half)))
        with Exact(raw_files(ledger(tmp_path / f"{form}.duckdb", files, settings), STREAM)) as exact:
            assert exact.events == len(rows)
            for aggregate in ("sum", "median", "correlated-mean", "self-join"):
                question = Question(aggregate, "exp:half_life=10m", tau="median" if "corr" in aggregate else None)
                assert near(exact.answer(question), Oracle(rows).answer(question))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "expression"),
    [
        ("weight", "a + b"),
        ("value", "v.w"),
        ("id", "concat_ws('/', a, b)"),
        ("time", "to_timestamp(t)"),
        ("weight", "1.5"),
        ("value", "null"),
        ("source", '"north"'),
        ("source", "'a' || 'b'"),
        ("id", 'id"; DROP TABLE events; --'),
        ("value", "`a``b`"),
        ("source", "'it\\'s'"),
        ("id", "id\n"),
    ],
)
def test_expressions_are_refused(role: str, expression: str, tmp_path: Path) -> None:
    """Spark's expressions are not DuckDB's: nothing but a name or a constant is read as what it says."""
    path = tmp_path / "a.parquet"
    pq.write_table(table_of("a", STREAMS["uniform"](3, 1)), path)
    store = ledger(tmp_path / "wane.duckdb", [entry(path)], settings_of(**{role: expression}))
    raw = raw_files(store, STREAM)
    assert raw.reason is not None
    assert raw.reason.startswith(f"`{role}` is the expression `{expression}`; only plain")
    with pytest.raises(StoreError, match="cannot be checked: `"):
        Exact(raw)


def test_what_cannot_be_checked_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table_of("a", STREAMS["uniform"](3, 1)), path)
    packed = tmp_path / "a.csv.bz2"
    packed.write_bytes(b"")
    known = entry(path)
    cases: list[tuple[list[InputFile], dict[str, object], str]] = [
        ([], settings_of(), "no record of the files"),
        ([replace(known, rows=0)], settings_of(), "no record of the files"),
        ([known], {}, "does not say what the stream's source"),
        ([known], settings_of(None), "numbers or text"),
        ([known], settings_of(form="orc"), "format 'orc'"),
        ([entry(packed)], settings_of(form="csv"), "is packed in a way"),
        ([replace(known, path=str(tmp_path / "nowhere.parquet"))], settings_of(), "none of the stream's 1 input files"),
    ]
    for number, (files, settings, reason) in enumerate(cases):
        raw = raw_files(ledger(tmp_path / f"{number}.duckdb", files, settings), STREAM)
        assert raw.reason is not None
        assert reason in raw.reason
    with pytest.raises(StoreError, match="stream 'other' is not in"):
        raw_files(tmp_path / "0.duckdb", "other")
    with pytest.raises(StoreError, match="does not exist"):
        raw_files(tmp_path / "none.duckdb", STREAM)


def test_changed_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    """By size and time of change; what is left still answers, and is known not to be all."""
    files = []
    for name in ("kept", "grown", "touched", "gone", "folder"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table_of(name, STREAMS["uniform"](10, 1)), path)
        files.append(entry(path, 10))
    copy = replace(files[0], path=str(tmp_path / "copy.parquet"), rows=0)
    store = ledger(tmp_path / "wane.duckdb", [*files, copy])
    whole = raw_files(store, STREAM)
    assert whole.complete
    assert whole.reason is None
    assert whole.rows == 50
    with Path(files[1].path).open("ab") as grown:
        grown.write(b"x")
    os.utime(files[1].path, ns=(1, files[1].modified))
    os.utime(files[2].path, ns=(1, files[2].modified + 1))
    Path(files[3].path).unlink()
    raw = raw_files(store, STREAM)
    names = {
        Path(known.path).stem: state for state in ("present", "changed", "missing") for known in getattr(raw, state)
    }
    assert names == {
        "kept": "present",
        "grown": "changed",
        "touched": "changed",
        "gone": "missing",
        "folder": "present",
    }
    assert not raw.complete
    assert raw.reason is None
    assert raw.rows == 20
    with Exact(raw) as exact:
        assert exact.sources == ("folder", "kept")


def loadable(tmp_path: Path, content: bytes, name: str = "a.parquet", **settings: Any) -> RawFiles:
    path = tmp_path / name
    path.write_bytes(content)
    form = path.suffixes[0][1:]
    return raw_files(ledger(tmp_path / "wane.duckdb", [entry(path)], settings_of(form=form, **settings)), STREAM)


def test_torn_and_vanished_files_are_one_sentence(tmp_path: Path) -> None:
    """The message names the file itself, and neither a link of ours nor lines of SQL."""
    pq.write_table(table_of("a", STREAMS["uniform"](1000, 1)), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    torn = loadable(tmp_path, whole[:-9])
    with pytest.raises(StoreError, match="cannot be read") as caught:
        Exact(torn)
    assert str(tmp_path / "a.parquet") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "wane-exact" not in str(caught.value)
    assert "LINE" not in str(caught.value)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        Exact(torn)


def test_a_file_damaged_inside_is_one_sentence(tmp_path: Path) -> None:
    pq.write_table(table_of("a", STREAMS["uniform"](1000, 1)), tmp_path / "whole.parquet", compression="zstd")
    whole = bytearray((tmp_path / "whole.parquet").read_bytes())
    whole[100:2000] = bytes(1900)
    with pytest.raises(StoreError, match="cannot be read"):
        Exact(loadable(tmp_path, bytes(whole)))


def test_a_file_rewritten_while_it_is_read_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = loadable(tmp_path, b"site,id,t,v,w\na,1,2,3,4\n", "a.csv")
    monkeypatch.setattr("store.audit.exact.load", _load_and_touch)
    with pytest.raises(StoreError, match=r"a\.csv was changed or removed while it was read"):
        Exact(raw)


def _load_and_touch(connection: duckdb.DuckDBPyConnection, raw: RawFiles, _: object) -> dict[str, str]:
    connection.execute("CREATE TABLE events (source VARCHAR, t BIGINT, repeats BIGINT)")
    os.utime(raw.present[0].path, ns=(1, 1))
    return {}


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b"site,id,t,v\na,1,2,3\n"), ("a.json", b'{"site":"a","id":1,"t":2,"v":3}\n'), ("a.parquet", b"")],
)
def test_a_missing_column_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    if not content:
        pq.write_table(table_of("a", STREAMS["uniform"](3, 1)).drop_columns("w"), tmp_path / name)
        content = (tmp_path / name).read_bytes()
    with pytest.raises(StoreError, match=r"a\.\w+ has no column `w`, which is the weight of stream 'calls'"):
        Exact(loadable(tmp_path, content, name))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"w": pa.array(["1"])}, "`w` is of type VARCHAR, which cannot be checked here as a weight"),
        ({"t": pa.array(["1"])}, "`t` is of type VARCHAR, which cannot be checked here as a time"),
        ({"site": pa.array([1.5])}, "`site` is of type DOUBLE"),
        ({"id": pa.array([1.5])}, "`id` is of type DOUBLE"),
        ({"id": pa.array([[1]])}, "`id` is of type BIGINT"),
        ({"v": pa.array([{"x": 1}])}, "`v` is of type STRUCT"),
    ],
)
def test_types_that_are_not_sure_are_refused(changed: dict[str, pa.Array], message: str, tmp_path: Path) -> None:
    table = pa.table({"site": ["a"], "id": [1], "t": [2], "v": [3], "w": [4]} | changed)
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(StoreError) as caught:
        opened(tmp_path, tmp_path / "rows.parquet", settings_of())
    assert message in str(caught.value)


def test_too_many_rows_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says how many there may be."""
    monkeypatch.setattr("store.audit.exact.MOST_ROWS", 0)
    raw = loadable(tmp_path, b"not read at all")
    with pytest.raises(StoreError, match=r"hold 1 rows; exact answers are given up to 0"):
        Exact(raw)


def test_closing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a load that failed; whoever asks later is told."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    exact = Exact(loadable(tmp_path, b"site,id,t,v,w\na,1,2,3,4\n", "a.csv"))
    assert exact.answer(Question("sum")) == 4
    assert list((tmp_path / "tmp").iterdir())
    exact.close()
    exact.close()
    assert not list((tmp_path / "tmp").iterdir())
    with pytest.raises(StoreError, match="were closed"):
        exact.answer(Question("sum"))
    with pytest.raises(StoreError):
        Exact(replace(exact.raw, format="parquet"))
    assert not list((tmp_path / "tmp").iterdir())


def test_no_event_has_the_answers_of_nothing(tmp_path: Path) -> None:
    """A file of which every row was rejected: no newest event, no source, sums of 0 where a time is given."""
    with Exact(loadable(tmp_path, b"site,id,t,v,w\na,1,2,3,-1\n", "a.csv")) as exact:
        assert (exact.events, exact.newest, exact.sources) == (0, None, ())
        assert exact.answer(Question("sum"), 5) == 0
        assert exact.answer(Question("self-join"), 5) == 0
        assert math.isnan(exact.answer(Question("median"), 5))
        assert math.isnan(exact.answer(Question("mean")))
        assert exact.answer(Question("sum")) == 0
        assert exact.answer(Question("correlated-count", tau="median"), 5) == 0
        assert exact.shares(Question("heavy-hitters", top=2), 5) == []


def test_spills_to_its_own_folder_within_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that do not fit in its memory are still all counted."""
    monkeypatch.setattr("store.audit.exact.MEMORY", "40MB")
    count = 300_000
    table = pa.table(
        {
            "site": ["a"] * count,
            "id": [f"{number:040d}" for number in range(count)],
            "t": np.arange(count),
            "v": np.arange(count) % 7,
            "w": np.ones(count, np.int64),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    raw = raw_files(ledger(tmp_path / "wane.duckdb", [entry(tmp_path / "rows.parquet", count)]), STREAM)
    with Exact(raw) as exact:
        assert exact.events == count
        assert exact.answer(Question("sum", "window:1000s")) == 1000


def test_times_of_a_day_are_whole_days(tmp_path: Path) -> None:
    """A date is the start of its day in UTC, also before 1970."""
    days = [date(1969, 12, 31), date(2026, 1, 31)]
    table = pa.table({"site": ["a", "a"], "id": [1, 2], "t": pa.array(days), "v": [1, 2], "w": [1, 1]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with opened(tmp_path, tmp_path / "rows.parquet", settings_of(), TimeUnit(86_400, 1)) as exact:
        assert (exact.oldest, exact.newest) == (-1, (days[1] - date(1970, 1, 1)) // timedelta(days=1))
