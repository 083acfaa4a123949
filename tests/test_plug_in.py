"""A family of the tests' own goes all the way: one file, one `register` line, and nothing else knows of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sketches import Question
from sketches.registry import load
from store import Store
from tests.support.minutes_family import Minutes
from tests.support.oracle import Oracle
from tests.support.pages import charts, fine, opened, text_of
from tests.support.paths import ROOT
from tests.support.runs import configure, ingest, write
from tests.support.stores import payloads
from tests.support.streams import STREAMS, Stream
from wane import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ingest.driver.configuration.settings import Settings

DECAYS = ("none", "exp:half_life=20m", "window:10m", "poly:alpha=0.5,unit=10m")
FAMILIES = 'unique = true\ndetail = 1\nfamilies = ["sample", "per-minute"]\n[streams.calls.per-minute]\nstep = 30\n'


@pytest.fixture(scope="module")
def taken(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Stream]:
    """Rows in several files, taken by two runs of real Spark, the second of them late."""
    folder = tmp_path_factory.mktemp("plug-in")
    rows = STREAMS["late"](6_000, 4).distinct()
    first, late = rows.split(2, 3)
    settings = configure(folder, FAMILIES)
    for number, part in enumerate(first.split(3, 1)):
        write(folder / f"raw/{number}.parquet", part, group=500)
    assert ingest(settings, spark).exit_code == 0
    write(folder / "raw/late.parquet", late)
    assert ingest(settings, spark).exit_code == 0
    return settings, rows


def test_ingest_builds_and_the_store_merges_it(taken: tuple[Settings, Stream]) -> None:
    """Every epoch of every source has a sketch of it, and together they hold all events."""
    settings, rows = taken
    sketches = [load(data) for (*_, family), data in payloads(settings.store).items() if family == "per-minute"]
    assert all(isinstance(sketch, Minutes) and sketch.parameters.step == 30 for sketch in sketches)
    assert sum(int(sketch.count.sum()) for sketch in sketches if isinstance(sketch, Minutes)) == len(rows)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("aggregate", ["sum", "count", "mean"])
def test_the_planner_picks_it_and_it_holds(taken: tuple[Settings, Stream], aggregate: str, decay: str) -> None:
    """It is picked where its interval is the narrowest to expect; its bounds hold the exact answer, now and before."""
    settings, rows = taken
    store, oracle, question = Store(settings.store), Oracle(rows), Question(aggregate, decay)
    answer = store.ask("calls", question)
    assert answer.provenance.why.startswith("the narrowest interval to expect: ")
    assert answer.estimate.family == "per-minute"
    picked = answer.estimate.upper - answer.estimate.lower
    answer = store.ask("calls", question, family="per-minute")
    assert picked <= answer.estimate.upper - answer.estimate.lower
    assert answer.provenance.complete
    moments = np.linspace(rows.t.min(), rows.t.max(), 9).astype(np.int64)
    series, provenance = store.series("calls", question, moments, family=None if aggregate != "mean" else "per-minute")
    assert provenance.family == "per-minute"
    for at, moment in enumerate(moments.tolist()):
        exact = oracle.answer(question.at(moment))
        if not np.isnan(exact):
            assert series.lower[at] * (1 - 1e-9) <= exact <= series.upper[at] * (1 + 1e-9)
    exact = oracle.answer(question)
    assert answer.estimate.lower * (1 - 1e-9) <= exact <= answer.estimate.upper * (1 + 1e-9)


def test_what_it_does_not_answer_goes_to_others_or_is_refused(
    taken: tuple[Settings, Stream], capsys: pytest.CaptureFixture[str]
) -> None:
    """A median comes from the other family; asked for by name, this one refuses in one sentence."""
    settings, _ = taken
    assert Store(settings.store).ask("calls", Question("median")).estimate.family == "sample"
    asked = ["query", "--store", str(settings.store), "--stream", "calls", "--family", "per-minute"]
    assert main([*asked, "--aggregate", "median"]) == 2
    assert (
        capsys.readouterr().err == "wane: the per-minute family does not answer median; it answers sum, count, mean\n"
    )


def test_wane_query(taken: tuple[Settings, Stream], capsys: pytest.CaptureFixture[str]) -> None:
    """The command line answers from it, and `wane info` counts its sketches."""
    settings, rows = taken
    store = ["--store", str(settings.store), "--json"]
    assert main(["query", *store, "--stream", "calls", "--aggregate", "count", "--source", "north"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["family"], answer["confidence"]) == ("per-minute", 1.0)
    assert answer["lower"] <= np.count_nonzero(rows.ids % 2 == 0) <= answer["upper"]
    assert main(["info", *store]) == 0
    (stream,) = json.loads(capsys.readouterr().out)["streams"]
    assert [one["family"] for one in stream["families"]] == ["per-minute", "sample"]
    assert stream["gaps"] == []


def test_the_explore_page(taken: tuple[Settings, Stream]) -> None:
    """The page shows its number and draws its band."""
    settings, _ = taken
    page = fine(opened(settings.store, "explore", aggregate="sum", decay="exp:half_life=20m"))
    assert "[per\\-minute](/words#family)" in text_of(page)
    assert "Drawn by per\\-minute" in text_of(page)
    assert len(charts(page)) >= 2


def test_nothing_else_names_it() -> None:
    """No module of the product, and no settings of the project, know the family."""
    files = [ROOT / "wane.py", ROOT / "pyproject.toml"]
    for package in ("sketches", "store", "ingest", "dashboard", "demo"):
        files += sorted((ROOT / package).rglob("*.py"))
    naming = re.compile(r"per-minute|\bMinutes\b")
    assert [file.name for file in files if naming.search(file.read_text())] == []
