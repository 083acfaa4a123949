"""Damaged files: each is named and left to the next run, its stream takes its other files, the other streams commit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import read_settings
from tests.support.runs import configure, ingest, table_of, totals, write
from tests.support.streams import STREAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = "source,id,t,v,w\n"
STREAM = '[streams.{name}]\nsource = "source"\nid = "id"\ntime = "t"\nvalue = "v"\nweight = "w"\ninput = "{input}"\n'


def lines(start: int, rows: int = 2000) -> str:
    return "".join(
        f"north,{number},{1_700_000_000 + number},{number * 7919 % 1000},1\n" for number in range(start, start + rows)
    )


def objects(start: int, rows: int = 2000) -> str:
    row = {"source": "north", "v": 5, "w": 1}
    return "".join(
        json.dumps(row | {"id": start + at, "t": 1_700_000_000 + at * 7919 % 1000}) + "\n" for at in range(rows)
    )


def torn(path: Path, text: str) -> None:
    """A compressed file of which the end is missing."""
    packed = gzip.compress(text.encode())
    path.write_bytes(packed[: len(packed) // 2])


@pytest.mark.parametrize("kind", ["csv.gz", "json.gz", "parquet"])
@pytest.mark.parametrize("bad", [1, 25])
def test_a_damaged_file_costs_itself(spark: SparkSession, tmp_path: Path, kind: str, bad: int) -> None:
    """However many there are, before those that are whole: also where Spark must look into files for their columns."""
    raw = tmp_path / "raw"
    raw.mkdir()
    names = [raw / f"{number:02}.{kind}" for number in range(bad)]
    good = raw / f"zz.{kind}"
    if kind == "parquet":
        write(good, STREAMS["late"](2000, 1))
        for name in names:
            name.write_bytes(good.read_bytes()[: 5_000 + len(names)] + name.name.encode())
    else:
        text = (lambda start: HEAD + lines(start)) if kind == "csv.gz" else objects
        good.write_bytes(gzip.compress(text(0).encode()))
        for number, name in enumerate(names):
            torn(name, text(10_000 * (number + 1)))
    write(tmp_path / "other/a.parquet", STREAMS["late"](500, 2))
    file = tmp_path / "wane.toml"
    file.write_text(
        'store = "wane.duckdb"\n'
        + STREAM.format(name="calls", input=f"raw/*.{kind}").replace('"v"', '"v + 0"')
        + STREAM.format(name="others", input="other/*.parquet")
    )
    summary = ingest(read_settings(file), spark)
    calls, others = summary.outcomes
    assert (calls.error, others.error) == (None, None)
    assert sorted(calls.unreadable) == [str(name) for name in names]
    assert (calls.rows, calls.files, others.rows, summary.exit_code) == (2000, 1, 500, 3)
    assert not any("Exception" in line or "\tat " in line for line in summary.lines())


def test_many_files_with_damaged_pages_do_not_shelve_the_good_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Spark fails at the first; the others are found by looking, not by as many further runs."""
    rows = STREAMS["late"](26_000, 1)
    (tmp_path / "raw").mkdir()
    for number, part in enumerate(rows.split(26, 1)):
        path = tmp_path / f"raw/{number:02}.parquet"
        pq.write_table(table_of(part, ("north", "south")), path, write_page_checksum=True)
        if number < 25:
            content = bytearray(path.read_bytes())
            column = pq.ParquetFile(path).metadata.row_group(0).column(1)
            start = column.dictionary_page_offset or column.data_page_offset
            content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
            path.write_bytes(bytes(content))
    settings = configure(tmp_path)
    outcome = ingest(settings, spark).outcomes[0]
    assert len(outcome.unreadable) == 25
    assert totals(settings)[0] == outcome.rows > 0


def test_files_of_a_schema_that_are_torn_are_left(spark: SparkSession, tmp_path: Path) -> None:
    """With a schema nothing is looked up beforehand, and the same is found."""
    (tmp_path / "raw").mkdir()
    for number in range(22):
        torn(tmp_path / f"raw/{number:02}.csv.gz", HEAD + lines(number))
    (tmp_path / "raw/zz.csv.gz").write_bytes(gzip.compress((HEAD + lines(0)).encode()))
    more = 'schema = "source STRING, id BIGINT, t BIGINT, v DOUBLE, w BIGINT"\n'
    outcome = ingest(configure(tmp_path, more, input="raw/*.csv.gz"), spark).outcomes[0]
    assert (len(outcome.unreadable), outcome.rows) == (22, 2000)
