"""Tables of sketches that Spark's own aggregates made are taken in as they are, and fade after the fact."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.driver.configuration.settings import Settings, SettingsError, read_settings
from sketches import Question
from sketches.kll.library import built
from store import Store
from store.serving.catalogue import read_catalogue
from tests.support.runs import ingest
from tests.support.streams import START, Stream
from tests.support.truth import Truth
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600
BEGIN = START - START % HOUR
HOURS = 48
ROWS = 120_000
END = BEGIN + HOURS * HOUR - 1
KINDS = ("double", "float", "bigint")


def events() -> Stream:
    rng = np.random.default_rng(22)
    times = BEGIN + rng.integers(0, HOURS * HOUR, ROWS)
    return Stream.of("calls", np.arange(ROWS), times, np.floor(1000 * rng.lognormal(size=ROWS)))


def configure(folder: Path, more: str = "", streams: Sequence[tuple[str, str, str]] = ()) -> Settings:
    """Streams with their names, columns and kinds of values."""
    text = 'store = "wane.duckdb"\n'
    for name, column, items in streams or [("calls", "kll", "double")]:
        text += f'[streams.{name}]\ninput = "raw/*.parquet"\nsource = "site"\ntime = "hour"\nsketch = "{column}"\n'
        text += f'epoch = "1h"\nepsilon = 0.0133\n{more}[streams.{name}.kll]\nitems = "{items}"\n'
    file = folder / "wane.toml"
    file.write_text(text)
    return read_settings(file)


def write(path: Path, rows: list[tuple[str, int, bytes | None]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("site", "hour", "kll")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)


@pytest.mark.slow
def test_sketches_that_spark_made_fade(spark: SparkSession, tmp_path: Path) -> None:
    """All three kinds: every row counts, and exact answers lie inside, under decays that nobody chose before."""
    rows = events()
    plain = tmp_path / "events.parquet"
    sites = pa.array(np.array(["north", "south"])[rows.ids % 2].tolist())
    pq.write_table(pa.table({"site": sites, "t": rows.t, "v": rows.v}), plain)
    aggregates = ", ".join(f"kll_sketch_agg_{kind}(cast(v as {kind})) as `{kind}`" for kind in KINDS)
    spark.read.parquet(str(plain)).createOrReplaceTempView("raw_events")
    hours = f"SELECT site, t - t % {HOUR} AS hour, {aggregates} FROM raw_events GROUP BY ALL"
    spark.sql(hours).coalesce(1).write.parquet(str(tmp_path / "raw"))
    settings = configure(tmp_path, streams=[(kind, kind, kind) for kind in KINDS])
    summary = ingest(settings, spark)
    assert (summary.exit_code, [one.rows for one in summary.outcomes]) == (0, 3 * [2 * HOURS])
    truth = Truth(rows, now=END)
    for kind in KINDS:
        epochs = read_catalogue(settings.store).streams[kind].epochs
        assert sum(one.events for one in epochs.values()) == ROWS
        for decay in ("none", "exp:half_life=12h", "poly:alpha=1,unit=1h", "window:24h"):
            check(Store(settings.store), kind, decay, truth)


def check(store: Store, stream: str, decay: str, truth: Truth) -> None:
    asked: tuple[dict[str, object], ...] = (
        {"aggregate": "median"},
        {"aggregate": "quantile", "phi": 0.95, "as_of": END - 5 * HOUR},
        {"aggregate": "rank", "value": 700},
        {"aggregate": "selectivity", "low": 500, "high": 2000},
        {"aggregate": "correlated-count", "tau": 3000},
        {"aggregate": "count"},
    )
    for one in asked:
        # one in twenty may miss at 0.95, hardly one in ten thousand here
        question = Question(decay=decay, confidence=0.9999, **{"as_of": END, **one})  # type: ignore[arg-type]
        found, exact = store.ask(stream, question).estimate, truth.answer(question)
        assert found.family == "kll"  # repeats count here, so nobody need ask for it
        assert exact.within(found.lower, found.upper), (question, found, exact)


@pytest.mark.slow
def test_hostile_sketches_are_rejected(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its reason, among others that count; parts of an epoch stand side by side; nothing crashes."""
    rng = np.random.default_rng(3)
    good = [built(rng.random(3000), 200, "double").to_bytes() for _ in range(20)]
    rows: list[tuple[str, int, bytes | None]] = [
        ("north", BEGIN + 600 * (at % 6), data) for at, data in enumerate(good)
    ]
    hostile = [b"", b"no sketch", good[0][:-3], good[0] + b"x", good[0][:12] + b"\xff" * 8 + good[0][20:]]
    hostile += [
        built(rng.random(3000).astype("f4"), 200, "float").to_bytes(),
        built(np.zeros(0), 200, "double").to_bytes(),
    ]
    rows += [("south", BEGIN, data) for data in [*hostile, None]]
    write(tmp_path / "raw/a.parquet", rows)
    settings = configure(tmp_path)
    assert main(["ingest", "--config", str(settings.path), "--dry-run", "--json"]) == 0
    [seen] = json.loads(capsys.readouterr().out)
    assert seen["events"][0]["value"].startswith("a sketch of ")
    assert seen["events"][0]["weight"] == 3000
    summary = ingest(settings, spark)
    assert summary.exit_code == 0
    rejected = summary.outcomes[0].rejected
    assert sum(rejected.values()) == 8
    assert "the sketch is of no rows" in rejected
    assert "no sketch" in rejected
    [totals] = read_catalogue(settings.store).streams["calls"].epochs.values()
    assert totals.events == 60_000
    answer = Store(settings.store).ask("calls", Question("median"))
    assert answer.estimate.lower < 0.5 < answer.estimate.upper


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('value = "v"\n', "value is set, but with sketch"),
        ('repeats = "forgive"\n', 'must be "count"'),
        ('families = ["sample"]\n', "takes in no sketches"),
        ('families = ["kll"]\nfields = {a = "a"}\n', "fields is set"),
    ],
)
def test_settings_that_need_events_are_refused(tmp_path: Path, more: str, reason: str) -> None:
    """A row that is a sketch has no value, no id and no fields, and nobody can tell its repeats."""
    with pytest.raises(SettingsError, match=reason):
        configure(tmp_path, more)


def test_the_kind_of_values_is_one_that_the_library_has(tmp_path: Path) -> None:
    """`items` is told by its three words."""
    with pytest.raises(SettingsError, match="'double', 'float', 'bigint'"):
        configure(tmp_path, streams=[("calls", "kll", "int")])
