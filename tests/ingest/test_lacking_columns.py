"""A file without a column that events need, or none of whose rows is an event, is named and left to the next run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings, read_settings
from tests.support.runs import configure, ingest, totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_700_000_000
ENGINES = ("spark", "local")
KINDS = ("parquet", "csv", "json.gz")
LOCALLY = [("local", kind) for kind in KINDS]
EACH = [("local", kind, form) for kind in KINDS for form in ("columns", "expressions")]


def rows(number: int, many: int, **renamed: str) -> dict[str, list[Any]]:
    """Events of a file; keywords rename a column."""
    ids = range(1_000_000 * number, 1_000_000 * number + many)
    table: dict[str, list[Any]] = {
        "source": [f"site{one % 3}" for one in ids],
        "id": list(ids),
        "t": [START + one % 5_000 for one in ids],
        "v": [one % 97 for one in ids],
        "w": [1] * many,
    }
    return {renamed.get(name, name): column for name, column in table.items()}


def write(path: Path, table: dict[str, list[Any]]) -> str:
    path.parent.mkdir(exist_ok=True)
    records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    elif path.suffix == ".csv":
        path.write_text("\n".join([",".join(table), *(",".join(map(str, one.values())) for one in records)]) + "\n")
    else:
        path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in records).encode()))
    return str(path)


def spelled(settings: Settings, form: str) -> Settings:
    """With parts of events as columns, or as expressions."""
    if form == "expressions":
        text = settings.path.read_text()
        for name in ("source", "t", "v"):
            old, new = f'"{name}"', '"upper(source)"' if name == "source" else f'"{name} + 0"'
            text = text.replace(f"= {old}", f"= {new}")
        settings.path.write_text(text)
    return read_settings(settings.path)


@pytest.mark.parametrize(
    ("engine", "kind", "form"), [*EACH, ("spark", "parquet", "expressions"), ("spark", "json.gz", "columns")]
)
def test_a_file_without_a_needed_column_costs_itself(
    spark: SparkSession, tmp_path: Path, engine: str, kind: str, form: str
) -> None:
    """However it is called there, in the first file of a run or the last: the others are taken."""
    good = [write(tmp_path / f"raw/{number}.{kind}", rows(number, 300)) for number in (1, 3)]
    bad = {
        write(tmp_path / f"raw/0.{kind}", rows(0, 200, t="moment")): "t",
        write(tmp_path / f"raw/2.{kind}", rows(2, 200, v="amount")): "v",
        write(tmp_path / f"raw/4.{kind}", rows(4, 200, source="site")): "source",
    }
    settings = spelled(configure(tmp_path, input=f"raw/*.{kind}"), form)
    summary = ingest(settings, spark, engine=engine)
    outcome = summary.outcomes[0]
    assert (outcome.error, outcome.rows, outcome.files, outcome.rejected) == (None, 600, len(good), {})
    assert sorted(outcome.unreadable) == sorted(bad)
    for path, column in bad.items():
        assert f"it has no column `{column}`" in outcome.unreadable[path]
    assert summary.exit_code == 3
    assert all(any(path in problem for problem in summary.problems()) for path in bad)
    for path in bad:
        write(Path(path), rows(int(Path(path).name[0]), 200))
    again = ingest(settings, spark, engine=engine)
    assert (again.exit_code, again.outcomes[0].rows, totals(settings)[0]) == (0, 600, 1200)


@pytest.mark.parametrize(("engine", "kind"), [*LOCALLY, ("spark", "csv")])
def test_a_column_that_is_renamed_from_one_day_on_is_told_of(
    spark: SparkSession, tmp_path: Path, engine: str, kind: str
) -> None:
    """None of the new files has it: the stream is known, so it is the files that are odd."""
    write(tmp_path / f"raw/0.{kind}", rows(0, 300))
    settings = configure(tmp_path, input=f"raw/*.{kind}")
    assert ingest(settings, spark, engine=engine).exit_code == 0
    path = write(tmp_path / f"raw/1.{kind}", rows(1, 300, t="moment"))
    summary = ingest(settings, spark, engine=engine)
    assert (summary.exit_code, summary.generation, list(summary.outcomes[0].unreadable)) == (3, None, [path])
    assert "it has no column `t`" in next(summary.problems())


@pytest.mark.parametrize(("engine", "kind"), [*LOCALLY, ("spark", "parquet")])
def test_settings_that_name_no_column_of_any_file_are_refused(
    spark: SparkSession, tmp_path: Path, engine: str, kind: str
) -> None:
    """In a new stream it is the settings that are odd."""
    write(tmp_path / f"raw/0.{kind}", rows(0, 30))
    summary = ingest(configure(tmp_path, input=f"raw/*.{kind}", time="moment"), spark, engine=engine)
    assert (summary.exit_code, summary.outcomes[0].unreadable) == (1, {})
    assert "moment" in next(summary.problems())


@pytest.mark.parametrize(("engine", "kind"), [*LOCALLY, ("spark", "json.gz")])
def test_a_file_of_rejected_rows_alone_is_left(spark: SparkSession, tmp_path: Path, engine: str, kind: str) -> None:
    """Its rows are few among those of the run, and still it is the file that is wrong."""
    write(tmp_path / f"raw/0.{kind}", rows(0, 900))
    odd = rows(1, 200)
    odd["t"] = [-(1 << 62) - 1] * 200
    path = write(tmp_path / f"raw/1.{kind}", odd)
    some = rows(2, 100)
    some["w"][:7] = [-1] * 7
    write(tmp_path / f"raw/2.{kind}", some)
    settings = configure(tmp_path, input=f"raw/*.{kind}")
    summary = ingest(settings, spark, engine=engine)
    outcome = summary.outcomes[0]
    assert (outcome.error, outcome.rows, sum(outcome.rejected.values())) == (None, 1000, 7)
    assert list(outcome.unreadable) == [path]
    assert outcome.unreadable[path].startswith("all of its 200 rows would be rejected: ")
    assert (summary.exit_code, totals(settings)[0]) == (3, 993)


@pytest.mark.parametrize("engine", ENGINES)
def test_streams_over_one_input_each_leave_their_own(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    """A column that one stream needs does not cost the other its rows."""
    write(tmp_path / "raw/0.json.gz", rows(0, 300))
    path = write(tmp_path / "raw/1.json.gz", rows(1, 300, v="amount"))
    settings = configure(tmp_path, input="raw/*.json.gz")
    text = settings.path.read_text()
    other = text[text.index("[streams") :].replace("[streams.calls]", "[streams.other]").replace('"v"', '"w"')
    settings.path.write_text(text + other)
    summary = ingest(read_settings(settings.path), spark, engine=engine)
    assert [(one.rows, list(one.unreadable)) for one in summary.outcomes] == [(300, [path]), (600, [])]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_that_an_expression_can_do_without_is_not_needed(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    """`coalesce` takes what there is."""
    both = rows(0, 300) | {"amount": [5] * 300}
    write(tmp_path / "raw/0.parquet", both)
    write(tmp_path / "raw/1.parquet", rows(1, 300))
    settings = configure(tmp_path, value="coalesce(amount, v)")
    summary = ingest(settings, spark, engine=engine)
    assert (summary.exit_code, summary.outcomes[0].error, summary.outcomes[0].rows) == (0, None, 600)
