"""The page Audit: exact answers are dots, counted only where there is a band."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard import app, wording
from sketches.question import Question
from tests.support import dashboard_stores
from tests.support.pages import charts, column, fine, opened, widget


@pytest.mark.parametrize(("where", "tau"), [("", None), ("value >= median(value) and value is not null", "median")])
def test_the_audit_puts_exact_answers_into_the_band(small: Path, where: str, tau: str | None) -> None:
    """Once it is asked to: the raw files are read, and the dots are where the oracle says."""
    test = fine(opened(small, "audit", aggregate="sum", decay="none", where=where))
    assert not charts(test)
    widget(test, "button", "Check against the raw files").click().run()
    (found,) = fine(test).metric
    inside, dots = map(int, re.findall(r"\d+", found.value))
    assert 20 <= dots <= 24
    assert inside > dots / 2
    (chart,) = charts(test)
    exact = column(chart["data"][-1]["y"])
    from tests.support.oracle import Oracle
    from tests.support.streams import joined

    oracle = Oracle(joined(list(dashboard_stores.calls().values())))
    assert exact[-1] == pytest.approx(oracle.answer(Question("sum", tau=tau)))
    answers = app.shared_answers(str(small))
    answers._exact.close()  # type: ignore[union-attr]
    answers._exact = None


def test_the_audit_counts_only_where_there_is_a_band(own: Path) -> None:
    """Exact answers know the events of an epoch that cannot be read, so no interval can be held to them."""
    assert dashboard_stores.damage(own, dashboard_stores.START + 200) == 1
    for decay, some in (("window:10m", True), ("none", False)):
        test = fine(opened(own, "audit", decay=decay))
        widget(test, "button", "Check against the raw files").click().run()
        inside, dots = map(int, re.findall(r"\d+", fine(test).metric[0].value))
        assert (1 < dots < 24) == some
        assert inside >= dots / 2
    assert dots <= 1  # before the first event that is missing
    app.shared_answers(str(own))._exact.close()  # type: ignore[union-attr]


def test_files_that_may_not_be_read_are_said(own: Path, tmp_path: Path) -> None:
    """A raw file outside the folders that were told is not read, and the page says which option admits it."""
    app.shared_answers(str(own), [str(tmp_path)])
    test = fine(opened(own, "audit"))
    shown = " ".join(text.value for text in test.markdown)
    assert "is outside the folders that Audit may read" in shown.replace("\\", "")
    assert not test.button


@pytest.mark.parametrize("where", ["", "value >= 60 and weight < 8"])
def test_the_audit_compares_every_group_of_a_split(small: Path, where: str) -> None:
    """Each listed source beside its exact answer, under the same filter."""
    from tests.support.oracle import Oracle

    test = fine(opened(small, "audit", aggregate="sum", decay="none", where=where, by="source"))
    widget(test, "button", "Check against the raw files").click().run()
    (frame,) = [one.value for one in fine(test).dataframe if "inside" in one.value.columns]
    rows = dashboard_stores.calls()
    assert sorted(frame["source"]) == sorted(rows)
    for name, exact in zip(frame["source"], frame["exact"], strict=True):
        some = rows[name]
        if where:
            some = some.take((some.v >= 60) & (some.w < 8))
        assert exact == written_number(Oracle(some).answer(Question("sum")))
    assert list(frame["inside"]).count("yes") >= len(rows) - 1
    assert any("By source" in one.value for one in test.markdown)
    answers = app.shared_answers(str(small))
    answers._exact.close()  # type: ignore[union-attr]
    answers._exact = None


def written_number(exact: float) -> str:
    return wording.estimated(exact, exact, exact, "weight")
