"""`wane.sketch` in a Spark query of one's own: the store is the one that ingest of the rows makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import wane
from ingest.driver.configuration.settings import SettingsError
from sketches import Question
from store import Store
from store.serving.catalogue import read_catalogue
from tests.support.batches import FIELDS, SETTINGS, rows
from tests.support.runs import configure, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS: dict[str, Any] = {"id": "id", "time": "t", "source": "site", "fields": FIELDS, **SETTINGS}
QUESTIONS = (
    Question("count", "exp:half_life=20m"),
    Question("sum", "window:30m", of="size"),
    Question("mean", "poly:alpha=1,unit=5m"),
    Question("median", tau="q0.6"),
)


def answers(store: Store) -> list[tuple[float, float, float]]:
    found = [store.ask("calls", question).estimate for question in QUESTIONS]
    found.append(store.ask("calls", Question("rank", value=300), family="qdigest").estimate)
    return [(one.value, one.lower, one.upper) for one in found]


def test_a_batch_is_what_ingest_of_its_rows_is(spark: SparkSession, tmp_path: Path) -> None:
    """Answers, totals, kinds, rejected rows; parts of events are text or columns."""
    (raw := tmp_path / "raw" / "rows.parquet").parent.mkdir()
    pq.write_table(rows(), raw)
    more = '[streams.calls.fields]\ncodec = "upper(codec)"\nsize = "size"\n'
    settings = configure(tmp_path, f"detail = 1\n{more}", source="site", families=["sample", "qdigest"])
    assert ingest(settings, spark).exit_code == 0
    frame = spark.read.parquet(str(raw)).repartition(3)
    sketched = frame.groupBy("codec", "site").agg(wane.sketch(frame.v, weight=frame.w, **PARTS))
    path = tmp_path / "batch.duckdb"
    assert wane.commit_batch(sketched, path, "calls", "monday") == 1
    assert answers(Store(path)) == answers(Store(settings.store))
    stream, expected = (read_catalogue(one).streams["calls"] for one in (path, settings.store))
    assert stream.by_source == expected.by_source
    assert stream.fields == expected.fields
    for name in ("kind", "field_kinds", "value_name", "weight_name", "families", "epoch"):
        assert stream.described[name] == expected.described[name], name
    assert stream.rejected == expected.rejected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epoch": "soon"}, "epoch"),
        ({"input": "a.parquet"}, "input says how files are read"),
        ({"families": ["qdigests"]}, "qdigests"),
        ({"epslion": 0.1}, "did you mean 'epsilon'"),
    ],
)
def test_settings_are_those_of_the_settings_file(spark: SparkSession, changes: dict[str, Any], said: str) -> None:
    """And are refused in its words, before Spark does anything."""
    with pytest.raises(SettingsError, match=said):
        wane.sketch("v", **{"id": "id", "time": "t"} | changes)
