"""Fields on real Spark: both ways in bring the same columns, and the run tells what was missing in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings
from ingest.driver.configuration.stream_kinds import StreamKinds, checked_kinds
from ingest.driver.files.input_files import find_files
from ingest.driver.parquet_reading import ParquetReading
from ingest.driver.progress import Progress
from ingest.executor.columns import Conversion, check
from ingest.executor.field_columns import fields_of
from ingest.executor.worker import read_row_group
from store.serving.catalogue import read_catalogue
from tests.support.runs import configure, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 60
PLAIN = {"status": "status", "path": "path", "ok": "ok", "cost": "cost", "at": "day", "region": "'eu'"}
FIELDS = "[streams.calls.fields]\n" + "".join(f"{name} = {json.dumps(text)}\n" for name, text in PLAIN.items())


def table() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "source": ["north"] * ROWS,
            "id": numbers,
            "t": [1_700_000_000 + number for number in numbers],
            "v": [number % 7 for number in numbers],
            "w": [1] * ROWS,
            "status": pa.array([None if number % 9 == 0 else 200 + number % 3 for number in numbers], pa.int32()),
            "path": [None if number % 8 == 0 else f"/{number % 5}" for number in numbers],
            "ok": [number % 2 == 0 for number in numbers],
            "cost": [float("nan") if number % 10 == 0 else number / 4 for number in numbers],
            "day": pa.array([19_000 + number % 3 for number in numbers], pa.int32()).cast(pa.date32()),
        }
    )


def wanted() -> dict[int, dict[str, Any]]:
    rows = table().to_pylist()
    return {
        row["id"]: {
            "status": row["status"],
            "path": row["path"],
            "ok": row["ok"],
            "cost": None if row["cost"] != row["cost"] else row["cost"],
            "at": row["day"].isoformat(),
            "region": "eu",
        }
        for row in rows
    }


def fields_read(settings: Settings, spark: SparkSession) -> tuple[bool, dict[int, dict[str, Any]]]:
    """Whether tasks read the files by themselves, and the fields of every event by id."""
    from ingest.driver.spark.engine import SparkEngine

    stream = settings.streams["calls"]
    engine = SparkEngine(lambda: spark, Progress(quiet=True))
    reading, _ = engine.choose(stream, [file.path for file in find_files(stream)])
    kinds = checked_kinds(stream, reading.types, StreamKinds())
    assert kinds.value is not None
    if isinstance(reading, ParquetReading):
        batches = [batch for group in reading.row_groups for batch in read_row_group(group, reading.columns)]
    else:
        rows = reading.frame.toArrow().combine_chunks()
        batches = [{name: rows.column(name).chunk(0) for name in rows.column_names}]
    checked = [check(batch, Conversion(kinds.value, stream.unit, fields=kinds.fields)) for batch in batches]
    fields = fields_of(
        sum(map(len, checked)), kinds.fields, {name: [part.fields[name] for part in checked] for name in kinds.fields}
    )
    ids = [one for part in checked for one in part.ids.tolist()]
    columns = {name: fields[name].to_list() for name in fields}
    return isinstance(reading, ParquetReading), {
        one: {name: column[row] for name, column in columns.items()} for row, one in enumerate(ids)
    }


@pytest.mark.parametrize("kind", ["parquet", "expressions", "csv", "json"])
def test_both_ways_in_bring_the_same_fields(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Plain columns of Parquet files are read by tasks themselves; expressions and other formats by Spark."""
    (tmp_path / "raw").mkdir()
    ending = "parquet" if kind == "expressions" else kind
    path = tmp_path / f"raw/a.{ending}"
    frame = table().to_pandas()
    if kind == "csv":
        frame.to_csv(path, index=False, na_rep="")
    elif kind == "json":
        path.write_text(
            "".join(json.dumps(row, default=str) + "\n" for row in table().to_pylist()).replace("NaN", "null")
        )
    else:
        pq.write_table(table(), path, row_group_size=25)
    fields = FIELDS.replace('"path"', "\"concat(path, '')\"") if kind == "expressions" else FIELDS
    direct, found = fields_read(configure(tmp_path, fields, input=f"raw/*.{ending}"), spark)
    assert direct == (kind == "parquet")
    assert found == wanted()


def test_a_run_tells_what_fields_lack_and_where_copies_differ(spark: SparkSession, tmp_path: Path) -> None:
    """The workers count it, the summary and the store have it; a later file is converted to the kind of the first."""
    (tmp_path / "raw").mkdir()
    rows = table()
    pq.write_table(rows, tmp_path / "raw/a.parquet")
    settings = configure(tmp_path, FIELDS)
    assert ingest(settings, spark).outcomes[0].field_faults == {}
    described = read_catalogue(settings.store).streams["calls"].described
    assert described["fields"] == PLAIN
    assert described["field_kinds"] == {
        "at": "text",
        "cost": "float",
        "ok": "boolean",
        "path": "text",
        "region": "text",
        "status": "integer",
    }
    texts = pa.array(["oops" if number < 4 else "404" for number in range(ROWS)])
    at = rows.schema.get_field_index("status")
    pq.write_table(pa.concat_tables([rows.set_column(at, "status", texts)] * 2), tmp_path / "raw/b.parquet")
    changed = rows.set_column(at, "status", pa.array(["500"] * 3 + ["404"] * (ROWS - 3)))
    pq.write_table(changed, tmp_path / "raw/c.parquet")
    outcome = ingest(settings, spark).outcomes[0]
    assert outcome.field_faults == {"status": {"it is not a whole number, as the field is": 8}}
    assert (outcome.field_conflicts, outcome.conflicts) == (4, 0)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("rand()", "field bad of stream 'calls' is 'rand()'; an expression must give the same result"),
        ("max(v)", "field bad of stream 'calls' is 'max(v)'; an expression makes one value"),
        ("nowhere", "field bad of stream 'calls' is 'nowhere', which Spark cannot read"),
        ("array(v)", "field bad of stream 'calls' is 'array(v)', of type list"),
    ],
)
def test_an_expression_of_a_field_is_checked(spark: SparkSession, tmp_path: Path, expression: str, words: str) -> None:
    """As those of an event's parts are."""
    (tmp_path / "raw").mkdir()
    pq.write_table(table(), tmp_path / "raw/a.parquet")
    error = ingest(configure(tmp_path, f'[streams.calls.fields]\nbad = "{expression}"\n'), spark).outcomes[0].error
    assert error is not None
    assert words in error


def test_a_column_that_came_later_is_missing_before(spark: SparkSession, tmp_path: Path) -> None:
    """Of files that tasks read by themselves, one without the column leaves the field missing in its rows."""
    (tmp_path / "raw").mkdir()
    rows = table()
    pq.write_table(rows.slice(0, 30).drop_columns("path"), tmp_path / "raw/a.parquet")
    pq.write_table(rows.slice(30), tmp_path / "raw/b.parquet")
    direct, found = fields_read(configure(tmp_path, FIELDS), spark)
    assert direct
    assert found == {one: fields | ({"path": None} if one < 30 else {}) for one, fields in wanted().items()}
