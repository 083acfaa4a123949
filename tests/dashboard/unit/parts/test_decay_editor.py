"""Every kind of decay can be chosen and edited; what is no decay is refused and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.parts import decay_editor
from sketches.decay import parse_decay
from tests.support.dashboard_stores import CALLS
from tests.support.pages import address, asked, fine, labelled, metric, opened, widget


def test_a_preset_moves_everything_along(small: Path) -> None:
    """Number, family, window, text and address; the pill shows which is active, until the decay is another one."""
    test = opened(small, aggregate="sum", decay="superexp:beta=2,scale=20m", window="5m")
    assert widget(test, "pills", "Presets").value is None
    stream = AnswerCache(small).catalogue().streams[CALLS]
    for preset, spec in decay_editor.presets(stream).items():
        widget(test, "pills", "Presets").set_value(preset).run()
        decay = parse_decay(spec)
        assert metric(test) == asked(small, "sum", spec)
        assert widget(test, "text_input", "As text").value == decay.spec
        assert widget(test, "selectbox", "Fading").value == decay.split()[0].name
        assert address(test)["decay"] == [decay.split()[0].spec]
        assert widget(test, "pills", "Presets").value == preset
    widget(test, "text_input", "As text").set_value("exp:half_life=7m").run()
    assert widget(test, "pills", "Presets").value is None


@pytest.mark.parametrize(
    ("days", "names"),
    [
        (0.001, ["Last hour", "Last day"]),
        (3, ["Last hour", "Last day"]),
        (30, ["Last day", "Last week"]),
        (700, ["Last 4 weeks", "Last half year"]),
    ],
)
def test_presets_fit_the_time_that_the_stream_covers(small: Path, days: float, names: list[str]) -> None:
    """The longer window is at most half of it; where it covers next to nothing they are an hour and a day."""
    known = AnswerCache(small).catalogue().streams[CALLS]
    totals = known.by_source[known.sources[0]]
    lasting = totals._replace(oldest=totals.newest - round(days * 86_400))
    stream = replace(known, by_source={"a": lasting})
    found = decay_editor.presets(stream)
    assert list(found)[:2] == names
    assert len(found) == 4


def test_every_family_can_be_chosen_and_has_its_controls(small: Path) -> None:
    """One after the other, within the same window; a family begins where the one before had lost half its weight."""
    test = fine(opened(small, aggregate="sum", decay="exp:half_life=10m", window="7m"))
    for family in (
        "log",
        "chordal",
        "finite-exp",
        "polyexp",
        "superexp",
        "poly",
        "power",
        "expr",
        "table",
        "exp",
        "none",
    ):
        widget(test, "selectbox", "Fading").set_value(family).run()
        found = parse_decay(address(test)["decay"][0])
        assert found.name == family
        assert metric(test) == asked(small, "sum", found.cut(420.0).spec)
        sliders = set(labelled(test, "slider")) | set(labelled(test, "select_slider"))
        assert {decay_editor.LABELS[name] for name in found.parameters} <= sliders
        assert family not in ("log", "chordal") or found.half_age == pytest.approx(600, rel=0.8)
    assert set(wording.DECAYS) == set(decay_editor.FIRST)


def test_a_formula_that_is_no_decay_says_why_and_changes_nothing(small: Path) -> None:
    """The text stays in its box; a good one takes its place, and may bring a window."""
    test = opened(small, aggregate="sum", decay="expr:exp(-age/10m)")
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
    widget(test, "pills", "Presets").set_value("Last 15 minutes").run()
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
    test = opened(small, aggregate="sum", decay="table:0=1,10m=0.5,1h=0")
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.5,1h=0")
    fine(edited(test, {"edited_rows": {"1": {"counts": 0.25}}, "added_rows": [], "deleted_rows": []}))
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.25,1h=0")
    assert address(test)["decay"] == ["table:0=1,10m=0.25,1h=0"]
    fine(
        edited(
            test, {"edited_rows": {"1": {"counts": 0.25}, "2": {"counts": 0.75}}, "added_rows": [], "deleted_rows": []}
        )
    )
    assert any("it rises" in one.value for one in test.error)
    assert metric(test) == asked(small, "sum", "table:0=1,10m=0.25,1h=0")


def test_a_decay_as_the_command_line_takes_it_opens_in_the_editor(small: Path) -> None:
    """With its window where windows are chosen."""
    for spec in ("window:1h", "exp:mean_life=30m,window=1d"):
        test = fine(opened(small, decay=spec))
        assert widget(test, "text_input", "As text").value == parse_decay(spec).spec
