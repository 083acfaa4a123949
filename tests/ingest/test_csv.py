"""CSV is read as its header, its quotes and its encoding say, or left with a sentence; Audit reads the same rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from ingest.driver.configuration.settings import Settings
from sketches import Sample
from store.audit.raw_events import link, load
from store.audit.raw_files import raw_files
from tests.support.runs import WHOLE, configure, ingest, stored, totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = 'schema = "id STRING, t BIGINT, v STRING"\n'
PLAIN = {"source": "'all'", "weight": "1", "input": "raw/*.csv"}


def audited(settings: Settings, folder: Path) -> set[tuple[Any, ...]]:
    """The events that Audit finds in the files of the ledger."""
    raw = raw_files(settings.store, "calls")
    assert raw.reason is None
    folder.mkdir()
    connection = duckdb.connect()
    connection.execute("CREATE MACRO floored(x, n) AS x // n - CASE WHEN x % n < 0 THEN 1 ELSE 0 END")
    load(connection, raw, link(raw.present, folder))
    return set(connection.execute("SELECT id, t, v FROM events").fetchall())


def test_columns_go_by_the_names_of_the_header(spark: SparkSession, tmp_path: Path) -> None:
    """A file whose header has another order than the schema is left with a sentence, not read by position."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("id,t,v\n1,1700000000,10\n")
    other = tmp_path / "raw/b.csv"
    other.write_text("id,v,t\n2,10,1700000000\n")
    more = 'schema = "id BIGINT, t BIGINT, v DOUBLE"\n'
    settings = configure(tmp_path, more, **PLAIN)
    outcome = ingest(settings, spark).outcomes[0]
    assert (outcome.error, outcome.rows, list(outcome.unreadable)) == (None, 1, [str(other)])
    assert "header" in outcome.unreadable[str(other)]
    assert audited(settings, tmp_path / "links") == {(1, 1_700_000_000, 10.0)}


def test_files_whose_headers_differ_are_not_mixed_up(spark: SparkSession, tmp_path: Path) -> None:
    """Without a schema, too: the columns of one file are not those of the other by position."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("id,t,v\n" + "".join(f"{n},1700000000,10\n" for n in range(9)))
    (tmp_path / "raw/b.csv").write_text("id,v,t\n" + "".join(f"{n},20,1700000000\n" for n in range(100, 105)))
    settings = configure(tmp_path, **PLAIN)
    outcome = ingest(settings, spark).outcomes[0]
    assert outcome.error is None
    assert len(outcome.unreadable) == 1
    assert {row[2] for row in audited(settings, tmp_path / "links")} in ({10}, {20})


def test_doubled_quotes_are_one_quote(spark: SparkSession, tmp_path: Path) -> None:
    """As Excel and pandas write them; a comma after one is no end of a field."""
    (tmp_path / "raw").mkdir()
    text = 'id,t,v\na,1700000000,"say ""hi"", he said"\nb,1700000000,"c:\\temp\\"\nc,1700000000,"""q"""\n'
    (tmp_path / "raw/a.csv").write_text(text)
    settings = configure(tmp_path, SCHEMA, **PLAIN)
    assert ingest(settings, spark).outcomes[0].rejected == {}
    wanted = {(one, int(t), v) for one, t, v in list(csv.reader(io.StringIO(text)))[1:]}
    assert {v for _, _, v in wanted} == {'say "hi", he said', "c:\\temp\\", '"q"'}
    assert audited(settings, tmp_path / "links") == wanted
    assert set(labels(settings)) == {v for _, _, v in wanted}


def labels(settings: Settings) -> list[str]:
    """The values of the stream's events, as they are stored."""
    return list(Sample.from_bytes(stored(settings)[WHOLE]).labels.texts)


def test_another_encoding_is_refused_or_named(spark: SparkSession, tmp_path: Path) -> None:
    """Latin-1 is left with a sentence that names the option; with the option it is read."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_bytes("id,t,v\na,1700000000,é\n".encode())
    latin = tmp_path / "raw/b.csv"
    latin.write_bytes("id,t,v\nb,1700000000,café\n".encode("latin-1"))
    settings = configure(tmp_path, SCHEMA, **PLAIN)
    outcome = ingest(settings, spark).outcomes[0]
    assert (outcome.rows, list(outcome.unreadable)) == (1, [str(latin)])
    assert 'options = { encoding = "ISO-8859-1" }' in outcome.unreadable[str(latin)]
    assert "byte 23" in outcome.unreadable[str(latin)]
    named = configure(
        tmp_path, SCHEMA + 'options = { encoding = "ISO-8859-1" }\n', "other", **(PLAIN | {"input": "raw/b.csv"})
    )
    assert ingest(named, spark).exit_code == 0
    assert totals(named)[0] == 1
    assert labels(named) == ["café"]
