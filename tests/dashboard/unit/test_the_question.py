"""The question on the page is the one that was asked: its counting, filter, measure, threshold, time and family."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import app
from dashboard.asking.view import View
from dashboard.parts import components
from sketches.formatting import number_text
from sketches.predicate import Predicate
from sketches.question import Question
from sketches.sampling.sample import Sample
from sketches.units import SECOND
from store import Run, SketchTables, Store, Stream, commit
from store.serving import catalogue, selection
from store.serving.catalogue import Catalogue, Rejected
from tests.support import dashboard_stores
from tests.support.dashboard_stores import ACCURACY, CALLS, LATENCIES, PAGES
from tests.support.pages import (
    address,
    asked,
    charts,
    column,
    command_shown,
    fine,
    labelled,
    metric,
    opened,
    store_of,
    text_of,
    widget,
    written,
)
from tests.support.stores import EPOCH, NOON, parts

ASKING = ("explore", "distribution", "top_values", "compare")


def last_point(test: Any) -> float:
    """The last estimate of the big chart."""
    chart = max(charts(test), key=lambda one: len(one["data"]))
    (line,) = [trace for trace in chart["data"] if trace.get("name") in ("estimate", "exact")]
    return float(column(line["y"])[-1])


def command_of(test: Any) -> list[str]:
    return shlex.split(command_shown(test))


# One plan for the number and its chart, as of the stream's time.


def test_number_and_chart_are_planned_once(two_families: Path) -> None:
    """Where one family promises more as of now and another over time, the family of the chart gives both."""
    answers = app.shared_answers(str(two_families))
    stream = answers.catalogue().streams[CALLS]
    views = [View(CALLS, decay=f"exp:half_life={seconds}s") for seconds in range(40, 400, 10)]
    families = [[answers.family(view, view.question(stream), charted=on) for on in (False, True)] for view in views]
    view = next(view for view, (alone, charted) in zip(views, families, strict=True) if alone != charted)
    series, _ = answers.series(view, stream, answers.moments(view, stream, 600.0))
    alone = answers.ask(view, stream).estimate
    beside = answers.ask(view, stream, charted=True).estimate
    assert alone.family != beside.family == series.family
    assert series.value[-1] == pytest.approx(beside.value, rel=1e-3)
    test = fine(opened(two_families, aggregate="sum", decay=view.decay))
    assert metric(test) == written(beside)
    assert last_point(test) == pytest.approx(beside.value, rel=1e-3)
    assert command_of(test)[-2:] == ["--family", beside.family]


def test_a_silent_source_is_asked_as_of_the_stream_s_time(own: Path) -> None:
    """The last ten minutes are those of the stream, in which the source has nothing; the page says that it lags."""
    dashboard_stores.more(own)  # another hour, of one source only
    stream = Store(own).catalogue().streams[CALLS]
    for name in ("explore", "compare"):
        test = fine(opened(own, name, decay="window:10m", aggregate="count", source="-south"))
        assert "Sources behind the as-of time: -south by " in text_of(test).replace("\\", "")
    test = fine(opened(own, decay="window:10m", aggregate="count", source="-south"))
    assert metric(test) == asked(own, "count", "window:10m", as_of=stream.as_of(), sources=("-south",)) == "0"
    assert last_point(test) == 0
    answers = app.shared_answers(str(own))
    view = View(CALLS, source=("-south",), decay="none")
    assert answers.moments(view, stream, 600.0)[-1] == stream.as_of()
    assert "its newest event" not in text_of(opened(own, decay="none", source="north"))


@pytest.mark.parametrize("phi", [0.999, 0.001, 0.12345])
def test_a_share_in_the_address_is_the_share_on_the_slider(phi: float, small: Path) -> None:
    test = fine(opened(small, decay="none", aggregate="quantile", phi=str(phi)))
    assert widget(test, "select_slider", "φ").value == phi
    assert metric(test) == asked(small, "quantile", phi=phi)
    assert address(test)["phi"] == [str(phi)]


# Rejected rows.


@pytest.fixture
def rejecting(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of which a third of the rows were rejected."""
    read = catalogue.catalogue_in
    lost = Rejected(900, 300, "weight is *negative*")

    def with_rejects(*arguments: Any) -> Catalogue:
        found = read(*arguments)
        return replace(found, streams={name: replace(one, rejected=lost) for name, one in found.streams.items()})

    for module in (catalogue, selection):
        monkeypatch.setattr(module, "catalogue_in", with_rejects)
    return own


@pytest.mark.parametrize("name", [*ASKING, "health"])
def test_rejected_rows_stand_on_every_page_with_an_answer(name: str, rejecting: Path) -> None:
    """How many, their share and the main reason; once."""
    test = fine(opened(rejecting, name, decay="none"))
    said = [one.value.replace("\\", "") for one in test.warning if "rejected" in one.value]
    assert len(said) == 1
    for part in ("300 of 900 rows", "(33.3%)", "weight is *negative*"):
        assert part in said[0]


def test_exact_is_for_the_rows_taken(small: Path) -> None:
    """And nothing about it is green."""
    whole = store_of(small).ask(CALLS, Question("sum"))
    stream = store_of(small).catalogue().streams[CALLS]
    lost = replace(whole.provenance, rejected=Rejected(900, 300, "no id"))
    for lower, upper, sure in ((1.0, 1.0, "exact"), (0.5, 2.0, "certain")):
        estimate = replace(whole.estimate, value=1.0, lower=lower, upper=upper, confidence=1.0)
        taken = components.interval(replace(whole, estimate=estimate, provenance=lost), "weight")
        assert f"badge[{sure} for the rows taken]" in taken
        assert "green" not in taken
        assert f":green-badge[{sure}]" in components.interval(replace(whole, estimate=estimate), "weight")
        view, zone = View(CALLS, decay="none"), components.wording.zone("UTC")
        said = components.sentence(replace(whole, estimate=estimate, provenance=lost), "weight", view, stream, zone)
        assert "for the rows taken" in said


# What is counted.


def test_events_or_weight_is_a_choice(small: Path) -> None:
    """In the address and the command; the stream's own setting is the default and stays out of both."""
    test = fine(opened(small, decay="none", aggregate="median"))
    assert widget(test, "segmented_control", "Count").value == "events"
    assert metric(test) == asked(small, "median", counting="events")
    assert "each event counted once" in text_of(test)
    assert "--counting" not in command_of(test)
    widget(test, "segmented_control", "Count").set_value("weight").run()
    assert metric(test) == asked(small, "median", counting="weight") != asked(small, "median")
    assert "each event counted as often as its weight says" in text_of(test)
    assert address(test)["counting"] == ["weight"]
    assert command_of(test)[command_of(test).index("--counting") + 1] == "weight"
    widget(test, "segmented_control", "Count").set_value("events").run()
    assert "counting" not in address(test)


@pytest.mark.parametrize("name", ["distribution", "top_values"])
def test_curves_and_lists_count_what_was_chosen(name: str, small: Path) -> None:
    numbers = [charts(fine(opened(small, name, decay="none", counting=one)))[0]["data"] for one in ("events", "weight")]
    assert numbers[0] != numbers[1]


def test_a_stream_that_counts_weight_says_so(tmp_path: Path) -> None:
    path = tmp_path / "multiplicities.duckdb"
    described = dashboard_stores.settings("integer", counting="weight")
    commit(path, dashboard_stores.run(CALLS, dashboard_stores.calls(400), described))
    test = fine(opened(path, decay="none", aggregate="median"))
    assert widget(test, "segmented_control", "Count").value == "weight"
    assert metric(test) == asked(path, "median", counting="weight")
    widget(test, "segmented_control", "Count").set_value("events").run()
    assert metric(test) == asked(path, "median", counting="events")
    assert address(test)["counting"] == ["events"]


def test_where_all_events_weigh_the_same_there_is_nothing_to_choose(small: Path) -> None:
    test = fine(opened(small, stream=LATENCIES, decay="none"))
    assert "Count" not in labelled(test, "segmented_control")
    assert "Of" not in labelled(test, "selectbox")


def test_no_page_says_that_weighted_events_count_alike(small: Path) -> None:
    for name in ASKING:
        for counting in ("events", "weight"):
            told = text_of(fine(opened(small, name, decay="none", counting=counting, tau="500")))
            assert "count alike" not in told
            assert ("hare of the weight" in told) <= (counting == "weight")


# A filter.


def test_a_filter_restricts_and_travels(small: Path) -> None:
    """In the box, the address, the sentence and the command; what is none is refused in a sentence."""
    text = "value < 600 and weight >= 5"
    where = Predicate.parse(text)
    test = fine(opened(small, decay="none", aggregate="mean"))
    widget(test, "text_input", "Only events where").set_value(f" {text} ").run()
    assert metric(test) == asked(small, "mean", where=where) != asked(small, "mean")
    assert address(test)["where"] == [text]
    assert command_of(test)[command_of(test).index("--where") + 1] == text
    assert "over events where the v is below 600 and the w is at least 5" in text_of(test)
    assert last_point(test) == pytest.approx(float(asked(small, "mean", where=where).replace(",", "")), rel=1e-3)
    widget(test, "text_input", "Only events where").set_value("value < many").run()
    assert any("expected a number" in one.value for one in test.error)
    assert metric(test) == asked(small, "mean", where=where)
    widget(test, "text_input", "Only events where").set_value("").run()
    assert "where" not in address(test)
    assert any("colour" in one.value for one in opened(small, where="colour = 5").warning)


@pytest.mark.parametrize("name", ASKING)
def test_every_page_applies_the_filter(name: str, small: Path) -> None:
    all_of_them = charts(fine(opened(small, name, decay="none")))[0]["data"]
    some = charts(fine(opened(small, name, decay="none", where="value < 300 or weight in (1, 2)")))[0]["data"]
    assert some != all_of_them


def test_a_filter_may_compare_with_an_aggregate(small: Path) -> None:
    """The number is that of the threshold by itself; pages that cannot apply it say so instead of leaving it out."""
    test = fine(opened(small, decay="none", aggregate="mean", where="value >= median(value)"))
    assert metric(test) == asked(small, "mean", tau="median") != asked(small, "mean")
    for name in ("distribution", "top_values"):
        told = text_of(fine(opened(small, name, decay="none", where="value >= median(value)")))
        assert "how sure a threshold is" in told or "above an aggregate" in told


# Thresholds.


def test_a_threshold_may_be_an_aggregate_or_a_multiple(small: Path) -> None:
    test = fine(opened(small, decay="none", aggregate="correlated-mean"))
    for choice in ("median", "mean", "q0.9"):
        widget(test, "pills", "τ as an aggregate").set_value(choice).run()
        assert metric(test) == asked(small, "correlated-mean", tau=choice)
        assert address(test)["tau"] == [choice]
    widget(test, "text_input", "Threshold τ").set_value("2*median").run()
    assert metric(test) == asked(small, "correlated-mean", tau="2*median")
    assert "2 times the median of all of them" in text_of(test)
    assert command_of(test)[command_of(test).index("--tau") + 1] == "2*median"


@pytest.mark.parametrize(("tau", "of"), [("mean", "mean"), ("1.5*mean", "mean"), ("2*median", "median")])
def test_a_distribution_marks_a_threshold_that_is_an_aggregate(tau: str, of: str, small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none", tau=tau, where="value < 900"))
    share = store_of(small).ask(CALLS, Question("selectivity", tau=tau, where=Predicate.parse("value < 900")))
    assert fine(test).metric[0].value == written(share.estimate, "share")
    question = Question("mean", of="value") if of == "mean" else Question("median")
    factor = float(tau.partition("*")[0]) if "*" in tau else 1.0
    marked = factor * store_of(small).ask(CALLS, question).estimate.value
    assert f"τ = {number_text(marked)}" in [trace.get("name") for trace in charts(test)[1]["data"]]


@pytest.mark.parametrize("curve", ["sum", "count", "mean"])
def test_threshold_curves_of_sums_counts_and_means(curve: str, small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none", curve=curve))
    assert widget(test, "segmented_control", "Curve of the").value == curve
    line = charts(test)[1]["data"][-1]
    at = np.array(column(line["x"]))
    found, _ = store_of(small).threshold_curve(CALLS, Question(curve), at)
    np.testing.assert_allclose(column(line["y"]), found.value)
    assert address(test).get("curve", ["sum"]) == [curve]


# What a sum is of.


def test_a_stream_without_weight_opens_with_its_values(small: Path) -> None:
    """The mean of latencies, in their own name and unit, with its slow end beside it; no word of weights."""
    test = fine(opened(small, stream=LATENCIES, decay="none"))
    rows = dashboard_stores.latencies()["east"]
    assert metric(test) == number_text(float(rows.v.mean()))
    told = text_of(test)
    assert "The mean of latency is exactly" in told
    assert "ms" in told
    assert "weight" not in told.replace("wane query", "")
    assert test.metric[1].label == "p95 of latency"
    assert test.metric[1].value == number_text(float(np.sort(rows.v)[int(np.ceil(0.95 * len(rows))) - 1]))
    widget(test, "selectbox", "Aggregate").set_value("sum").run()
    assert metric(test) == number_text(float(rows.v.sum()))
    assert address(test)["aggregate"] == ["sum"]


def test_what_a_sum_is_of_is_a_choice(small: Path) -> None:
    """Weight is the default where there is one; correlated sums and ranges are of the value, too."""
    test = fine(opened(small, decay="none", aggregate="correlated-mean", tau="500"))
    assert widget(test, "selectbox", "Of").value == "weight"
    assert "The mean of w" in text_of(test)
    widget(test, "selectbox", "Of").set_value("value").run()
    assert metric(test) == asked(small, "correlated-mean", tau=500.0, of="value")
    assert "The mean of v" in text_of(test)
    assert address(test)["of"] == ["value"]
    assert command_of(test)[command_of(test).index("--of") + 1] == "value"
    widget(test, "selectbox", "Of").set_value("weight").run()
    assert "of" not in address(test)
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert "Of" not in labelled(test, "selectbox")


# The newest events by number.


def test_the_newest_events_by_number(small: Path) -> None:
    """A kind of fading with its number, without a window, in the address, the sentence and the command."""
    test = fine(opened(small, decay="window:20m", aggregate="sum"))
    widget(test, "selectbox", "Fading").set_value("last").run()
    assert address(test)["decay"] == ["last:10000"]
    assert "window" not in address(test)
    assert "Window" not in labelled(test, "selectbox")
    widget(test, "number_input", "How many events").set_value(500).run()
    assert metric(test) == asked(small, "sum", "last:500")
    assert address(test)["decay"] == ["last:500"]
    assert command_of(test)[command_of(test).index("--decay") + 1] == "last:500"
    told = text_of(test)
    assert "among the newest 500 events" in told
    assert "only the newest 500 events count" in told
    assert "by its number, not by its age" in told
    assert len(charts(test)) == 1
    widget(test, "selectbox", "Fading").set_value("exp").run()
    assert "Window" in labelled(fine(test), "selectbox")
    both = fine(opened(small, decay="last:500", window="1h"))
    assert any("window" in one.value for one in both.warning)
    assert address(both)["decay"] == ["last:500"]


# Rows and events.


def test_health_tells_rows_from_events(small: Path) -> None:
    """Rows as they came, and about how many events they are: some were reported by two sources."""
    found = {one.label: one.value for one in fine(opened(small, "health")).metric}
    rows = sum(map(len, dashboard_stores.calls().values()))
    assert found["Rows of the stream"] == f"{rows:,}"
    assert not any(label.startswith("Events") for label in found)
    estimate = store_of(small).ask(CALLS, Question("count", counting="events")).estimate
    assert found["Distinct events, about"] == number_text(round(estimate.value))
    assert estimate.upper < rows
    low, high = components.wording.limits(estimate.lower, estimate.upper, "events")
    assert f"{low} and {high}" in text_of(opened(small, "health")).replace("\\", "")


# Families that answer now only, under a decay of their own.

OWN = "window:20m"


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    """A store of a family that was built for one decay and answers now only."""
    path = tmp_path / "fixed.duckdb"
    described = dashboard_stores.settings("integer", families=["integral"], integral={"decay": OWN}, counting="weight")
    built = parts(dashboard_stores.calls(600), families=["integral"], decay=OWN, **ACCURACY)
    commit(path, Run(Stream(CALLS, EPOCH, SECOND, described), SketchTables.of(built), NOON, NOON))
    return path


@pytest.mark.parametrize("name", ASKING)
def test_pages_work_with_a_family_of_one_decay(name: str, fixed: Path) -> None:
    """The first look is under its decay; another decay in the address is replaced where the family was asked for."""
    test = fine(opened(fixed, name))
    assert (address(test)["decay"], address(test)["window"]) == (["none"], ["20m"])
    drawn = {"explore": 2, "distribution": 2, "top_values": 1, "compare": 1}[name]
    assert len(charts(test)) == drawn
    asked_for = fine(opened(fixed, name, family="integral", decay="exp:half_life=1h"))
    assert address(asked_for)["window"] == ["20m"]
    assert any("answers only under" in one.value for one in asked_for.warning)
    assert len(charts(asked_for)) == drawn


def test_what_a_family_of_one_decay_cannot_draw_says_why(fixed: Path) -> None:
    """Ranks under another decay and sides of another decay are left out, with the reason."""
    for name, said in (("top_values", "There are no ranks to compare with: "), ("compare", "is left out: ")):
        assert said in text_of(fine(opened(fixed, name, against="none")))
    test = fine(opened(fixed, "compare", against="none"))
    assert test.dataframe[0].value.shape[0] == 1


def test_a_chart_at_ends_of_epochs_ends_at_the_number(fixed: Path) -> None:
    test = fine(opened(fixed))
    assert last_point(test) == pytest.approx(float(metric(test).replace(",", "")), rel=1e-2)


def test_a_distribution_without_curves_is_asked_point_by_point(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sample, "abilities", replace(Sample.abilities, curves=False))
    app.shared_answers.clear()
    test = fine(opened(small, "distribution", decay=OWN))
    app.shared_answers.clear()
    values = charts(test)[0]["data"][-1]
    found = dict(zip(column(values["x"]), column(values["y"]), strict=True))
    assert found[0.5] == Store(small).ask(CALLS, Question("median", OWN)).estimate.value
    sums = charts(test)[1]["data"][-1]
    tau, total = column(sums["x"])[1], column(sums["y"])[1]
    assert total == pytest.approx(Store(small).ask(CALLS, Question("correlated-sum", OWN, tau=tau)).estimate.value)


def test_texts_have_no_threshold_but_every_other_control(small: Path) -> None:
    test = fine(opened(small, stream=PAGES, decay="none", where="value = 'plain'", aggregate="count"))
    where = Predicate.parse("value = 'plain'")
    assert metric(test) == written(store_of(small).ask(PAGES, Question("count", where=where)).estimate)
    refused = fine(opened(small, stream=PAGES, decay="none", where="value < 5", aggregate="count"))
    assert refused.warning


def test_an_empty_answer_says_why(small: Path) -> None:
    test = fine(opened(small, "distribution", decay="none", where="value > 1e12"))
    assert any("fits the filter" in one.value for one in test.info)
