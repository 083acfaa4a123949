"""The page Audit: exact answers are dots, counted only where there is a band."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard import app
from sketches.question import Question
from tests.support import dashboard_stores
from tests.support.pages import charts, column, fine, opened, widget


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
    from tests.support.oracle import Oracle
    from tests.support.streams import joined

    assert exact[-1] == pytest.approx(Oracle(joined(list(dashboard_stores.calls().values()))).answer(Question("sum")))
    app.shared_answers(str(small))._exact.close()  # type: ignore[union-attr]


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
