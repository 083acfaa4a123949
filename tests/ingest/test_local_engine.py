"""A site without Java: `wane ingest --engine local` leaves the store that Spark would, and no half of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import read_settings
from ingest.driver.dry_run import preview
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from store.serving.catalogue import read_catalogue
from tests.support.paths import ROOT
from tests.support.runs import BOTH, configure, expected, ingest, outcome_of, stored, table_of, totals, write
from tests.support.stores import content
from tests.support.streams import STREAMS
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = 4 * int(os.environ.get("WANE_KILLS", "1"))
EXPRESSIONS = {"source": "concat(source, '-', id % 3)", "weight": "if(w > 1, w, 1)", "value": "v div 2"}
PROGRAM = """
import json, sys, wane
code = wane.main(["ingest", "--engine", "local", "--quiet"])
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j"))))
sys.exit(code)
"""


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which a Java, were one started, would leave a note."""
    folder.mkdir()
    java = folder / "java"
    java.write_text(f"#!/bin/sh\ntouch '{folder}/started'\nexit 1\n")
    java.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return kept | {"PATH": str(folder), "PYTHONPATH": str(ROOT)}


def test_no_java_and_no_spark(tmp_path: Path) -> None:
    """Nothing of Spark is loaded, no Java starts, and the sketches are those of one machine; a second run reads
    nothing."""
    rows = STREAMS["late"](5_000, 1).duplicated(1, 2)
    for number, part in enumerate(rows.split(3, 2)):
        write(tmp_path / f"raw/{number}.parquet", part)
    settings = configure(tmp_path, BOTH)
    environment = without_java(tmp_path / "bin")
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr, json.loads(done.stdout)) == (0, "", [])
        assert totals(settings)[0] == len(rows)
    assert not (tmp_path / "bin/started").exists()
    assert stored(settings) == expected(rows)


@pytest.mark.parametrize("name", ["zeek_wrccdc"])
def test_real_data_leave_the_same_store(
    spark: SparkSession, tmp_path: Path, data: Callable[[str], Path], name: str
) -> None:
    """Sketches, totals, ledger and rejects of either engine, and what the summary says. All six sets of data are
    compared by `python -m benchmarks.engines`."""
    found = {}
    for engine in ("spark", "local"):
        settings = configure(
            tmp_path,
            BOTH,
            name=engine,
            input=str(data(name)),
            time="ts",
            value="value",
            weight="if(id % 7 = 0, -1, weight)",  # rejects some
            epoch="1h",
        )
        told = ingest(settings, spark, engine=engine).outcomes[0]
        assert told.error is None
        examples = sorted(row[2:] for row in content(settings.store)["rejects"])
        found[engine] = outcome_of(settings.store) | {"told": vars(told), "examples": examples}
    by_spark, local = found["spark"], found["local"]
    assert by_spark["rejects"]
    assert {name: rows for name, rows in local.items() if rows != by_spark[name]} == {}


@pytest.mark.parametrize("form", ["parquet", "expressions", "csv"])
def test_streams_over_one_input_take_one_pass(tmp_path: Path, form: str) -> None:
    """Several streams over the same files leave what each alone leaves."""
    table = table_of(STREAMS["late"](2_000, 1), ["north", "south"])
    (tmp_path / "raw").mkdir()
    if form == "csv":
        pyarrow.csv.write_csv(table, tmp_path / "raw/a.csv")
    else:
        pq.write_table(table, tmp_path / "raw/a.parquet", row_group_size=300)
    more = {"weight": "if(w > 1, w, 1)"} if form == "expressions" else {}
    ending = "csv" if form == "csv" else "parquet"
    stores = []
    for name in ("together", "alone"):
        one = configure(tmp_path, name=name, input=f"raw/*.{ending}", **more)
        text = one.path.read_text()
        one.path.write_text(text + text[text.index("[streams") :].replace("[streams.calls]", "[streams.other]"))
        stores.append(read_settings(one.path))
    assert ingest(stores[0], None, engine="local").exit_code == 0
    for stream in ("calls", "other"):
        assert ingest(stores[1], None, engine="local", streams=[stream]).outcomes[0].rows == 2_000
    together, alone = (outcome_of(settings.store) for settings in stores)
    assert together == alone


def test_a_killed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    """Killed at any moment, the store is as if the run had not begun or as if it had ended; the next completes it."""
    rows = STREAMS["late"](30_000, 1).duplicated(1, 2)
    for number, part in enumerate(rows.split(4, 2)):
        write(tmp_path / f"raw/{number}.parquet", part)
    peaceful = configure(tmp_path, BOTH, name="peaceful")
    assert ingest(peaceful, None, engine="local").exit_code == 0
    wanted = outcome_of(peaceful.store)
    settings = configure(tmp_path, BOTH)
    rng = np.random.default_rng(24)
    states = set()
    for kill in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=-3,
            stderr=-3,
        )
        try:
            started = tmp_path / "wane.duckdb.ingest"
            deadline = time.monotonic() + 100
            while not started.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            if kill % 2:  # about to commit
                while not list(tmp_path.glob("*wane.duckdb.new-*")) and process.poll() is None:
                    time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.1 if kill % 2 else 0.6))
        finally:
            process.kill()
            process.wait()
        committed = settings.store.exists() and bool(stored(settings))
        states.add((process.returncode == -signal.SIGKILL, committed))
        if committed:
            assert outcome_of(settings.store) == wanted, "committed means committed whole"
        for file in tmp_path.glob("wane.duckdb*") if committed or kill % 3 == 0 else [started]:
            file.unlink(missing_ok=True)
    assert (True, False) in states, "no kill came before its commit: the test shows nothing"
    assert ingest(settings, None, engine="local").exit_code == 0
    assert outcome_of(settings.store) == wanted


def test_a_signal_stops_it(tmp_path: Path) -> None:
    """SIGTERM ends it with 143, and nothing is committed."""
    for number, part in enumerate(STREAMS["late"](200_000, 1).split(8, 2)):
        write(tmp_path / f"raw/{number}.parquet", part, group=50_000)
    settings = configure(tmp_path, BOTH)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=-3, stderr=-3
    )
    while not (tmp_path / "wane.duckdb.ingest").exists():
        time.sleep(0.005)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert not settings.store.exists()


def test_expressions_are_evaluated(tmp_path: Path) -> None:
    """As Spark SQL says; a dry run shows the events, and rejected rows are told."""
    table = pa.table(
        {
            "source": ["a", "b", "a", None],
            "id": [1, 2, 3, 4],
            "t": pa.array([1_700_000_000_500, -1, 2_000, None], pa.timestamp("ms", "Europe/Berlin")),
            "v": [7, -7, 5, 1],
            "w": [3, 0, -5, 1],
        }
    )
    (tmp_path / "raw").mkdir()
    pq.write_table(table, tmp_path / "raw/a.parquet")
    fields = '[streams.calls.fields]\nfile = "_metadata.file_name"\nbig = "v > 1"\n'
    settings = configure(tmp_path, fields, time="unix_seconds(t)", **EXPRESSIONS)
    (shown,) = preview(settings, RunOptions(engine="local"), Progress(quiet=True))
    assert [(one["source"], one["time"], one["value"], one["weight"], one["fields"]) for one in shown.events] == [
        ("a-1", 1_700_000_000, 3, 3, {"big": True, "file": "a.parquet"}),
        ("b-2", -1, -3, 1, {"big": False, "file": "a.parquet"}),
        ("a-0", 2, 2, 1, {"big": True, "file": "a.parquet"}),
    ]
    summary = ingest(settings, None, engine="local")
    assert (summary.outcomes[0].rows, sum(summary.outcomes[0].rejected.values())) == (4, 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"source": "initcap(source)"}, r"source of stream 'calls' is 'initcap(source)': initcap() is not evaluated"),
        ({"options": "{ multiLine = true }"}, "options = { multiLine }: this needs Spark"),
        ({"schema": "id STRUCT<a INT>"}, "this needs Spark"),
        ({"source": "nowhere"}, "have no column `nowhere`"),
    ],
)
def test_what_needs_spark_is_refused(tmp_path: Path, change: dict[str, str], sentence: str) -> None:
    """The stream fails with a sentence that names it, and nothing is committed."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("source,id,t,v,w\na,1,1700000000,5,1\n")
    options = change.pop("options", None)
    settings = configure(tmp_path, input="raw/*.csv", **change)
    if options:
        settings.path.write_text(settings.path.read_text() + f"options = {options}\n")
    outcome = ingest(read_settings(settings.path), None, engine="local").outcomes[0]
    assert outcome.error is not None
    assert sentence in outcome.error
    assert not settings.store.exists()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["5d", "7"], "numbers that only Java reads"),
        (["5d", "7", "x"], None),  # one text makes all of them texts, to Spark too
        (['{"a": 1}', "[2]"], "has objects or lists"),
        (['"x"', "2.50"], "texts and fractions"),
        (['"x"', "2"], None),
    ],
)
def test_values_that_only_spark_reads_are_refused(tmp_path: Path, values: list[str], sentence: str | None) -> None:
    """A column is left to Spark where it would read it as something else, and only there."""
    (tmp_path / "raw").mkdir()
    form = "json" if values[0][0] in '{"' else "csv"
    rows = ["id,t,v"] if form == "csv" else []
    line = "{at},1700000000,{value}" if form == "csv" else '{{"id": {at}, "t": 1700000000, "v": {value}}}'
    rows += [line.format(at=at, value=value) for at, value in enumerate(values)]
    (tmp_path / f"raw/a.{form}").write_text("\n".join(rows) + "\n")
    settings = configure(tmp_path, input=f"raw/*.{form}", source="'s'", weight="1")
    outcome = ingest(settings, None, engine="local").outcomes[0]
    if sentence is None:
        assert (outcome.error, outcome.rows, outcome.rejected) == (None, len(values), {})
    else:
        assert outcome.error is not None
        assert sentence in outcome.error
        assert "this needs Spark" in outcome.error


def test_a_schema_and_odd_names(tmp_path: Path) -> None:
    """A schema gives types, and what is not of them is missing; a file may have the letters of globs in its name."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a [1]*.csv").write_text(
        "id,t,v\n1,1700000000,007\nx,1700000001,5\n3,1700000002,\n4,1700000003,z\n"
    )
    settings = configure(
        tmp_path, 'schema = "id BIGINT, t BIGINT, v STRING"\n', input="raw/*.csv", source="'s'", weight="1"
    )
    outcome = ingest(settings, None, engine="local").outcomes[0]
    assert outcome.error is None
    assert (outcome.rows, outcome.rejected) == (4, {"no id": 1, "no value": 1})
    assert [row[2] for row in content(settings.store)["files"]] == [str(tmp_path / "raw/a [1]*.csv")]
    assert read_catalogue(settings.store).streams["calls"].described["kind"] == "key"


def test_a_damaged_file_is_left(tmp_path: Path) -> None:
    """It is named, and the others are read."""
    rows = STREAMS["late"](1_000, 1)
    write(tmp_path / "raw/good.parquet", rows)
    content_ = (tmp_path / "raw/good.parquet").read_bytes()
    bad = write(tmp_path / "raw/bad.parquet", STREAMS["late"](2_000, 2))
    data = bytearray(bad.read_bytes())
    data[200:400] = bytes(200)
    bad.write_bytes(bytes(data))
    assert content_ == (tmp_path / "raw/good.parquet").read_bytes()
    for more in ({}, {"weight": "w + 0"}):
        settings = configure(tmp_path, name=f"wane{len(more)}", **more)
        outcome = ingest(settings, None, engine="local").outcomes[0]
        assert outcome.error is None
        assert (outcome.rows, list(outcome.unreadable)) == (1_000, [str(bad)])


def test_spark_has_its_options_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = configure(tmp_path)
    assert main(["ingest", "--config", str(settings.path), "--engine", "local", "--master", "local[2]"]) == 2
    assert "--engine local does without" in capsys.readouterr().err
