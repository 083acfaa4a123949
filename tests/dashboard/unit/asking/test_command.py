"""The command of a view gives the number that the view shows, through wane's own command line."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wane
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.command import command
from dashboard.asking.measures import aggregates_of
from dashboard.asking.view import View
from dashboard.wording import AGGREGATES, ON_KEYS
from sketches.question import Question
from store import Store
from tests.support.dashboard_stores import BLOGS, CALLS, LABELS, PAGES, SITES, START


def printed(capsys: pytest.CaptureFixture[str], view: View, path: Path) -> Any:
    """What the command of a view prints, from its text as a shell would read it."""
    program, *arguments = shlex.split(command(view, path))
    assert program == "wane"
    assert wane.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def same(found: dict[str, Any], estimate: Any) -> bool:
    """To the last bit."""
    known = {"estimate": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
    return all(found[name] == (number if math.isfinite(number) else None) for name, number in known.items())


@pytest.fixture(scope="module")
def opened(small: Path) -> Store:
    return Store(small)


DECAYS = ("none", "exp:half_life=7m", "poly:alpha=1.5,unit=1m", "table:0=1,10m=0.5,1h=0", "expr:max(0, 1 - age/40m)")
CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"source": ("-south",), "window": "20m"},
    {"source": (SITES[2], "north"), "as_of": str(START + 2000)},
    {"as_of": "2023-11-14T23:43:20+01:00", "confidence": 0.7123456789012345},
    {"family": "sample", "of": "value", "phi": 0.12345678901234566},
)


@pytest.mark.parametrize("aggregate", list(AGGREGATES))
def test_the_command_of_a_view_gives_its_number(
    aggregate: str,
    small: Path,
    opened: Store,
    answers: AnswerCache,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through wane's own command line, for every aggregate under several decays, windows, sources and times.

    On a store that is open already; the tests of texts below open one for each command.
    """
    monkeypatch.setattr("store.Store", {str(small): opened}.__getitem__)
    stream = answers.catalogue().streams[CALLS]
    needs = {"tau": "-1", "value": "500", "low": "-10", "high": "400", "other": "-south"}
    for number, (decay, choice) in enumerate(zip(DECAYS, CHOICES, strict=True)):
        tau = ("-1", "median", "q0.9", "500", "1e3")[number]
        view = replace(View(CALLS, aggregate=aggregate, decay=decay, **needs), tau=tau, **choice)
        assert same(printed(capsys, view, small), answers.ask(view, stream).estimate), view


@pytest.mark.parametrize("value", LABELS)
def test_the_command_of_a_text_value_gives_its_number(
    value: str, small: Path, answers: AnswerCache, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever minus, space, quote or bracket the text has."""
    stream = answers.catalogue().streams[PAGES]
    view = View(PAGES, aggregate="frequency", value=value, source=(BLOGS[0],), decay="exp:half_life=20m")
    answer = answers.ask(view, stream)
    assert answer.estimate.value > 0
    assert same(printed(capsys, view, small), answer.estimate)


@pytest.mark.parametrize("aggregate", ON_KEYS)
def test_the_commands_of_a_stream_of_texts_give_its_numbers(
    aggregate: str, small: Path, answers: AnswerCache, capsys: pytest.CaptureFixture[str]
) -> None:
    view = View(PAGES, aggregate=aggregate, value="plain", other="shop", decay="exp:half_life=20m", window="30m")
    assert aggregate in aggregates_of(answers.catalogue().streams[PAGES])
    assert same(printed(capsys, view, small), answers.ask(view, answers.catalogue().streams[PAGES]).estimate)


def test_the_command_of_a_list_gives_the_list(
    small: Path, answers: AnswerCache, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many values as asked for, of no less than the share asked for."""
    view = View(PAGES, aggregate="heavy-hitters", decay="exp:half_life=20m", top=3, share=0.05)
    stream = answers.catalogue().streams[PAGES]
    assert view.question(stream) == Question("heavy-hitters", view.fading, top=3, phi=0.05)
    assert replace(view, share=0.0).question(stream) == Question("heavy-hitters", view.fading, top=3)
    items = answers.ask(view, answers.catalogue().streams[PAGES]).estimate.items
    found = printed(capsys, view, small)["items"]
    assert len(items) == 3
    assert [(one["value"], one["estimate"], one["lower"], one["upper"]) for one in found] == [
        (item.value, item.estimate, item.lower, item.upper) for item in items
    ]


def test_the_command_line_prints_limits_outward(
    small: Path, answers: AnswerCache, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the answer and of every value in a list, as the page does."""
    view = View(PAGES, aggregate="heavy-hitters", decay="exp:half_life=20m", top=3)
    answer = answers.ask(view, answers.catalogue().streams[PAGES])
    third = [replace(item, lower=item.lower / 3, upper=2 / 3) for item in answer.estimate.items]
    estimate = replace(answer.estimate, lower=1 / 3, upper=2_000_000.1, items=tuple(third))
    monkeypatch.setattr(Store, "ask", lambda *_, **__: replace(answer, estimate=estimate))
    assert wane.main(shlex.split(command(view, small))[1:]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["lower        0.333333", "upper        2,000,001"]
    for text, item in zip(lines[5:8], third, strict=True):
        low, high = text.split()[-3], text.split()[-1]
        assert float(low) <= item.lower
        assert float(high) == 0.666667 > item.upper


def test_a_store_and_a_stream_that_begin_with_a_minus_are_no_options() -> None:
    arguments = shlex.split(command(View("-s", ("--json",), decay="none"), "-x.duckdb"))[1:]
    options = wane._parser().parse_args(arguments)
    assert (options.store, options.stream, options.source) == ("-x.duckdb", "-s", ["--json"])
