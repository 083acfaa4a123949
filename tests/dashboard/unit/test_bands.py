"""Every band that a page draws, read back from its polygons and compared with what the store answers, gaps included."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import app
from dashboard.asking.answer_cache import SHARES
from sketches import Events
from sketches.decay import parse_decay
from sketches.digests.wbmh import Wbmh
from sketches.estimate import Curve, Series
from sketches.question import Question
from sketches.units import SECOND
from store import EpochSketches, Run, SketchTables, Stream, commit
from store.serving.timeline import affected
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, settings
from tests.support.pages import charts, column, fine, opened, store_of, widget
from tests.support.polygons import Band, bands_of
from tests.support.streams import Stream as Rows

DECAY = "window:2m"  # shorter than the silence and than an epoch


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Calls of two sources with a silence of a quarter of an hour, a lone event in it, and an epoch that is damaged."""
    folder = tmp_path_factory.mktemp("gappy")
    rows = dashboard_stores.calls()
    start = min(int(each.t.min()) for each in rows.values())
    lone = Rows.of("lone", [10**12], [start + 1500], [7], [3])
    silent = {source: each.take((each.t < start + 1000) | (each.t >= start + 2000)) for source, each in rows.items()}
    silent["-south"] = lone
    path = folder / "gappy.duckdb"
    read = [dashboard_stores.raw(folder, silent)]
    described = settings("integer", detail=99, input=[f"{folder}/*"])
    run = dashboard_stores.run(CALLS, silent, described, detail=99, files=read)
    with dashboard_stores.short_segments():
        commit(path, run)
    damaged = shutil.copyfile(path, folder / "damaged.duckdb")
    assert dashboard_stores.damage(damaged, start + 2900) == 1
    yield damaged
    for each in (path, damaged):
        if (exact := app.shared_answers(str(each))._exact) is not None:
            exact.close()


def seconds(x: list[Any]) -> np.ndarray:
    return np.array([round(datetime.fromisoformat(f"{each}+00:00").timestamp()) for each in x], np.int64)


def expected(at: list[Any], found: Series | Curve, hidden: np.ndarray) -> list[Band]:
    """The stretches of a series, written from the sentence: neighbours with both limits known, not hidden."""
    bands: list[Band] = []
    before = False
    for place, low, high, away in zip(at, found.lower.tolist(), found.upper.tolist(), hidden.tolist(), strict=True):
        known = bool(np.isfinite(low) and np.isfinite(high) and not away)
        if known and not before:
            bands.append(([], [], []))
        if known:
            for column_, number in zip(bands[-1], (place, low, high), strict=True):
                column_.append(number)
        before = known
    return bands


def same(drawn: list[Band], wanted: list[Band]) -> None:
    assert [places for places, _, _ in drawn] == [places for places, _, _ in wanted]
    for one, other in zip(drawn, wanted, strict=True):
        np.testing.assert_allclose(one[1:], other[1:], rtol=1e-12)


def main_chart(test: Any) -> dict[str, Any]:
    (found,) = [one for one in charts(test) if "as of" in str(one["layout"]["xaxis"]["title"])]
    return dict(found)


def check_over_time(path: Path, chart: dict[str, Any], questions: list[tuple[str, tuple[str, ...]]]) -> int:
    """Each band of a chart over time against the series of its question; the number of gaps comes back."""
    aside = (None, "exact answers", "without the missing epochs")
    lines = [each for each in chart["data"] if each.get("fill", "none") == "none" and each.get("name") not in aside]
    bands = bands_of(chart)
    assert len(bands) == len(lines) == len(questions)
    gaps = 0
    for line, band, (decay, sources) in zip(lines, bands, questions, strict=True):
        at = column(line["x"])
        series, provenance = store_of(path).series(CALLS, Question("mean", decay), seconds(at), sources=sources)
        away = affected(provenance.missing, series.as_of, parse_decay(decay), SECOND)
        same(band, expected(at, series, away.inside | away.reached))
        gaps += len(band) - 1
    return gaps


@pytest.mark.parametrize("source", ["", "north"])
def test_the_band_of_explore_has_the_gaps_of_its_series(gappy: Path, source: str) -> None:
    """Silence, a lone event in it, and a damaged epoch: each stretch is a polygon of its own."""
    test = fine(opened(gappy, decay=DECAY, aggregate="mean", **({"source": [source]} if source else {})))
    chart = main_chart(test)
    assert check_over_time(gappy, chart, [(DECAY, (source,) if source else ())]) >= (2 if source else 3)


def test_the_bands_of_compare_have_the_gaps_of_their_series(gappy: Path) -> None:
    """Of two decays, each with its own."""
    test = fine(opened(gappy, "compare", decay=DECAY, against=["window:5m"], aggregate="mean"))
    assert check_over_time(gappy, main_chart(test), [(DECAY, ()), ("window:5m", ())]) >= 4


def test_the_band_of_audit_has_the_gaps_of_its_series(gappy: Path) -> None:
    test = fine(opened(gappy, "audit", decay=DECAY, aggregate="mean"))
    widget(test, "button", "Check against the raw files").click().run()
    assert check_over_time(gappy, main_chart(fine(test)), [(DECAY, ())]) >= 2


def test_the_bands_of_distribution_are_its_curves(tmp_path: Path) -> None:
    """The limits of every quantile, and of the sum above every threshold."""
    path = tmp_path / "half.duckdb"
    commit(path, dashboard_stores.run(CALLS, dashboard_stores.calls(), settings("integer", detail=12), detail=12))
    test = fine(opened(path, "distribution", decay="none"))
    shares, above = charts(test)
    curve, _ = store_of(path).quantile_curve(CALLS, Question("quantile", "none", phi=0.5), SHARES)
    (band,) = bands_of(shares)
    ((_, lower, _),) = band
    below = np.where(curve.lower > 0.0, curve.lower, min(lower))  # a logarithmic axis has no 0: the band goes on below
    assert min(lower) <= 0.1 * curve.lower[curve.lower > 0.0].min()
    same(band, expected(SHARES.tolist(), replace(curve, lower=below), np.zeros(len(SHARES), bool)))
    at = np.array(column(above["data"][-1]["x"]))
    curve, _ = store_of(path).threshold_curve(CALLS, Question("correlated-sum", "none", tau=0), at)
    (band,) = bands_of(above)
    same(band, expected(at.tolist(), curve, np.zeros(len(at), bool)))


def test_a_rare_tail_is_drawn_where_its_error_is_a_part_of_the_answer(tmp_path: Path) -> None:
    """Of `wbmh` thresholds reach up to what one event in 100,000 exceeds, on an axis that shows relative widths."""
    path, rng = tmp_path / "tail.duckdb", np.random.default_rng(5)
    values, times = np.round(np.exp(rng.normal(5.0, 1.5, 20_000))), np.sort(rng.integers(0, 1200, 20_000))
    decay = "poly:alpha=1,unit=1m"
    sketches = []
    for start in (0, 600):
        inside = (times >= start) & (times < start + 600)
        events = Events.of(np.flatnonzero(inside), times[inside], values[inside])
        sketch = Wbmh.build(events, decay=decay, epsilon=0.1, span=600)
        total = int(inside.sum())
        sketches.append(EpochSketches("a", start, 600, total, float(total), start, start + 599, [sketch]))
    described = settings("float", families=["wbmh"], wbmh={"decay": decay}, unique=True)
    stream = Stream(CALLS, dashboard_stores.EPOCH, SECOND, described)
    noon = dashboard_stores.NOON
    commit(path, Run(stream, SketchTables.of(sketches), noon, noon, rows=20_000))
    test = fine(opened(path, "distribution", decay=decay, curve="count"))
    figure = charts(test)[1]
    assert figure["layout"]["yaxis"]["type"] == "log"
    at = np.array(column(figure["data"][-1]["x"]))
    assert at[-1] >= np.quantile(values, 0.9999)
    curve, _ = store_of(path).threshold_curve(CALLS, Question("correlated-count", decay, tau=0), at)
    (band,) = bands_of(figure)
    same(band, expected(at.tolist(), curve, np.zeros(len(at), bool)))
    assert (curve.upper <= 1.15 * curve.lower).all()
