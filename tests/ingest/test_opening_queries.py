"""The questions with which the papers open, asked on the command line of a store that Spark filled from raw files.

The exact answers are worked out from the raw columns, as the sentences of the papers say.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from ingest.driver.configuration.settings import read_settings
from tests.support.runs import ingest
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END = datetime(2026, 1, 31, 12, tzinfo=UTC)
SETTINGS = """
store = "wane.duckdb"
[streams.calls]
input = "calls.csv"
id = "call"
time = "to_timestamp(started_at)"
value = "duration_s"
weight = "loss"
weight_step = 0.01
epoch = "6h"
[streams.temperatures]
input = "sensors.csv"
source = "sensor"
id = "reading"
time = "to_timestamp(at)"
weight = "temperature"
weight_step = 0.1
epoch = "6h"
[streams.confidence]
input = "sensors.csv"
source = "sensor"
id = "reading"
time = "to_timestamp(at)"
value = "temperature"
weight = "confidence"
counting = "weight"
epoch = "6h"
[streams.latencies]
input = "latencies.csv"
id = "request"
time = "to_timestamp(at)"
value = "ms"
epoch = "6h"
"""


def iso(seconds: np.ndarray) -> list[str]:
    return [(END - timedelta(seconds=int(age))).isoformat() for age in seconds]


@pytest.fixture(scope="module")
def raw(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, np.ndarray]]]:
    """Two days of calls, of which most lose nothing, and of sensors, some of them at 0 °C; the store's path."""
    rng = np.random.default_rng(5)
    folder: Path = tmp_path_factory.mktemp("papers")
    rows = 9_000
    age = rng.integers(1, 2 * 86_400, rows)
    age[0] = 0
    calls = {
        "age": age,
        "duration_s": rng.geometric(1 / 400, rows),
        "loss": np.where(rng.random(rows) < 0.6, 0, rng.integers(1, 500, rows)) / 100,
    }
    calls["loss"][3::100] = -1.0  # no loss rate at all: such rows are rejected
    sensors = {
        "age": age,
        "temperature": np.where(rng.random(rows) < 0.3, 0, rng.integers(0, 600, rows)) / 10,
        "confidence": rng.integers(0, 100, rows),
    }
    number = np.arange(rows)
    table = {"call": number, "started_at": iso(age), "duration_s": calls["duration_s"], "loss": calls["loss"]}
    csv.write_csv(pa.table(table), folder / "calls.csv")
    names = [f"s{one % 7}" for one in number.tolist()]
    table = {"sensor": names, "reading": number, "at": iso(age)} | {
        k: sensors[k] for k in ("temperature", "confidence")
    }
    csv.write_csv(pa.table(table), folder / "sensors.csv")
    latency = {"age": age, "ms": np.round(rng.lognormal(3, 1, rows), 2)}
    csv.write_csv(pa.table({"request": number, "at": iso(age), "ms": latency["ms"]}), folder / "latencies.csv")
    (folder / "wane.toml").write_text(SETTINGS)
    assert ingest(read_settings(folder / "wane.toml"), spark).exit_code == 0
    return str(folder / "wane.duckdb"), {"calls": calls, "sensors": sensors, "latencies": latency}


def asked(store: str, stream: str, arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["query", "--store", store, "--stream", stream, "--json", *arguments.split()]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def check(answer: dict[str, Any], exact: float, width: float = 0.5) -> None:
    assert answer["lower"] - 1e-9 <= exact <= answer["upper"] + 1e-9, (answer["asked"], exact, answer)
    assert answer["upper"] - answer["lower"] <= width * abs(exact)


def test_the_mean_loss_of_calls_of_the_last_day_that_were_shorter_than_a_minute(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Time-decayed correlated aggregates, §1: one flag. Calls without loss are calls; rejected rows are told."""
    store, columns = raw
    calls = columns["calls"]
    taken = (calls["loss"] >= 0) & (calls["age"] < 86_400)
    answer = asked(store, "calls", "--aggregate mean --decay window:24h --below 60", capsys)
    check(answer, float(calls["loss"][taken & (calls["duration_s"] < 60)].mean()))
    assert answer["asked"] == "the mean of the weight (loss), over events where the value is below 60"
    assert answer["rejected"]["rows"] == 90
    assert answer["rejected"]["read"] == 9_000
    assert answer["rejected"]["reason"].startswith("weight is negative")
    short = asked(store, "calls", "--aggregate count --decay window:2m", capsys)
    assert short["guarantee"].startswith("exact for the rows taken")


def test_the_mean_loss_of_calls_longer_than_the_median_call(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same paper, §1: the median is that of the calls, each of which counts once, whatever it lost."""
    store, columns = raw
    calls = columns["calls"]
    taken = (calls["loss"] >= 0) & (calls["age"] < 86_400)
    durations = np.sort(calls["duration_s"][taken])
    median = durations[(len(durations) + 1) // 2 - 1]
    answer = asked(store, "calls", "--aggregate mean --decay window:24h --tau median", capsys)
    check(answer, float(calls["loss"][taken & (calls["duration_s"] >= median)].mean()))
    assert "each event counted once" in answer["asked"]
    known = asked(store, "calls", "--aggregate median --decay window:24h", capsys)
    assert known["lower"] <= median <= known["upper"]


def test_the_mean_loss_of_calls_of_more_than_half_an_hour(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same paper, §1.2: strictly more, by count, by sum and by their quotient."""
    store, columns = raw
    calls = columns["calls"]
    long = (calls["loss"] >= 0) & (calls["age"] < 86_400) & (calls["duration_s"] > 1_800)
    for aggregate, exact in (
        ("count", long.sum()),
        ("sum", calls["loss"][long].sum()),
        ("mean", calls["loss"][long].mean()),
    ):
        answer = asked(store, "calls", f"--aggregate {aggregate} --decay window:24h --above 1800", capsys)
        check(answer, float(exact), 5.0)


def test_the_mean_temperature_of_the_last_ninety_minutes(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Time-decaying sketches, §1, the first example: a reading of 0 °C is a reading."""
    store, columns = raw
    sensors = columns["sensors"]
    recent = sensors["age"] < 5_400
    assert (sensors["temperature"][recent] == 0).mean() > 0.2
    answer = asked(store, "temperatures", "--aggregate mean --decay window:90m", capsys)
    check(answer, float(sensors["temperature"][recent].mean()))
    total = asked(store, "temperatures", "--aggregate sum --decay window:90m", capsys)
    check(total, float(sensors["temperature"][recent].sum()))


def test_the_median_temperature_by_confidence_that_fades(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same paper, §1, the second example: each reading counts by its confidence, which decays."""
    store, columns = raw
    sensors = columns["sensors"]
    order = np.argsort(sensors["temperature"], kind="stable")
    mass = (sensors["confidence"] * 0.5 ** (sensors["age"] / 21_600))[order]
    median = sensors["temperature"][order][np.searchsorted(np.cumsum(mass), 0.5 * mass.sum())]
    answer = asked(store, "confidence", "--aggregate median --decay exp:half_life=6h", capsys)
    assert answer["lower"] <= median <= answer["upper"]
    assert "as often as its weight says" in answer["asked"]
    once = asked(store, "confidence", "--aggregate median --decay exp:half_life=6h --counting events", capsys)
    assert "each event counted once" in once["asked"]


def test_a_window_of_the_newest_elements(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Time-decaying aggregates in out-of-order streams, §1 and its footnote: the W greatest timestamps."""
    store, columns = raw
    calls = columns["calls"]
    taken = calls["loss"] >= 0
    ages, loss = calls["age"][taken], calls["loss"][taken]
    first = np.sort(ages)[999]
    answer = asked(store, "calls", "--aggregate sum --decay last:1000", capsys)
    check(answer, float(loss[ages <= first].sum()))


def test_a_stream_of_latencies_is_asked_for_its_latencies(
    raw: tuple[str, dict[str, dict[str, np.ndarray]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a weight a mean is of the value, and says so; several quantiles come in one call."""
    store, columns = raw
    latency = columns["latencies"]["ms"]
    answer = asked(store, "latencies", "--aggregate mean", capsys)
    check(answer, float(latency.mean()))
    assert answer["asked"].startswith("the mean of the value (ms)")
    several = asked(store, "latencies", "--aggregate quantile --phi 0.5 --phi 0.9 --phi 0.999", capsys)
    assert [item["value"] for item in several["items"]] == [0.5, 0.9, 0.999]
    for item in several["items"]:
        exact = np.quantile(latency, item["value"], method="inverted_cdf")
        assert item["lower"] <= exact <= item["upper"]
    slow = asked(store, "latencies", "--aggregate mean --tau 2*median --of value", capsys)
    middle = np.quantile(latency, 0.5, method="inverted_cdf")
    check(slow, float(latency[latency >= 2 * middle].mean()))
