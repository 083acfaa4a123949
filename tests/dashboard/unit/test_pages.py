"""Every page is drawn for every kind of stream, follows its controls and its address, and never shows a trace."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import app, fading, parts, state, words
from dashboard.desk import Desk
from dashboard.screens import compare, distribution, explore
from dashboard.view import View
from sketches.decay import parse_decay
from sketches.drawn import SECOND
from sketches.errors import QuestionError
from sketches.question import Question
from store import Store, commit
from store.catalogue import Gap
from store.timeline import extent
from tests.dashboard.unit import stores
from tests.dashboard.unit.pages import PAGES, address, charts, column, fine, labelled, opened, widget, words_of
from tests.dashboard.unit.stores import CALLS, NOTHING, SCRIPT, SITES, START
from tests.store.helpers import replace_payload


@pytest.fixture(scope="module", autouse=True)
def _desks() -> Iterator[None]:
    """All tests share the desks, as all sessions of a server do."""
    yield
    app.desk_of.clear()


def metric(test: AppTest) -> str:
    """The number of the first page."""
    return str(fine(test).metric[0].value)


NEWEST = max(int(rows.t.max()) for rows in stores.calls().values())


@cache
def store_of(path: Path) -> Store:
    return Store(path)


def asked(path: Path, aggregate: str = "sum", decay: str = "none", **more: Any) -> str:
    """What the store itself says, as the page writes it."""
    sources = more.pop("sources", ())
    found = store_of(path).ask(CALLS, Question(aggregate, decay, **more), sources=sources).estimate.value
    return words.number(found)


@pytest.mark.parametrize("stream", [CALLS, stores.PAGES, NOTHING])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_drawn_for_every_kind_of_stream(name: str, stream: str, small: Path) -> None:
    """Numbers, texts, and nothing at all: something to read stands there, and the address says what."""
    test = fine(opened(small, name, stream=stream))
    assert address(test)["stream"] == [stream]
    assert len(words_of(test)) > 40
    drawn = {"explore": 2, "distribution": 2, "top_values": 2, "compare": 1, "health": 1, "audit": 0}[name]
    known = stream != NOTHING and not (name == "distribution" and stream == stores.PAGES)
    assert len(charts(test)) == (drawn if known else 0)


def test_the_dashboard_begins_with_explore(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through its own entry, which finds the store on the command line."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(small)])
    test = fine(AppTest.from_file(str(Path(app.__file__)), default_timeout=60).run())
    assert labelled(test, "metric") == ["Sum"]
    assert "Aggregate" in labelled(test, "selectbox")


def test_the_number_is_the_store_s_and_follows_every_control(small: Path) -> None:
    """Aggregate, sources, fading, window, text of the decay: each change changes the number and the address."""
    test = opened(small, decay="none")
    assert metric(test) == asked(small)
    widget(test, "selectbox", "Aggregate").set_value("mean").run()
    assert metric(test) == asked(small, "mean")
    widget(test, "multiselect", "Sources").set_value(["-south"]).run()
    assert metric(test) == asked(small, "mean", sources=("-south",))
    widget(test, "selectbox", "Fading").set_value("exp").run()
    assert metric(test) == asked(small, "mean", "exp:half_life=1h", sources=("-south",))
    widget(test, "select_slider", "Half-life").set_value("5m").run()
    assert metric(test) == asked(small, "mean", "exp:half_life=5m", sources=("-south",))
    widget(test, "selectbox", "Window").set_value("15m").run()
    assert metric(test) == asked(small, "mean", "exp:half_life=5m,window=15m", sources=("-south",))
    widget(test, "text_input", "As text").set_value("poly:alpha=2,unit=1m,window=25m").run()
    assert metric(test) == asked(small, "mean", "poly:alpha=2,unit=1m,window=25m", sources=("-south",))
    assert address(test) == {
        "stream": [CALLS],
        "source": ["-south"],
        "aggregate": ["mean"],
        "decay": ["poly:alpha=2,unit=1m"],
        "window": ["25m"],
    }
    assert widget(test, "selectbox", "Window").value == "25m"
    assert widget(test, "slider", "Exponent α").value == 2.0
    widget(test, "slider", "Exponent α").set_value(3.0).run()
    assert metric(test) == asked(small, "mean", "poly:alpha=3,unit=1m,window=25m", sources=("-south",))


def test_the_chart_ends_at_the_number(small: Path) -> None:
    """The last point of the big chart, with its band around it."""
    test = fine(opened(small, decay="window:10m"))
    chart = max(charts(test), key=lambda one: len(one["data"]))
    upper, lower, value = (column(trace["y"]) for trace in chart["data"][:3])
    answer = store_of(small).ask(CALLS, Question("sum", "window:10m")).estimate
    assert value[-1] == pytest.approx(answer.value, rel=1e-3)
    assert all(low <= at <= high for low, at, high in zip(lower, value, upper, strict=True))


def test_an_answer_says_what_holds_and_for_what(small: Path) -> None:
    """Limits rounded outward, and where epochs cannot be read, that they are of the others."""
    whole = store_of(small).ask(CALLS, Question("sum"))
    held = store_of(small).catalogue().streams[CALLS]
    gap = Gap("north", START, 600, "sample", "lost")
    lost = replace(whole.provenance, missing=(gap,))
    view, utc = View(CALLS, decay="none"), words.zone("UTC")
    low, high, between = 200 / 3, 400 / 3, r"**66\.6666 … 133\.334**"
    for lower, upper, confidence, badge, sure in (
        (low, high, 0.9, f"{between} :blue-badge[90%]", "with 90% confidence between 66.6666 and 133.334"),
        (low, high, 1.0, f"{between} :green-badge[certain]", "certainly between 66.6666 and 133.334"),
        (100.0, 100.0, 1.0, ":green-badge[exact]", "is exactly 100 loss"),
    ):
        found = replace(whole.estimate, value=100.0, lower=lower, upper=upper, confidence=confidence)
        answer = replace(whole, estimate=found)
        assert parts.interval(answer, "weight") == badge
        assert sure in parts.sentence(answer, view, held, utc)
        assert "can be read" not in parts.sentence(answer, view, held, utc)
        partial = replace(answer, provenance=lost)
        said = re.sub(r":\w+-badge\[(.*)\]", r":orange-badge[\1, of the readable epochs only]", badge)
        assert parts.interval(partial, "weight") == said
        assert sure in parts.sentence(partial, view, held, utc)
        assert parts.sentence(partial, view, held, utc).endswith(", counting only the epochs that can be read.")


def test_a_threshold_is_typed_or_moved(small: Path) -> None:
    test = opened(small, decay="none", aggregate="correlated-sum")
    assert "needs tau" in words_of(fine(test))
    widget(test, "text_input", "Threshold τ").set_value("500").run()
    assert metric(test) == asked(small, "correlated-sum", tau=500.0)
    slider = widget(test, "select_slider", "τ among the stored values")
    assert slider.value == 500.0
    slider.set_value(900.0).run()
    chosen = address(test)["tau"]
    assert metric(test) == asked(small, "correlated-sum", tau=float(chosen[0]))
    widget(test, "text_input", "Threshold τ").set_value("q0.9").run()
    assert metric(test) == asked(small, "correlated-sum", tau="q0.9")
    widget(test, "text_input", "Threshold τ").set_value("often").run()
    assert metric(test) == asked(small, "correlated-sum", tau="q0.9")
    assert any("must be a number" in one.value for one in test.error)


@pytest.mark.parametrize("aggregate", ["quantile", "rank", "frequency", "range-sum", "inner-product"])
def test_what_an_aggregate_needs_can_be_given(aggregate: str, small: Path) -> None:
    test = fine(opened(small, decay="none", aggregate=aggregate, source="north"))
    if aggregate == "quantile":
        widget(test, "slider", "φ").set_value(0.25).run()
        assert metric(test) == asked(small, "quantile", phi=0.25, sources=("north",))
    elif aggregate == "range-sum":
        widget(test, "text_input", "From").set_value("100").run()
        widget(test, "text_input", "To").set_value("200").run()
        assert metric(test) == asked(small, "range-sum", low=100.0, high=200.0, sources=("north",))
    elif aggregate == "inner-product":
        widget(test, "selectbox", "Second source").set_value("-south").run()
        found = store_of(small).ask(CALLS, Question("inner-product"), sources=["north"], other="-south").estimate.value
        assert metric(test) == words.number(found)
    else:
        widget(test, "text_input", "Value").set_value("500").run()
        share = store_of(small).ask(CALLS, Question(aggregate, value=500), sources=["north"]).estimate.value
        assert metric(test) == f"{100 * share:.6g}%"


def test_a_preset_moves_everything_along(small: Path) -> None:
    """Number, family, window, text and address; the pill itself is up again, to be pressed once more."""
    test = opened(small, decay="superexp:beta=2,scale=20m", window="5m")
    for preset, spec in fading.PRESETS.items():
        widget(test, "pills", "Presets").set_value(preset).run()
        decay = parse_decay(spec)
        assert metric(test) == asked(small, "sum", spec)
        assert widget(test, "text_input", "As text").value == decay.spec
        assert widget(test, "selectbox", "Fading").value == decay.split()[0].name
        assert address(test)["decay"] == [decay.split()[0].spec]
        assert widget(test, "pills", "Presets").value is None


def test_every_family_can_be_chosen_and_has_its_controls(small: Path) -> None:
    """One after the other, within the same window; a family begins where the one before had lost half its weight."""
    test = fine(opened(small, decay="exp:half_life=10m", window="7m"))
    for family in ("log", "chordal", "finite-exp", "polyexp", "superexp", "poly", "expr", "table", "exp", "none"):
        widget(test, "selectbox", "Fading").set_value(family).run()
        found = parse_decay(address(test)["decay"][0])
        assert found.name == family
        assert metric(test) == asked(small, "sum", found.cut(420.0).spec)
        sliders = set(labelled(test, "slider")) | set(labelled(test, "select_slider"))
        assert {fading.LABELS[name] for name in found.parameters} <= sliders
        assert family not in ("log", "chordal") or found.half_age == pytest.approx(600, rel=0.8)
    assert set(words.FADINGS) == set(fading.FIRST)


def test_a_formula_that_is_no_decay_says_why_and_changes_nothing(small: Path) -> None:
    """The text stays in its box; a good one takes its place, and may bring a window."""
    test = opened(small, decay="expr:exp(-age/10m)")
    before = metric(test)
    assert before == asked(small, "sum", "expr:exp(-age/10m)")
    box = "Formula in age"
    widget(test, "text_input", box).set_value("age / 10").run()
    assert metric(test) == before
    assert widget(test, "text_input", box).value == "age / 10"
    assert any("not a decay function" in one.value for one in test.error)
    widget(test, "text_input", box).set_value("__import__('os').system('x')").run()
    assert metric(test) == before
    assert len(test.error) == 1
    widget(test, "text_input", box).set_value("2^(-age/300),window=20m").run()
    assert not test.error
    assert metric(test) == asked(small, "sum", "expr:2^(-age/300),window=20m")
    assert widget(test, "selectbox", "Window").value == "20m"
    widget(test, "text_input", "As text").set_value("windw:1h").run()
    assert any("did you mean window" in one.value for one in test.error)
    widget(test, "pills", "Presets").set_value("Last hour").run()
    assert not test.error


def edited(test: AppTest, changes: dict[str, Any]) -> AppTest:
    """The table editor as a person leaves it: Streamlit keeps what was changed under the widget's key."""
    (editor,) = [one for one in test.dataframe if one.key == f"table {test.session_state['table number']}"]
    from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates

    states = WidgetStates()
    states.widgets.append(WidgetState(id=editor.proto.id, string_value=json.dumps(changes)))
    return test._run(states)


def test_a_table_is_edited_in_place(small: Path) -> None:
    """A changed weight changes the number; a rising one says why and changes nothing."""
    test = opened(small, decay="table:0=1,10m=0.5,1h=0")
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.5,1h=0")
    fine(edited(test, {"edited_rows": {"1": {"weight": 0.25}}, "added_rows": [], "deleted_rows": []}))
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.25,1h=0")
    assert address(test)["decay"] == ["table:0=1,10m=0.25,1h=0"]
    fine(
        edited(
            test, {"edited_rows": {"1": {"weight": 0.25}, "2": {"weight": 0.75}}, "added_rows": [], "deleted_rows": []}
        )
    )
    assert any("it rises" in one.value for one in test.error)
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.25,1h=0")


ADDRESS: dict[str, Any] = {
    "stream": CALLS,
    "source": ["north", "-south"],
    "aggregate": "quantile",
    "phi": "0.25",
    "decay": "poly:alpha=1.5,unit=1m",
    "window": "50m",
    "as-of": "2023-11-14T23:00:00",
    "span": "15m",
    "confidence": "0.8",
    "zone": "Asia/Kathmandu",
    "refresh": "off",
}


def test_an_address_moves_every_widget_and_comes_back_as_it_was(small: Path) -> None:
    """A copied link shows the same view."""
    test = fine(opened(small, **ADDRESS))
    assert {name: texts[0] if len(texts) == 1 else texts for name, texts in address(test).items()} == ADDRESS
    assert widget(test, "selectbox", "Aggregate").value == "quantile"
    assert widget(test, "slider", "φ").value == 0.25
    assert list(widget(test, "multiselect", "Sources").value) == ["north", "-south"]
    assert widget(test, "selectbox", "Fading").value == "poly"
    assert widget(test, "selectbox", "Window").value == "50m"
    assert widget(test, "select_slider", "Unit of age").value == "1m"
    assert widget(test, "select_slider", "Chart shows").value == "15m"
    assert widget(test, "selectbox", "Time zone").value == "Asia/Kathmandu"
    assert widget(test, "selectbox", "Confidence").value == 0.8
    assert widget(test, "toggle", "Refresh by itself").value is False
    assert "refreshing is off" in words_of(test)
    assert metric(test) == asked(
        small,
        "quantile",
        "poly:alpha=1.5,unit=1m,window=50m",
        phi=0.25,
        as_of=START + 2800,
        sources=("north", "-south"),
    )
    assert "2023\\-11\\-15 04\\:45\\:00" in words_of(test)


def test_going_back_to_an_address_shows_its_view(small: Path) -> None:
    test = opened(small, decay="none")
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert address(test)["aggregate"] == ["count"]
    test.query_params.clear()
    for key, value in {"stream": CALLS, "decay": "none", "aggregate": "mean"}.items():
        test.query_params[key] = value
    assert metric(test.run()) == asked(small, "mean")
    assert widget(test, "selectbox", "Aggregate").value == "mean"


def test_another_stream_keeps_how_the_past_fades_and_drops_what_does_not_fit(small: Path) -> None:
    """Sources, thresholds and aggregates of numbers belong to the old stream."""
    test = opened(small, source="north", aggregate="correlated-sum", tau="500", decay="chordal:30m", as_of=str(START))
    widget(test, "selectbox", "Stream").set_value(stores.PAGES).run()
    fine(test)
    assert address(test) == {"stream": [stores.PAGES], "decay": ["chordal:30m"]}
    assert any("needs numbers" in one.value for one in test.warning)
    assert "Of" not in [one.label for one in test.segmented_control]
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert not test.warning


def test_sums_of_values_do_not_follow_to_a_stream_of_texts(small: Path) -> None:
    """There is no control there to undo it."""
    test = opened(small, of="value", decay="none")
    assert metric(test) == asked(small, of="value")
    widget(test, "selectbox", "Stream").set_value(stores.PAGES).run()
    assert len(fine(test).metric) == 1
    assert "of" not in address(test)


def test_a_time_is_pinned_moved_and_let_go(small: Path) -> None:
    test = opened(small, decay="window:10m")
    newest = metric(test)
    widget(test, "segmented_control", "As of").set_value("a time").run()
    fine(test)
    assert address(test)["as-of"] == ["2023-11-14T23:13+00:00"]
    (picker,) = test.get("datetime_input")
    picker.set_value(picker.value.replace(hour=22, minute=43)).run()
    assert metric(test) == asked(small, "sum", "window:10m", as_of=START + 1780)
    widget(test, "segmented_control", "As of").set_value("newest event").run()
    assert "as-of" not in address(test)
    assert metric(test) == newest


def test_a_pinned_time_keeps_its_seconds(small: Path) -> None:
    """The picker knows whole minutes only; what it shows changes nothing until a person picks."""
    test = opened(small, decay="none", as_of=str(START + 1781))
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert address(test)["as-of"] == [str(START + 1781)]
    assert metric(test) == asked(small, "count", as_of=START + 1781)


ABSURD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("explore", {"as_of": "9999-12-31T23:59:59", "zone": "Pacific/Kiritimati"}),
    ("top_values", {"as_of": "9999-12-31"}),
    ("explore", {"as_of": "0001-01-01"}),
    ("compare", {"as_of": str(2**62), "compare": "times"}),
    ("distribution", {"as_of": str(-(2**62))}),
    ("explore", {"aggregate": "correlated-sum", "tau": "1e999"}),
    ("distribution", {"tau": "1e999"}),
    ("distribution", {"tau": "q0.5", "decay": "window:1ms", "as_of": "5"}),
    ("explore", {"aggregate": "range-sum", "low": "5", "high": "-5"}),
    ("explore", {"aggregate": "range-sum", "low": "-inf", "high": "inf"}),
    ("explore", {"aggregate": "rank", "value": "x" * 700}),
    ("explore", {"span": "1ms", "window": "1000000d"}),
    ("compare", {"span": "1000000d", "decay": "poly:alpha=1000,unit=1ms"}),
    ("explore", {"decay": "poly:alpha=0.001,unit=1m"}),
    ("explore", {"decay": "superexp:beta=100,scale=1s", "confidence": "0.9999"}),
    ("top_values", {"decay": "finite-exp:half_life=1h,floor=0.999999"}),
    ("explore", {"decay": "table:0=1"}),
    *((name, dict.fromkeys(("source", "stream", "aggregate", "decay", SCRIPT), SCRIPT)) for name in PAGES[:2]),
    ("compare", {"compare": "times", "shift": ["1d", "10000000d", "1ms"]}),
    ("compare", {"compare": "decays", "against": ["window:1s", "expr:1/(1+age)", "none"]}),
    ("compare", {"compare": "sources", "source": list(SITES)}),
    ("top_values", {"top": "1", "share": "0.5", "against": "window:1ms"}),
)


@pytest.mark.parametrize(("name", "parameters"), ABSURD)
def test_an_absurd_address_is_answered_calmly(name: str, parameters: dict[str, Any], small: Path) -> None:
    """A message or an answer, no exception, no apology, nothing of it as HTML or Markdown."""
    test = fine(opened(small, name, **parameters))
    assert "<img" not in re.sub(r"`[^`]*`", "", words_of(test)).replace(r"\<img", "")
    assert "<img" not in json.dumps(charts(test))


def test_values_from_outside_are_text_everywhere(small: Path) -> None:
    """A label that is HTML or Markdown stands in the ranking as what it is."""
    test = fine(opened(small, "top_values", stream=stores.PAGES, decay="none"))
    drawn = json.dumps(charts(test))
    assert "&lt;img src=x onerror=alert(1)&gt;" in drawn
    assert "<img" not in drawn
    test = fine(
        opened(small, stream=stores.PAGES, aggregate="frequency", value="[x](javascript:alert(1))", decay="none")
    )
    assert "[x](" not in words_of(test).replace("\\", "�").replace("'[x](javascript:alert(1))'", "")


def test_a_distribution_marks_its_threshold_and_says_the_share_above(small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none"))
    assert not test.metric
    widget(test, "text_input", "Threshold τ").set_value("500").run()
    share = store_of(small).ask(CALLS, Question("selectivity", tau=500.0)).estimate.value
    assert fine(test).metric[0].value == f"{100 * share:.6g}%"
    assert address(test)["tau"] == ["500"]
    widget(test, "text_input", "Threshold τ").set_value("q0.9").run()
    assert fine(test).metric[0].value != f"{100 * share:.6g}%"


def test_top_values_follow_share_number_and_the_other_decay(small: Path) -> None:
    test = fine(opened(small, "top_values", stream=stores.PAGES, decay="none"))
    bars = charts(test)[0]["data"][0]
    assert len(column(bars["x"])) == len(stores.LABELS)
    widget(test, "slider", "At most").set_value(3).run()
    assert len(column(charts(fine(test))[0]["data"][0]["x"])) == 3
    assert address(test)["top"] == ["3"]
    widget(test, "slider", "Least share φ").set_value(0.5).run()
    assert len(column(charts(fine(test))[0]["data"][0]["x"])) == 1
    widget(test, "slider", "Least share φ").set_value(0.0).run()
    widget(test, "text_input", "Ranks against another decay").set_value("window:5m").run()
    assert address(test)["against"] == ["window:5m"]
    assert "last 5 min" in json.dumps(charts(fine(test)))
    widget(test, "text_input", "Ranks against another decay").set_value("nonsense").run()
    assert any("unknown decay" in one.value for one in test.error)


def test_decays_sources_and_times_are_compared(small: Path) -> None:
    """Two to four lines over the same axis, each with its number."""
    test = fine(opened(small, "compare", decay="exp:half_life=5m"))
    names = [trace.get("name") for trace in charts(test)[0]["data"] if trace.get("showlegend") is not False]
    assert names == ["half-life 5 min", "no fading"]
    widget(test, "text_input", "Against decay 2").set_value("window:10m").run()
    assert address(test)["against"] == ["none", "window:10m"]
    widget(test, "segmented_control", "Compare").set_value("sources").run()
    names = [trace.get("name") for trace in charts(fine(test))[0]["data"] if trace.get("showlegend") is not False]
    assert names == list(SITES)
    widget(test, "segmented_control", "Compare").set_value("times").run()
    widget(test, "pills", "Against so long before").set_value(["1h"]).run()
    names = [trace.get("name") for trace in charts(fine(test))[0]["data"] if trace.get("showlegend") is not False]
    assert names == ["now", "1 h before"]
    assert address(test)["shift"] == ["1h"]
    newest, before = test.dataframe[0].value["as of"]
    assert (newest, before) == (words.moment(NEWEST, SECOND), words.moment(NEWEST - 3600, SECOND))


def test_more_sources_than_are_drawn_can_be_chosen(tmp_path: Path) -> None:
    """Here or on another page: the first four are drawn, which the page says."""
    path = tmp_path / "many.duckdb"
    rows = stores.calls(300)["north"]
    sites = {f"site {number}": rows.take(np.arange(len(rows)) % 6 == number) for number in range(6)}
    commit(path, stores.run(CALLS, sites, stores.settings("integer")))
    test = fine(opened(path, "compare", decay="none", compare="sources", source=list(sites)))
    names = [trace.get("name") for trace in charts(test)[0]["data"] if trace.get("showlegend") is not False]
    assert names == list(sites)[:4]
    assert "Drawn are the first 4 of the 6 chosen." in words_of(test)
    widget(test, "multiselect", "Sources").set_value(list(sites)[:2]).run()
    assert "Drawn are the first" not in words_of(fine(test))


def test_compared_sources_are_asked_as_of_the_same_moment(own: Path) -> None:
    """The end of the chart, also where a source has no event so late."""
    stores.more(own)
    test = fine(opened(own, "compare", decay="exp:half_life=5m", compare="sources", source=["north", "-south"]))
    table = test.dataframe[0].value
    newest = extent(Store(own).catalogue().streams[CALLS], ["north"])
    assert newest is not None
    assert set(table["as of"]) == {words.moment(newest[1], SECOND)}
    expected = asked(own, "sum", "exp:half_life=5m", as_of=newest[1], sources=("-south",))
    assert table["estimate"].tolist()[1] == expected
    chart = charts(test)[0]
    last = column(chart["data"][-1]["y"])[-1]
    assert float(expected.replace(",", "")) == pytest.approx(last, rel=1e-3)


def test_compared_numbers_are_the_answers(small: Path) -> None:
    test = fine(opened(small, "compare", decay="window:10m", against=["none"]))
    table = test.dataframe[0].value
    assert table["estimate"].tolist() == [asked(small, "sum", "window:10m"), asked(small)]
    assert table["against the first"].tolist() == ["", "higher"]
    found = [store_of(small).ask(CALLS, Question("sum", decay)).estimate for decay in ("window:10m", "none")]
    limits = [words.limits(one.lower, one.upper, "weight") for one in found]
    assert list(zip(table["from"], table["to"], strict=True)) == limits
    assert limits != [(words.number(one.lower), words.number(one.upper)) for one in found]


def test_the_audit_puts_exact_answers_into_the_band(small: Path) -> None:
    """Once it is asked to: the raw files are read, and the dots are where the oracle says."""
    test = fine(opened(small, "audit", decay="none"))
    assert not charts(test)
    widget(test, "button", "Check against the raw files").click().run()
    (found,) = fine(test).metric
    inside, dots = map(int, re.findall(r"\d+", found.value))
    assert 20 <= dots <= 24
    assert inside > dots / 2
    (chart,) = charts(test)
    exact = column(chart["data"][-1]["y"])
    from tests.oracle import Oracle
    from tests.streams import joined

    assert exact[-1] == pytest.approx(Oracle(joined(list(stores.calls().values()))).answer(Question("sum")))
    app.desk_of(str(small))._exact.close()  # type: ignore[union-attr]


def test_health_counts_and_checks(small: Path, own: Path) -> None:
    """Damage behind the store's back is found when every sketch is read, and the charts say what is missing."""
    test = fine(opened(small, "health"))
    assert {one.label: one.value for one in test.metric}["Sources"] == "3"
    widget(test, "button", "Check every sketch").click().run()
    assert any("sketches are whole" in one.value for one in test.success)
    start = min(epoch.start for epoch in Store(own).catalogue().streams[CALLS].epochs if epoch.source == "north")
    replace_payload(own, "north", start, b"broken")
    test = fine(opened(own, "health"))
    widget(test, "button", "Check every sketch").click().run()
    assert any("1 epoch cannot answer" in one.value for one in test.error)
    test = fine(opened(own, "explore", decay="none", span=""))
    assert any("Incomplete: 1 epoch is missing" in one.value for one in test.warning)
    told = words_of(test)
    assert "of the readable epochs only]" in told
    assert "counting only the epochs that can be read" in told
    assert "green-badge" not in told
    assert "blue-badge" not in told
    chart = max(charts(test), key=lambda one: len(one["data"]))
    assert "without the missing epochs" in [trace.get("name") for trace in chart["data"]]


def test_the_audit_counts_only_where_there_is_a_band(own: Path) -> None:
    """Exact answers know the events of an epoch that cannot be read, so no interval can be held to them."""
    start = min(epoch.start for epoch in Store(own).catalogue().streams[CALLS].epochs if epoch.source == "north")
    replace_payload(own, "north", start, b"broken")
    for decay, some in (("window:10m", True), ("none", False)):
        test = fine(opened(own, "audit", decay=decay))
        widget(test, "button", "Check against the raw files").click().run()
        inside, dots = map(int, re.findall(r"\d+", fine(test).metric[0].value))
        assert (0 < dots < 24) == some
        assert inside >= dots / 2
    assert dots == 0
    app.desk_of(str(own))._exact.close()  # type: ignore[union-attr]


def test_a_commit_is_seen_at_the_next_drawing(own: Path) -> None:
    test = opened(own, decay="none", aggregate="count")
    before = metric(test)
    stores.more(own)
    assert metric(test.run()) == asked(own, "count") != before
    assert "generation 2" in words_of(test)


def test_no_store_an_empty_one_and_a_broken_one_say_what_to_do(tmp_path: Path) -> None:
    """And the page recovers when there is one."""
    path = tmp_path / "later.duckdb"
    test = fine(opened(path))
    assert "There is no store yet" in words_of(test)
    assert "wane ingest" in words_of(test)
    from store.schema import create_store

    create_store(path)
    assert "This store is empty" in words_of(fine(test.run()))
    stores.more(path)
    assert metric(test.run())
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"this is not a database" * 100)
    test = fine(opened(broken))
    assert "This store cannot be read" in words_of(test)
    assert "Traceback" not in words_of(test)


@pytest.mark.parametrize(("name", "method"), [("explore", "series"), ("explore", "ask"), ("distribution", "thresholds"),
                                              ("distribution", "quantiles"), ("compare", "ask"), ("health", "report"),
                                              ("explore", "extent"), ("audit", "raw_files")])  # fmt: skip
def test_a_failure_of_ours_is_an_apology_and_a_line_in_the_log(
    name: str, method: str, small: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the trace is on the page, wherever it happens; the log has it whole."""

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret inner words")

    monkeypatch.setattr(Desk, method, fails)
    test = opened(small, name)
    assert not test.exception
    assert "Something went wrong here" in words_of(test)
    assert "secret" not in words_of(test)
    assert "RuntimeError" not in words_of(test)
    assert "secret inner words" in caplog.text


def test_a_question_that_cannot_be_answered_is_a_sentence(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise QuestionError("no [such](thing) here")

    monkeypatch.setattr(Desk, "series", refuses)
    test = fine(opened(small))
    assert any(one.value == r"no \[such\]\(thing\) here" for one in test.warning)


def test_a_decay_as_the_command_line_takes_it_opens_in_the_editor(small: Path) -> None:
    """With its window where windows are chosen."""
    for spec in ("window:1h", "exp:mean_life=30m,window=1d"):
        test = fine(opened(small, decay=spec))
        assert widget(test, "text_input", "As text").value == parse_decay(spec).spec


def test_a_picture_and_the_exports_stand_on_every_chart_s_page(small: Path) -> None:
    """CSV, JSON, and the command that gives the same number."""
    from dashboard.parts import to_csv

    test = fine(opened(small, decay="none"))
    assert len(test.get("download_button")) == 2
    assert "wane query --store" in test.code[0].value
    text = to_csv(["a", "b"], [["=1+1", 2.5], ["-x", None], ['fine, "so"', np.nan]])
    assert text == 'a,b\n\'=1+1,2.5\n\'-x,\n"fine, ""so""",nan\n'


def test_exported_rows_hold_what_is_drawn_each_in_its_column(small: Path) -> None:
    """Of a series, of both curves of a distribution, and of all sides that are compared."""
    desk, view = app.desk_of(str(small)), View(CALLS, decay="window:10m")
    held = desk.catalogue().streams[CALLS]
    as_of = np.array([START + 100, START + 3000])
    series, provenance = desk.series(view, held, as_of)
    columns = [series.as_of, series.value, series.lower, series.upper]
    head, table = explore.rows(series, view, held)
    assert head == ["as_of", "time", "estimate", "lower", "upper"]
    assert [[at, *numbers] for at, _, *numbers in table] == np.array(columns, object).T.tolist()
    sides = [compare.Side("one", view), compare.Side("two", view)]
    head, both = compare.rows(sides, [(series, provenance)] * 2, held, view)
    assert head == ["compared", "as_of", "time", "estimate", "lower", "upper"]
    assert both == [[name, *row] for name in ("one", "two") for row in table]
    curve, _ = desk.quantiles(view, held, np.array([0.5]))
    head, found = distribution.rows(curve, curve)
    assert head == ["curve", "at", "estimate", "lower", "upper"]
    assert found[1] == ["weight at or above", 0.5, curve.value[0], curve.lower[0], curve.upper[0]]


def test_a_view_is_one_session_s_own(small: Path) -> None:
    """What one person picks does not move another's page, though both ask at one desk."""
    one, other = opened(small, decay="none"), opened(small, decay="none")
    widget(one, "selectbox", "Aggregate").set_value("count").run()
    assert metric(other.run()) == asked(small)
    assert metric(one) == asked(small, "count")
    assert isinstance(one.session_state["view"], View)
    assert state.View is View


def test_sources_are_as_alike_as_their_joins_say(small: Path) -> None:
    """The square of similarities: each source like itself, two as their inner product says, switched by the address."""
    test = fine(opened(small, "top_values", decay="none"))
    assert len(charts(test)) == 2
    widget(test, "toggle", "Similarity of sources").set_value(True).run()
    assert address(fine(test))["similar"] == ["on"]
    square = charts(test)[-1]["data"][0]
    store, newest = store_of(small), store_of(small).ask(CALLS, Question("sum")).estimate.as_of
    names = charts(test)[-1]["layout"]["yaxis"]["ticktext"]
    one, two = names[0], names[1]
    joins = [
        store.ask(CALLS, Question("self-join", as_of=newest), sources=[name]).estimate.value for name in (one, two)
    ]
    product = store.ask(CALLS, Question("inner-product", as_of=newest), sources=[one], other=two).estimate.value
    shown = [[float(text.rstrip("%")) for text in row] for row in square["text"]]
    assert [row[at] for at, row in enumerate(shown)] == [100.0] * len(names)
    assert shown[0][1] == shown[1][0] == float(f"{100 * product / (joins[0] * joins[1]) ** 0.5:.0f}")
    assert f"{one} and {two}" in json.dumps(square["customdata"]) or f"{two} and {one}" in json.dumps(
        square["customdata"]
    )
