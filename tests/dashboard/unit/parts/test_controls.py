"""Every control changes the number, and what a control cannot take is refused beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.asking.view import DURATIONS
from dashboard.parts import controls, time_controls, time_range
from dashboard.screens import compare
from sketches.durations import format_duration, parse_duration
from sketches.question import Question
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, START, stored_stream
from tests.support.pages import address, asked, fine, metric, opened, store_of, text_of, widget, written


def test_the_number_is_the_store_s_and_follows_every_control(small: Path) -> None:
    """Aggregate, sources, fading, window, text of the decay: each change changes the number and the address."""
    test = opened(small, aggregate="sum", decay="none")
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


def test_a_threshold_is_typed_or_moved(small: Path) -> None:
    test = opened(small, decay="none", aggregate="correlated-sum")
    assert "needs tau" in text_of(fine(test))
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
        widget(test, "select_slider", "φ").set_value(0.25).run()
        assert metric(test) == asked(small, "quantile", phi=0.25, sources=("north",))
    elif aggregate == "range-sum":
        widget(test, "text_input", "From").set_value("100").run()
        widget(test, "text_input", "To").set_value("200").run()
        assert metric(test) == asked(small, "range-sum", low=100.0, high=200.0, sources=("north",))
    elif aggregate == "inner-product":
        widget(test, "selectbox", "Second source").set_value("-south").run()
        found = store_of(small).ask(CALLS, Question("inner-product"), sources=["north"], other="-south").estimate
        assert metric(test) == written(found)
    else:
        widget(test, "text_input", "Value").set_value("500").run()
        share = store_of(small).ask(CALLS, Question(aggregate, value=500), sources=["north"]).estimate
        assert metric(test) == written(share, "share")


def test_another_stream_keeps_how_the_past_fades_and_drops_what_does_not_fit(small: Path) -> None:
    """Sources, thresholds and aggregates of numbers belong to the old stream."""
    test = opened(small, source="north", aggregate="correlated-sum", tau="500", decay="chordal:30m", as_of=str(START))
    widget(test, "selectbox", "Stream").set_value(dashboard_stores.PAGES).run()
    fine(test)
    assert address(test) == {
        "stream": [dashboard_stores.PAGES],
        "aggregate": ["sum"],
        "decay": ["chordal:30m"],
    }
    assert any("needs numbers" in one.value for one in test.warning)
    assert widget(test, "selectbox", "Of").options == ["w (the weight)", "events"]
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert not test.warning


def test_sums_of_values_do_not_follow_to_a_stream_of_texts(small: Path) -> None:
    """There is no control there to undo it."""
    test = opened(small, of="value", decay="none")
    assert metric(test) == asked(small, of="value")
    widget(test, "selectbox", "Stream").set_value(dashboard_stores.PAGES).run()
    assert len(fine(test).metric) == 1
    assert "of" not in address(test)


def test_a_time_is_pinned_moved_and_let_go(small: Path) -> None:
    test = opened(small, aggregate="sum", decay="window:10m")
    newest = metric(test)
    widget(test, "segmented_control", "As of").set_value("a time").run()
    fine(test)
    assert address(test)["as-of"] == ["2023-11-14T23:13+00:00"]
    picker = widget(test, "datetime_input", "Time (UTC)")
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


def test_durations_to_choose_from_are_written_as_durations_are() -> None:
    """Else a chosen one would come back under another name, and be in the list twice."""
    for text in (*DURATIONS, *filter(None, (*time_controls.WINDOWS, *time_range.SPANS)), *compare.SHIFTS):
        assert format_duration(parse_duration(text)) == text
    assert time_controls.half_lives(7 * 86_400) == list(DURATIONS)
    assert time_controls.half_lives(100.0).count("100s") == 1


@pytest.mark.parametrize(
    ("families", "text"),
    [
        (("sample",), "counts once."),
        (("sample", "integral", "not known yet"), "counts once."),
        (("sample", "histogram"), "counts once or several times, depending on the family that answers."),
    ],
)
def test_sources_say_whether_a_repeated_event_counts_once(families: tuple[str, ...], text: str) -> None:
    """The stored families say so; only where all of them count it once is it promised."""
    stream = stored_stream(("a", 0, 600), sketches={name: {} for name in families})
    assert controls._repeats(stream) == f"An event that several sources reported {text}"
