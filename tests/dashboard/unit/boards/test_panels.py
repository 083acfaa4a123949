"""What panels show: the store's own answers with their bounds, and never the answer to another question."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.boards import panels
from dashboard.boards.board import SHOWS, Panel
from dashboard.boards.desk import desk
from dashboard.boards.panels import FAULT, SHOWN, Drawn, asked_together, drawn
from sketches.question import Question
from tests.support import dashboard_stores
from tests.support.dashboard_stores import CALLS, NOTHING, PAGES, SITES
from tests.support.pages import column, store_of, written


def panel(shows: str = "line", **given: str | list[str]) -> Panel:
    asked = {"stream": CALLS, "decay": "exp:half_life=10m", "aggregate": "sum", "of": "weight", **given}
    texts = {name.replace("_", "-"): [text] if isinstance(text, str) else text for name, text in asked.items()}
    return Panel(texts, shows=shows)


def shown(answers: AnswerCache, one: Panel, as_of: str = "") -> Drawn:
    found = drawn(answers, one, answers.catalogue(), as_of)
    assert found.problems == ()
    return found


def test_every_kind_of_panel_is_drawn() -> None:
    """What a file can ask for is what there is."""
    assert list(SHOWN) == list(SHOWS)


def test_the_number_is_that_of_the_store(answers: AnswerCache, small: Path) -> None:
    """With its limits, its time and the question in words; the line ends there."""
    question = Question("sum", "exp:half_life=10m", of="weight")
    estimate = store_of(small).ask(CALLS, question).estimate
    for kind in ("number", "line"):
        found = shown(answers, panel(kind))
        assert found.number == f"{written(estimate)} loss"
        assert " … ".join(wording.limits(estimate.lower, estimate.upper, "weight")) in found.sure
        assert "90%" in found.sure
        assert found.as_of.startswith("2023-11-14 23:13")
        assert "an event counts half after 10 min" in found.asked
        assert "with 90% confidence between" in found.sentence
    line = shown(answers, panel("line"))
    assert line.figure is not None
    assert column(line.figure.to_plotly_json()["data"][1]["y"])[-1] == pytest.approx(estimate.value)
    assert line.table[1][-1][1] == pytest.approx(estimate.value)


def test_groups_values_and_quantiles_are_those_of_the_store(answers: AnswerCache, small: Path) -> None:
    store = store_of(small)
    groups = shown(answers, panel("groups", aggregate="mean", of="value", by="source", decay="none"))
    split = store.split(CALLS, Question("mean", "none", of="value"), by="source", top=10)
    assert [row[0] for row in groups.table[1]] == [place.name for place in split.places]
    assert sorted(row[0] for row in groups.table[1]) == sorted(SITES)
    assert all(row[2] for row in groups.table[1])

    top = shown(answers, Panel({"stream": [PAGES], "decay": ["none"], "top": ["3"]}, shows="top-values"))
    items = store.ask(PAGES, Question("heavy-hitters", "none", top=3)).estimate.items
    assert [row[0] for row in top.table[1]] == [str(item.value) for item in items]
    assert len(items) == 3

    curve = shown(answers, panel("distribution", decay="none"))
    median = store.ask(CALLS, Question("median", "none")).estimate
    row = next(row for row in curve.table[1] if row[0] == "50%")
    assert row[1:] == pytest.approx([median.value, median.lower, median.upper], nan_ok=True)


def test_a_line_of_groups(answers: AnswerCache) -> None:
    found = shown(answers, panel("line", aggregate="mean", of="value", by="source"))
    assert found.figure is not None
    assert set(SITES) == {row[0] for row in found.table[1]}


def test_a_pinned_board_asks_as_of_then(answers: AnswerCache, small: Path) -> None:
    """All panels but those that are pinned themselves."""
    then = dashboard_stores.START + 1200
    past = store_of(small).ask(CALLS, Question("sum", "exp:half_life=10m", of="weight", as_of=then)).estimate
    assert shown(answers, panel("number"), str(then)).number == f"{written(past)} loss"
    own = shown(answers, panel("number", as_of=str(then + 600)), str(then))
    assert own.as_of != shown(answers, panel("number"), str(then)).as_of


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stream": "cals"}, "no stream 'cals' in this store"),
        ({"source": ["nowhere"]}, "has no source `nowhere`"),
        ({"where": "colour = 'red'"}, "The filter"),
        ({"by": "colour"}, "cannot be split by"),
        ({"family": "unheard-of"}, "no sketches of the family"),
        ({"aggregate": "sum", "of": "colour"}, "cannot be of"),
        ({"aggregate": "quantile", "stream": PAGES}, "needs numbers"),
        ({"stream": NOTHING}, "holds no events yet"),
        ({"aggregate": "frequency"}, "value"),
        ({"as_of": "1900"}, ""),
    ],
)
def test_a_panel_never_answers_another_question(answers: AnswerCache, given: dict[str, Any], said: str) -> None:
    """What the store does not have is said; a page would put something else in its place."""
    found = drawn(answers, panel("number", **given), answers.catalogue())
    if said:
        assert said in " ".join(found.problems)
        assert found.number == ""
    else:  # before the first event
        assert found.number == "no events yet"


def test_one_panel_that_fails_takes_no_other_with_it(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is a fault of the program; the log has the rest."""

    def broken(*_: object) -> Drawn:
        raise KeyError("secret")

    monkeypatch.setitem(panels.SHOWN, "number", broken)
    with asked_together(answers, [panel("number"), panel("line")], answers.catalogue()) as asked:
        first, second = (one.result() for one in asked)
    assert first.problems == (FAULT,)
    assert second.number


def test_panels_are_asked_together(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until all others have begun: one after the other, they would wait for ever."""
    number = 6
    gate = threading.Barrier(number, timeout=20)

    def waiting(*_: object) -> Drawn:
        gate.wait()
        return Drawn("")

    monkeypatch.setitem(panels.SHOWN, "number", waiting)
    with asked_together(answers, [panel("number")] * number, answers.catalogue()) as asked:
        assert [one.result().problems for one in asked] == [()] * number


def test_whoever_leaves_waits_for_no_panel(answers: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setitem(panels.SHOWN, "number", lambda *_: Drawn(str(held.wait(20))))
    asked: list[Future[Drawn]] = []
    with asked_together(answers, [panel("number")] * 12, answers.catalogue()) as begun:
        asked = begun
    assert any(one.cancelled() for one in asked)
    assert not all(one.done() for one in asked)
    held.set()


def test_annotations_stand_in_the_lines_of_a_board(
    answers: AnswerCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.toml"
    file.write_text(f'[[annotation]]\ntime = {dashboard_stores.START + 60}\ntext = "Release"\n')
    monkeypatch.setattr(desk, "_annotations", str(file))
    figure = shown(answers, panel("line")).figure
    assert figure is not None
    assert [one.text for one in figure.layout.annotations] == ["filling up", "Release"]
    bare = shown(answers, panel("line", marks="")).figure
    assert bare is not None
    assert [one.text for one in bare.layout.annotations] == ["filling up"]
    assert np.isfinite(column(figure.to_plotly_json()["data"][-1]["y"])).all()
