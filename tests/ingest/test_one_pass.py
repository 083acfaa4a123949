"""Several streams over one input: each file is read once, and every stream is as if it had been alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings, read_settings
from ingest.driver.files import input_files
from ingest.executor import worker
from ingest.executor.columns import Conversion
from ingest.executor.one_pass import rows_of, sketch_row_groups_for_all
from ingest.executor.worker import RowGroup, merge, sketch_row_groups
from ingest.executor.worker_settings import WorkerSettings
from sketches import Question
from sketches.event_rules import PlainColumn
from sketches.events import Kind
from sketches.registry import FAMILIES
from sketches.units import SECOND
from store import Store
from tests.support.runs import ingest, outcome_of, table_of
from tests.support.streams import STREAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = STREAMS["correlated"](3_000, 5)
PLAIN = """
[streams.calls]
input = "raw/*.ENDING"
source = "source"
id = "id"
time = "t"
value = "v"
weight = "w"
epoch = "10m"
epsilon = 0.2
[streams.calls.fields]
path = "path"

[streams.paths]
input = "raw/*.ENDING"
source = "'all'"
id = "id"
time = "t"
value = "path"
epoch = "1h"
families = ["sample", "ecm"]
epsilon = 0.3

[streams.weights]
input = "raw/*.ENDING"
source = "source"
id = "id"
time = "t"
value = "w"
weight = "v"
epoch = "10m"
families = ["sample", "qdigest"]
repeats = "count"
"""
EXPRESSION = PLAIN.replace('value = "w"', 'value = "w * 2"')
THREE = ("calls", "paths", "weights")


def table(first: int = 0, rows: int = 1_500) -> pa.Table:
    some = table_of(ROWS, ["north", "south"]).slice(first, rows)
    return some.append_column("path", pa.array([f"/{number % 7}" for number in range(first, first + some.num_rows)]))


def settings(folder: Path, text: str, ending: str, name: str) -> Settings:
    file = folder / f"{name}.toml"
    file.write_text(f'store = "{name}.duckdb"\n' + text.replace("ENDING", ending))
    return read_settings(file)


def files(folder: Path, ending: str) -> None:
    (folder / "raw").mkdir()
    for number in range(2):
        path = folder / f"raw/{number}.{ending}"
        if ending == "csv":
            pyarrow.csv.write_csv(table(1_500 * number), path)
        else:
            pq.write_table(table(1_500 * number), path, row_group_size=400)


def jobs(spark: SparkSession) -> int:
    """How many jobs Spark has run; each pass over files is one or more."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "ending", "few"),
    [(PLAIN, "parquet", 4), (PLAIN, "parquet", 0), (EXPRESSION, "parquet", 4), (PLAIN, "csv", 0)],
    ids=["by tasks", "by tasks, merged by workers", "by Spark", "CSV, merged by workers"],
)
def test_three_streams_take_one_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, ending: str, few: int
) -> None:
    """As many jobs as one stream takes, each file fingerprinted once; and the store that three runs would leave."""
    files(tmp_path, ending)
    monkeypatch.setattr("ingest.driver.spark.engine.FEW_TASKS", few)
    alone, jobs_of_one = settings(tmp_path, text, ending, "alone"), []
    for name in THREE:
        before = jobs(spark)
        assert ingest(alone, spark, streams=[name]).exit_code == 0
        jobs_of_one.append(jobs(spark) - before)
    marked = counted(monkeypatch, input_files, "fingerprint", str)
    together, before = settings(tmp_path, text, ending, "together"), jobs(spark)
    summary = ingest(together, spark)
    assert summary.exit_code == 0
    assert jobs(spark) - before == max(jobs_of_one)
    assert marked == {str(tmp_path / f"raw/{number}.{ending}"): 1 for number in range(2)}
    assert {outcome.stream: outcome.rows for outcome in summary.outcomes} == dict.fromkeys(THREE, 3_000)
    assert outcome_of(together.store) == outcome_of(alone.store)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, key: Callable[..., Any]) -> Counter[Any]:
    """How often a function is called, by what it is called with; it still does what it did."""
    calls: Counter[Any] = Counter()
    real = getattr(module, name)

    def counting(*arguments: Any, **keywords: Any) -> Any:
        calls[key(*arguments)] += 1
        return real(*arguments, **keywords)

    monkeypatch.setattr(module, name, counting)
    return calls


def test_a_row_group_is_read_once_for_all_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=500)
    groups = [RowGroup(str(path), number, 500) for number in range(3)]
    parts = ({"value": "v", "weight": "w"}, {"value": "path", "weight": "w"}, {"value": "w", "weight": "v"})
    common = {"source": "source", "id": "id", "time": "t"}
    streams = [{role: PlainColumn(name) for role, name in {**common, **some}.items()} for some in parts]
    kinds = (Kind.FLOAT, Kind.KEY, Kind.INTEGER)
    hows = [
        WorkerSettings(Conversion(kind, SECOND), 600, tuple((FAMILIES[name], {}) for name in families))
        for kind, families in zip(kinds, (["sample"], ["sample", "ecm"], ["qdigest"]), strict=True)
    ]
    numbers = pa.record_batch({"id": [0]})
    alone = [
        list(sketch_row_groups([numbers], [groups], columns, how)) for columns, how in zip(streams, hows, strict=True)
    ]
    opened = counted(monkeypatch, worker.pq, "ParquetFile", str)
    found = pa.Table.from_batches(sketch_row_groups_for_all([numbers], [groups], streams, hows))
    assert opened == {str(path): len(groups)}
    for number, how in enumerate(hows):
        own = rows_of(found, number, how)
        for name in ("source", "start", "events", "weight", *(family.family for family, _ in how.families)):
            assert own[name].to_pylist() == pa.Table.from_batches(alone[number])[name].to_pylist()
        assert pa.Table.from_batches(merge(own.to_batches(), how), how.schema).num_rows


def test_what_concerns_one_stream_stops_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """An expression that Spark refuses, and a damaged file, are found by each stream for itself."""
    files(tmp_path, "parquet")
    wrong = PLAIN.replace('value = "w"', 'value = "nothing_like_it + 1"')
    summary = ingest(settings(tmp_path, wrong, "parquet", "wrong"), spark)
    failed = {outcome.stream: outcome.error for outcome in summary.outcomes}
    assert failed["calls"] is failed["paths"] is None
    assert "nothing_like_it" in str(failed["weights"])
    whole = (tmp_path / "raw/1.parquet").read_bytes()
    (tmp_path / "raw/1.parquet").write_bytes(whole[: len(whole) // 2])
    summary = ingest(settings(tmp_path, PLAIN, "parquet", "torn"), spark)
    assert [list(outcome.unreadable) for outcome in summary.outcomes] == [[str(tmp_path / "raw/1.parquet")]] * 3
    assert [outcome.rows for outcome in summary.outcomes] == [1_500] * 3


def test_a_stream_that_comes_later_reads_what_the_others_have_read(spark: SparkSession, tmp_path: Path) -> None:
    files(tmp_path, "parquet")
    first = settings(tmp_path, PLAIN.split("[streams.weights]", maxsplit=1)[0], "parquet", "later")
    assert ingest(first, spark).exit_code == 0
    pq.write_table(table(0, 100), tmp_path / "raw/2.parquet")
    summary = ingest(settings(tmp_path, PLAIN, "parquet", "later"), spark)
    assert {outcome.stream: outcome.files for outcome in summary.outcomes} == {"calls": 1, "paths": 1, "weights": 3}
    count = Store(first.store).ask("weights", Question("count", "none")).estimate
    assert count.value == 3_100
