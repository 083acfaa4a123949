"""The page Top values: lists, ranks and similar sources are what the store says, and labels are only text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.asking.answer_cache import AnswerCache
from dashboard.screens import top_values
from sketches.question import Question
from store import Answer
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS
from tests.support.pages import address, charts, column, fine, labelled, opened, store_of, text_of, widget


def test_values_from_outside_are_text_everywhere(small: Path) -> None:
    """A label that is HTML or Markdown stands in the ranking as what it is."""
    test = fine(opened(small, "top_values", stream=dashboard_stores.PAGES, decay="none"))
    drawn = json.dumps(charts(test))
    assert "&lt;img src=x onerror=alert(1)&gt;" in drawn
    assert "<img" not in drawn
    test = fine(
        opened(
            small, stream=dashboard_stores.PAGES, aggregate="frequency", value="[x](javascript:alert(1))", decay="none"
        )
    )
    assert "[x](" not in text_of(test).replace("\\", "�").replace("'[x](javascript:alert(1))'", "")


def test_top_values_follow_share_number_and_the_other_decay(small: Path) -> None:
    test = fine(opened(small, "top_values", stream=dashboard_stores.PAGES, decay="none"))
    bars = charts(test)[0]["data"][0]
    assert len(column(bars["x"])) == len(dashboard_stores.LABELS)
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


@pytest.mark.parametrize(
    ("family", "confidence", "text"),
    [
        ("sample", 1.0, "Every interval of the list holds."),
        ("sample", 0.95, "All intervals of the list hold together at 95% confidence."),
        ("integral", 0.95, "Each interval holds by itself at 95% confidence."),
    ],
)
def test_a_list_says_how_sure_its_intervals_are(family: str, confidence: float, text: str, small: Path) -> None:
    """The family says whether they hold together."""
    answer = store_of(small).ask(CALLS, Question("heavy-hitters"))
    found = replace(answer, estimate=replace(answer.estimate, family=family, confidence=confidence))
    assert top_values.confidence_of(found) == text


def test_a_share_that_no_value_has_is_said_so(small: Path) -> None:
    """Then there is no chart and no similarity to switch on."""
    test = fine(opened(small, "top_values", decay="window:1s", as_of="5", against="window:1s"))
    assert any("No value has that share" in one.value for one in test.info)
    assert not charts(test)
    assert "Similarity of sources" not in labelled(test, "toggle")


@pytest.mark.parametrize(
    ("limit", "said"), [(0.12345, "has a share above 12.4%"), (0.0, "has any share"), (None, ""), (1.0, "")]
)
def test_the_page_says_what_the_list_may_leave_out(
    small: Path, monkeypatch: pytest.MonkeyPatch, limit: float | None, said: str
) -> None:
    """Beside the bars, rounded up; nothing where nothing is known."""
    ask = AnswerCache.ask

    def with_a_limit(self: AnswerCache, *arguments: Any, **more: Any) -> Answer:
        answer = ask(self, *arguments, **more)
        return replace(answer, estimate=replace(answer.estimate, unlisted=limit))

    monkeypatch.setattr(AnswerCache, "ask", with_a_limit)
    told = text_of(fine(opened(small, "top_values", stream=dashboard_stores.PAGES, decay="none")))
    told = told.replace("\\", "").replace("\N{WORD JOINER}", "")
    assert ("No value that is not listed" in told) == bool(said)
    assert said in told
