"""Fields on the pages: what is asked is of them, filtered and split by them, in the names of the stream's columns."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import wane
from dashboard import app, wording
from dashboard.asking.address import from_parameters
from dashboard.asking.command import command
from dashboard.asking.view import View
from dashboard.parts import filters
from sketches.predicate import Predicate
from sketches.question import Question
from store import Store
from tests.support import wide_stores
from tests.support.pages import (
    address,
    charts,
    column,
    command_shown,
    fine,
    labelled,
    metric,
    opened,
    text_of,
    widget,
    written,
)
from tests.support.wide_stores import LOGS, PATHS, REQUESTS, SERVICES


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_stores.build(tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def store(path: Path) -> Store:
    return Store(path)


def asked(store: Store, aggregate: str, decay: str = "none", where: str = "", **more: Any) -> str:
    """What the store answers, as the page writes it."""
    about = store.columns(REQUESTS).parse(where) if where else Predicate()
    return written(store.ask(REQUESTS, Question(aggregate, decay, where=about, **more)).estimate)


def lines_of(test: Any) -> dict[str, list[float]]:
    """The lines of the big chart by name."""
    chart = max(charts(test), key=lambda one: len(one["data"]))
    return {one["name"]: column(one["y"]) for one in chart["data"] if one.get("fill") != "toself"}


def test_the_first_page_asks_what_makes_sense_for_the_stream(path: Path, store: Store) -> None:
    """The mean of numbers with p95 beside it, in the stream's words; of texts, how many a second, and which."""
    test = fine(opened(path, stream=REQUESTS))
    decay = address(test)["decay"][0]
    assert metric(test) == asked(store, "mean", decay)
    assert [one.label.replace("\\", "") for one in test.metric][:2] == ["Mean", "p95 of latency_ms"]
    assert test.metric[1].value == asked(store, "quantile", decay, phi=0.95)
    assert "The mean of latency_ms" in text_of(test).replace("\\", "")
    assert "the value" not in text_of(test).replace("\\", "")
    test = fine(opened(path, stream=LOGS))
    assert address(test)["aggregate"] == ["rate"]
    assert address(test)["of"] == ["events"]
    assert "The number of events per second" in text_of(test)
    assert any(one["data"][0].get("orientation") == "h" for one in charts(test))
    rate = store.ask(LOGS, Question("count", address(test)["decay"][0], per_second=True))
    assert metric(test) == written(rate.estimate)


def test_another_stream_opens_on_its_own_question_until_one_is_chosen(path: Path) -> None:
    test = fine(opened(path, stream=REQUESTS))
    widget(test, "selectbox", "Stream").set_value(LOGS).run()
    assert address(fine(test))["aggregate"] == ["rate"]
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    widget(test, "selectbox", "Stream").set_value(REQUESTS).run()
    assert address(fine(test))["aggregate"] == ["count"]


def test_the_measure_may_be_a_field(path: Path, store: Store) -> None:
    """In the list by the stream's own names, in the address, the sentence, the axis and the command."""
    test = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none"))
    of = widget(test, "selectbox", "Of")
    assert of.options == ["latency_ms (the value)", "bytes", "status"]
    of.set_value("bytes").run()
    assert metric(test) == asked(store, "mean", of="bytes")
    assert address(test)["of"] == ["bytes"]
    assert "The mean of bytes" in text_of(test)
    assert max(charts(test), key=lambda one: len(one["data"]))["layout"]["yaxis"]["title"]["text"] == "bytes"
    shown = shlex.split(command_shown(test))
    assert shown[shown.index("--of") + 1] == "bytes"
    widget(test, "selectbox", "Aggregate").set_value("quantile").run()
    assert metric(test) == asked(store, "quantile", of="bytes", phi=0.9)
    same = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", of="latency_ms"))
    assert metric(same) == asked(store, "mean")
    refused = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", of="colour"))
    assert any("cannot be of `colour`" in one.value for one in refused.warning)


def test_a_filter_takes_the_stream_s_own_names(path: Path, store: Store) -> None:
    """What is wrong is said in a sentence, and the filter before it stays."""
    text = "latency_ms >= 30 and path in ('/pay', '/it''s') and cached = true"
    test = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none"))
    widget(test, "text_input", "Only events where").set_value(text).run()
    assert metric(test) == asked(store, "mean", where=text)
    assert address(test)["where"] == [text]
    assert "the latency_ms is at least 30" in text_of(test).replace("\\", "")
    for wrong, said in (("pth = 'x'", "did you mean"), ("status = 'x'", "status"), ("status >", "expected")):
        widget(test, "text_input", "Only events where").set_value(wrong).run()
        assert any(said in one.value.replace("\\", "") for one in fine(test).error), wrong
        assert metric(test) == asked(store, "mean", where=text)


def test_a_split_draws_a_line_and_a_bar_for_each_group(path: Path, store: Store) -> None:
    """Lines, bars and table are those of the store; with their intervals, ties, the rest and what is unseen."""
    test = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", by="path", top="3"))
    split = store.split(REQUESTS, Question("mean"), by="path", top=3, others=True)
    names = [place.name for place in split.places]
    drawn = lines_of(test)
    assert [name.replace("&#x27;", "'") for name in drawn][:3] == names
    assert drawn[names[0]][-1] == pytest.approx(split.places[0].estimate, rel=1e-3)
    bars = next(one for one in charts(test) if one["data"][0].get("type") == "bar")
    assert column(bars["data"][0]["x"]) == [place.estimate for place in split.places]
    table = test.dataframe[0].value
    assert table["path"].tolist() == [*names, "2 others together"]
    assert table["estimate"].tolist()[:3] == [written_place(place) for place in split.places]
    told = text_of(test).replace("\\", "")
    assert "**5 groups** of path" in told
    assert "hold together" in told
    assert metric(test) == asked(store, "mean")
    widget(test, "toggle", "The smallest first").set_value(True).run()
    assert (
        test.dataframe[0].value["path"].tolist()[0]
        == store.split(REQUESTS, Question("mean"), by="path", smallest=True).places[0].name
    )
    assert address(test)["smallest"] == ["on"]
    widget(test, "selectbox", "Split by").set_value("source").run()
    assert sorted(test.dataframe[0].value["source"].tolist()) == sorted(SERVICES)
    many = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", by="path"))
    chart = max(charts(many), key=lambda one: len(one["data"]))
    assert len(chart["data"]) == len(PATHS)  # of so many, only the pointer shows the intervals
    refused = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", by="colour"))
    assert any("cannot be split by `colour`" in one.value for one in refused.warning)


def written_place(place: Any) -> str:
    return wording.estimated(place.estimate, place.lower, place.upper, "")


@pytest.mark.parametrize("aggregate", ["mean", "sum", "count", "rate", "median", "quantile", "stddev"])
def test_whatever_can_be_asked_can_be_split_or_says_why_not(aggregate: str, path: Path) -> None:
    test = fine(opened(path, stream=REQUESTS, aggregate=aggregate, decay="exp:half_life=10m", by="status"))
    assert test.dataframe or test.warning


def test_the_command_of_a_split_gives_the_groups(path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """With --of, --where, --by and --top, through wane's own command line."""
    view = View(
        REQUESTS, aggregate="mean", of="bytes", where="status = 200", by="path", top=3, smallest=True, decay="none"
    )
    arguments = shlex.split(command(view, path, split=True))
    assert wane.main([*arguments[1:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    answers = app.shared_answers(str(path))
    places = answers.split(view, answers.catalogue().streams[REQUESTS]).places
    assert [(one["value"], one["estimate"]) for one in found["items"]] == [(one.value, one.estimate) for one in places]
    assert "--by" not in command(view, path)
    test = fine(opened(path, stream=REQUESTS, aggregate="mean", decay="none", by="path", top="3"))
    assert "--by path --top 3" in command_shown(test)


def test_filters_are_chips_that_can_be_removed(path: Path, store: Store) -> None:
    """One by one, or all at once."""
    text = "status = 500 and path != '/' and latency_ms > 30"
    test = fine(opened(path, stream=REQUESTS, aggregate="count", decay="none", where=text, source="api"))
    chips = [one.label.replace("\\", "") for one in test.button if str(one.key).startswith("chip ")]
    assert sorted(chips) == sorted(["source = api", "latency_ms > 30", "status = 500", "path != '/'", "Clear all"])
    next(one for one in test.button if "path" in one.label).click().run()
    assert store.columns(REQUESTS).parse(address(fine(test))["where"][0]) == store.columns(REQUESTS).parse(
        "status = 500 and latency_ms > 30"
    )
    next(one for one in test.button if one.label == "Clear all").click().run()
    assert "where" not in address(fine(test))
    assert "source" not in address(test)
    assert not [one for one in test.button if str(one.key).startswith("chip ")]


@pytest.mark.parametrize(
    ("by", "group", "where", "expected"),
    [
        ("path", "/it's", "", "path = '/it''s'"),
        ("path", None, "status = 500", "status = 500 and path is null"),
        ("status", 500, "path = '/'", "status = 500 and path = '/'"),
        ("cached", True, "", "cached = true"),
    ],
)
def test_a_click_on_a_group_adds_its_condition(by: str, group: Any, where: str, expected: str, path: Path) -> None:
    """Joined by and; a source is chosen as a source."""
    stream = app.shared_answers(str(path)).catalogue().streams[REQUESTS]
    view = View(REQUESTS, by=by, where=where, decay="none")
    change = filters.narrowed(view, stream, group)
    columns = Store(path).columns(REQUESTS)
    assert columns.parse(change["where"]) == columns.parse(expected)
    assert change["by"] == ""
    chosen = filters.narrowed(View(REQUESTS, by="source", decay="none"), stream, "api")
    assert chosen == {"source": ("api",), "by": ""}


def test_an_address_carries_measure_filter_and_split(path: Path) -> None:
    known = app.shared_answers(str(path)).catalogue()
    given = {"stream": [REQUESTS], "of": ["latency_ms"], "by": ["path"], "where": ["latency_ms > 5"], "decay": ["none"]}
    view, problems = from_parameters({**given, "aggregate": ["mean"]}, known)
    assert (view.of, view.by, view.where, problems) == ("value", "path", "latency_ms > 5", [])
    view, problems = from_parameters({"stream": [LOGS], "aggregate": ["quantile"], "decay": ["none"]}, known)
    assert (view.of, problems) == ("bytes", [])


def test_compare_takes_measure_and_filter(path: Path, store: Store) -> None:
    test = fine(
        opened(path, "compare", stream=REQUESTS, aggregate="mean", decay="none", of="bytes", where="status = 500")
    )
    assert "The mean of bytes" in text_of(test)
    assert test.dataframe[0].value["estimate"].tolist()[0] == asked(store, "mean", where="status = 500", of="bytes")
    assert "Of" in labelled(test, "selectbox")


def test_before_the_first_event_there_are_no_events_yet(path: Path) -> None:
    """No exact 0 stands there."""
    test = fine(opened(path, stream=REQUESTS, aggregate="count", decay="none", as_of="2001-01-01"))
    assert metric(test) == "no events yet"
    assert "no events yet as of" in text_of(test)
    assert "exactly 0" not in text_of(test)


def test_audit_asks_the_raw_files_the_same_question(small: Path) -> None:
    """Ranks of the weight too."""
    told = text_of(fine(opened(small, "audit", decay="none", of="weight", aggregate="median")))
    assert "cannot be checked here" not in told
    assert "raw file is still there" in told
