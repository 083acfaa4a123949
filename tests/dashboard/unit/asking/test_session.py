"""A session follows its address, and its view is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from dashboard.asking import session
from dashboard.asking.view import View
from tests.support.dashboard_stores import CALLS, START
from tests.support.pages import address, asked, fine, metric, opened, text_of, widget

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
    assert widget(test, "select_slider", "φ").value == 0.25
    assert list(widget(test, "multiselect", "Sources").value) == ["north", "-south"]
    assert widget(test, "selectbox", "Fading").value == "poly"
    assert widget(test, "selectbox", "Window").value == "50m"
    assert widget(test, "select_slider", "Unit of age").value == "1m"
    assert widget(test, "button_group", "Chart shows").value == "15m"
    assert widget(test, "selectbox", "Time zone").value == "Asia/Kathmandu"
    assert widget(test, "selectbox", "Confidence").value == 0.8
    assert widget(test, "toggle", "Refresh by itself").value is False
    assert "refreshing is off" in text_of(test)
    assert metric(test) == asked(
        small,
        "quantile",
        "poly:alpha=1.5,unit=1m,window=50m",
        phi=0.25,
        as_of=START + 2800,
        sources=("north", "-south"),
    )
    assert "2023\\-11\\-15 04\\:45\\:00" in text_of(test)


def test_going_back_to_an_address_shows_its_view(small: Path) -> None:
    test = opened(small, aggregate="sum", decay="none")
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    assert address(test)["aggregate"] == ["count"]
    test.query_params.clear()
    for key, value in {"stream": CALLS, "decay": "none", "aggregate": "mean"}.items():
        test.query_params[key] = value
    assert metric(test.run()) == asked(small, "mean")
    assert widget(test, "selectbox", "Aggregate").value == "mean"


def _moved_twice(test: AppTest) -> dict[str, list[str]]:
    """Choose another aggregate, and take it back; the address of in between comes back."""
    widget(test, "selectbox", "Aggregate").set_value("count").run()
    between = address(test)
    widget(test, "selectbox", "Aggregate").set_value("sum").run()
    return between


def test_an_address_that_a_browser_sends_late_opens_nothing(small: Path) -> None:
    """With quick moves of a widget a browser sends the address from before them, which nobody opened."""
    test = opened(small, decay="none")
    late = _moved_twice(test)
    test.query_params.clear()
    for key, texts in late.items():
        test.query_params[key] = texts
    fine(test.run())
    assert widget(test, "selectbox", "Aggregate").value == "sum"
    assert address(test)["aggregate"] == ["sum"]  # the browser is told the right one


def test_a_link_in_a_page_opens_what_was_shown_before(small: Path) -> None:
    """Unlike an address that is sent late, the link to a saved view is followed whenever it is clicked."""
    test = opened(small, decay="none")
    given = session.linked(_moved_twice(test))
    test.query_params.clear()
    for key, texts in given.items():
        test.query_params[key] = texts
    fine(test.run())
    assert widget(test, "selectbox", "Aggregate").value == "count"
    assert session.LINKED not in address(test)


def test_a_view_is_one_session_s_own(small: Path) -> None:
    """What one person picks does not move another's page, though both ask at one answers."""
    one, other = opened(small, aggregate="sum", decay="none"), opened(small, aggregate="sum", decay="none")
    widget(one, "selectbox", "Aggregate").set_value("count").run()
    assert metric(other.run()) == asked(small)
    assert metric(one) == asked(small, "count")
    assert isinstance(one.session_state["view"], View)
    assert session.View is View


def test_every_widget_begins_with_what_it_shows(small: Path) -> None:
    """A browser that loses a value which was set, because the page is drawn again at once, still shows the view."""
    test = fine(opened(small, **ADDRESS))
    for label in ("Aggregate", "Fading", "Window", "Time zone", "Confidence"):
        box = widget(test, "selectbox", label)
        assert box.proto.default == box.index > 0, label
    for label in ("φ", "Unit of age"):
        slider = widget(test, "select_slider", label)
        assert list(slider.proto.default) == [slider.options.index(slider.format_func(slider.value))], label
    assert list(widget(test, "slider", "Exponent α").proto.default) == [1.5]
    assert len(widget(test, "multiselect", "Sources").proto.default) == 2
    assert widget(test, "text_input", "As text").proto.default == "poly:alpha=1.5,unit=1m,window=50m"
