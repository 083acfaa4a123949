"""The small store, built once; a test that changes it works on a copy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard import app
from dashboard.asking.answer_cache import AnswerCache
from sketches.registry import FAMILIES
from sketches.units import SECOND
from store import Run, SketchTables, Stream, commit
from tests.support import dashboard_stores
from tests.support.dashboard_stores import ACCURACY, CALLS, settings
from tests.support.stores import EPOCH, NOON, events, parts
from tests.support.streams import joined


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that is only read."""
    return dashboard_stores.build(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def answers(small: Path) -> Iterator[AnswerCache]:
    found = AnswerCache(small)
    yield found
    if found._exact is not None:
        found._exact.close()


@pytest.fixture
def own(small: Path, tmp_path: Path) -> Path:
    """A copy of the store to change."""
    return shutil.copyfile(small, tmp_path / "own.duckdb")


@pytest.fixture
def two_families(tmp_path: Path) -> Path:
    """A store of coarse samples, and of histograms: these promise more for sums, and do not answer everything."""
    path = tmp_path / "two.duckdb"
    rows = dashboard_stores.calls(600)
    found = parts(rows, detail=2, **ACCURACY)
    whole = joined(list(rows.values()))
    for epoch in found:
        inside = whole.take((whole.t >= epoch.start) & (whole.t < epoch.start + EPOCH))
        epoch.sketches.append(FAMILIES["histogram"].build(events(inside), epsilon=0.1, span=EPOCH))
    described = settings(
        "integer",
        families=["sample", "histogram"],
        histogram={"epsilon": 0.1},
        counting="weight",
        unique=True,
        detail=2,
        **ACCURACY,
    )
    commit(path, Run(Stream(CALLS, EPOCH, SECOND, described), SketchTables.of(found), NOON, NOON))
    return path


@pytest.fixture
def with_ecm(tmp_path: Path) -> Path:
    """A store of coarse samples, and of ECM sketches that promise more for quantiles but draw no curves."""
    path = tmp_path / "ecm.duckdb"
    rows = {"north": dashboard_stores.calls(600)["north"]}
    found = parts(rows, epsilon=0.9, delta=0.1)
    more: dict[str, Any] = {"epsilon": 0.05, "delta": 0.1, "bits": 10}
    for epoch in found:
        inside = rows["north"].take((rows["north"].t >= epoch.start) & (rows["north"].t < epoch.start + EPOCH))
        epoch.sketches.append(FAMILIES["ecm"].build(events(inside), **more))
    described = settings(
        "integer", families=["sample", "ecm"], ecm=more, unique=True, counting="events", epsilon=0.9, delta=0.1
    )
    commit(path, Run(Stream(CALLS, EPOCH, SECOND, described), SketchTables.of(found), NOON, NOON))
    return path


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Streamlit puts its script in the place of `__main__`, which child processes of later tests would then run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(scope="module", autouse=True)
def _shared_answers() -> Iterator[None]:
    """The pages of one module share their caches, as all sessions of a server do."""
    yield
    app.shared_answers.clear()
