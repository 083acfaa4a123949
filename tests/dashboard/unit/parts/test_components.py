"""An answer says in words what holds; a failure is a sentence; exports hold what is drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import app, wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from dashboard.parts import components
from dashboard.screens import compare, distribution, explore
from sketches.errors import QuestionError
from sketches.question import Question
from store.serving.catalogue import Gap
from tests.support.dashboard_stores import CALLS, START
from tests.support.pages import command_shown, fine, opened, store_of, text_of


def test_an_answer_says_what_holds_and_for_what(small: Path) -> None:
    """Limits rounded outward, and where epochs cannot be read, that they are of the others."""
    whole = store_of(small).ask(CALLS, Question("sum"))
    stream = store_of(small).catalogue().streams[CALLS]
    gap = Gap("north", START, 600, "sample", "lost")
    lost = replace(whole.provenance, missing=(gap,))
    view, utc = View(CALLS, decay="none"), wording.zone("UTC")
    low, high, between = 200 / 3, 400 / 3, r"**66 … 134**"
    half = r" ± 33 \(33%\)"
    for lower, upper, confidence, badge, sure in (
        (low, high, 0.9, f"{between} :blue-badge[90%]{half}", "with 90% confidence between 66 and 134"),
        (low, high, 1.0, f"{between} :green-badge[certain]{half}", "certainly between 66 and 134"),
        (100.0, 100.0, 1.0, ":green-badge[exact]", "is exactly 100 loss"),
    ):
        found = replace(whole.estimate, value=100.0, lower=lower, upper=upper, confidence=confidence)
        answer = replace(whole, estimate=found)
        assert components.interval(answer, "weight") == badge
        assert sure in components.sentence(answer, "weight", view, stream, utc)
        assert "can be read" not in components.sentence(answer, "weight", view, stream, utc)
        partial = replace(answer, provenance=lost)
        said = re.sub(r":\w+-badge\[(.*)\]", r":orange-badge[\1, of the readable epochs only]", badge)
        assert components.interval(partial, "weight") == said
        assert sure in components.sentence(partial, "weight", view, stream, utc)
        assert components.sentence(partial, "weight", view, stream, utc).endswith(
            ", counting only the epochs that can be read."
        )


@pytest.mark.parametrize(("name", "method"), [("explore", "series"), ("explore", "ask"), ("distribution", "thresholds"),
                                              ("distribution", "quantiles"), ("compare", "ask"), ("health", "report"),
                                              ("explore", "extent"), ("audit", "raw_files")])  # fmt: skip
def test_a_failure_of_ours_is_an_apology_and_a_line_in_the_log(
    name: str, method: str, small: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the trace is on the page, wherever it happens; the log has it whole."""

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret inner words")

    monkeypatch.setattr(AnswerCache, method, fails)
    test = opened(small, name)
    assert not test.exception
    assert "Something went wrong here" in text_of(test)
    assert "secret" not in text_of(test)
    assert "RuntimeError" not in text_of(test)
    assert "secret inner words" in caplog.text


def test_a_question_that_cannot_be_answered_is_a_sentence(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise QuestionError("no [such](thing) here")

    monkeypatch.setattr(AnswerCache, "series", refuses)
    test = fine(opened(small))
    assert any(one.value == r"no \[such\]\(thing\) here" for one in test.warning)


def test_a_picture_and_the_exports_stand_on_every_chart_s_page(small: Path) -> None:
    """CSV, JSON, and the command that gives the same number."""
    from dashboard.parts.components import to_csv

    test = fine(opened(small, decay="none"))
    assert len(test.get("download_button")) == 2
    assert not test.code
    assert "wane query --store" in command_shown(test)
    text = to_csv(["a", "b"], [["=1+1", 2.5], ["-x", None], ['fine, "so"', np.nan]])
    assert text == 'a,b\n\'=1+1,2.5\n\'-x,\n"fine, ""so""",nan\n'


def test_exported_rows_hold_what_is_drawn_each_in_its_column(small: Path) -> None:
    """Of a series, of both curves of a distribution, and of all sides that are compared."""
    answers, view = app.shared_answers(str(small)), View(CALLS, decay="window:10m")
    stream = answers.catalogue().streams[CALLS]
    as_of = np.array([START + 100, START + 3000])
    series, provenance = answers.series(view, stream, as_of)
    columns = [series.as_of, series.value, series.lower, series.upper]
    head, table = explore.table(series, view, stream)
    assert head == ["as_of", "time", "estimate", "lower", "upper"]
    assert [[at, *numbers] for at, _, *numbers in table] == np.array(columns, object).T.tolist()
    sides = [compare.Side("one", view), compare.Side("two", view)]
    head, both = compare.table(sides, [(series, provenance)] * 2, stream, view)
    assert head == ["compared", "as_of", "time", "estimate", "lower", "upper"]
    assert both == [[name, *row] for name in ("one", "two") for row in table]
    curve, _ = answers.quantiles(view, stream, np.array([0.5]))
    head, found = distribution.table(curve, curve)
    assert head == ["curve", "at", "estimate", "lower", "upper"]
    assert found[1] == ["sum at or above", 0.5, curve.value[0], curve.lower[0], curve.upper[0]]


@pytest.mark.parametrize(
    ("seconds", "unit"), [(0.0, "s"), (119.0, "s"), (120.0, "min"), (7200.0, "h"), (172_799.0, "h"), (1e9, "d")]
)
def test_ages_have_the_largest_unit_of_which_there_are_two(seconds: float, unit: str) -> None:
    """An axis of one and a half days is in hours."""
    assert components.age_unit(seconds)[0] == unit
