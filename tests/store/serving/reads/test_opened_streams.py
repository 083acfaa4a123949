"""Who may see some streams finds no others in a store, whatever he asks."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sketches.errors import WaneError
from sketches.question import Question
from store import Store
from store.serving.report import report
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, LATENCIES, NOTHING, PAGES

SEEN = frozenset({LATENCIES, NOTHING})
ASKED: dict[str, Callable[[Store, str], Any]] = {
    "catalogue": lambda store, name: store.catalogue(name).stream(name),
    "ask": lambda store, name: store.ask(name, Question("count")),
    "series": lambda store, name: store.series(name, Question("count"), [0]),
    "split": lambda store, name: store.split(name, Question("count")),
    "correlation": lambda store, name: store.correlation(
        name, (Question("count"), ()), (Question("sum"), ()), "sample"
    ),
    "by_group": lambda store, name: store.by_group(name, Question("count")),
    "series_by": lambda store, name: store.series_by(name, Question("count"), [0], "source"),
    "threshold_curve": lambda store, name: store.threshold_curve(name, Question("count"), [0.0]),
    "quantile_curve": lambda store, name: store.quantile_curve(name, Question("median"), [0.5]),
    "family_for": lambda store, name: store.family_for(name, Question("count")),
    "plan": lambda store, name: store.plan(name, Question("count")),
    "selected": lambda store, name: store.selected(name, Question("count"), "sample"),
    "sql": lambda store, name: store.sql(f"SELECT count(*) FROM {name}"),
    "load": lambda store, name: store.load(name, "sample"),
    "kind": lambda store, name: store.kind(name),
    "at_one_commit": lambda store, name: store.at_one_commit(lambda one: one.ask(name, Question("count"))),
}
OTHERWISE = {"opened_to", "held_open", "columns"}  # they say nothing of a stream that is not there


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_stores.build(tmp_path_factory.mktemp("opened"))


@pytest.mark.parametrize("name", ASKED)
def test_what_may_not_be_seen_is_refused_like_what_is_not_there(path: Path, name: str) -> None:
    """By the same words, but for the name that was asked for; no other stream is named."""
    whole = Store(path)
    opened = whole.opened_to(SEEN)
    ASKED[name](whole, CALLS)  # it is loaded, and others have asked
    with pytest.raises(WaneError) as hidden:
        ASKED[name](opened, CALLS)
    with pytest.raises(WaneError) as absent:
        ASKED[name](opened, "xxxxx")
    assert str(hidden.value) == str(absent.value).replace("xxxxx", CALLS)
    assert PAGES not in str(hidden.value)
    ASKED[name](opened, LATENCIES)


def test_every_question_of_a_store_is_among_them() -> None:
    """A new method of `Store` must be tried here too."""
    public = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert public == set(ASKED) | OTHERWISE


def test_lists_have_only_what_may_be_seen(path: Path) -> None:
    """The catalogue, SHOW STREAMS and the report, with its number of runs."""
    opened = Store(path).opened_to(SEEN)
    assert set(opened.catalogue().streams) == SEEN
    shown = str(opened.sql("SHOW STREAMS").as_dict())
    found = report(path, check=False, streams=SEEN)
    for text in (shown, str(found)):
        assert LATENCIES in text
        assert CALLS not in text
        assert PAGES not in text
    assert found["runs"] == len(SEEN)
    assert opened.columns(CALLS).names == opened.columns("xxxxx").names
    assert set(opened.opened_to({LATENCIES, CALLS}).catalogue().streams) == {LATENCIES}


def test_the_others_lose_nothing_by_it(path: Path, tmp_path: Path) -> None:
    """Reads are shared; who may see all sees all, and a commit is seen by everybody."""
    own = shutil.copyfile(path, tmp_path / "own.duckdb")
    whole = Store(own)
    opened = whole.opened_to({CALLS})
    everything = {CALLS, PAGES, NOTHING, LATENCIES}
    before = opened.ask(CALLS, Question("count", "none")).estimate.value
    assert set(whole.catalogue().streams) == everything
    dashboard_stores.more(own)
    after = opened.ask(CALLS, Question("count", "none")).estimate.value
    assert after == whole.ask(CALLS, Question("count", "none")).estimate.value > before
    assert set(whole.catalogue().streams) == everything
    assert set(opened.catalogue().streams) == {CALLS}
