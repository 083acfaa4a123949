"""A source is silent where nothing has come of it for longer than the setting, or than its own rhythm, allows."""

from __future__ import annotations

import json
from dataclasses import replace

from store.serving.catalogue import Totals
from store.serving.staleness import source_states
from tests.support.dashboard_stores import stored_stream

DAY = 86_400
SOURCES = {
    "busy": Totals(1001, 1001.0, 0, 10 * DAY),  # a row every 14 minutes
    "gone": Totals(1001, 1001.0, 0, 8 * DAY),
    "weekly": Totals(2, 2.0, 0, 7 * DAY),
    "new": Totals(1, 1.0, 9 * DAY, 9 * DAY),
}
STREAM = replace(stored_stream(("busy", 0, 600)), by_source=SOURCES)


def test_a_source_is_judged_by_its_own_rhythm() -> None:
    """Two days of silence are much for one that comes every few minutes, and little for one that comes every week."""
    found = source_states(STREAM)
    assert [(one.source, one.lag) for one in found] == [
        ("weekly", 3.0 * DAY),
        ("gone", 2.0 * DAY),
        ("new", 1.0 * DAY),
        ("busy", 0.0),
    ]
    assert {one.source for one in found if one.stale} == {"gone", "new"}


def test_the_setting_says_how_long_a_source_may_be_silent() -> None:
    told = replace(STREAM, settings=json.dumps({"kind": "integer", "stale": "36h"}))
    assert {one.source for one in source_states(told) if one.stale} == {"gone", "weekly"}
    wrong = replace(STREAM, settings=json.dumps({"kind": "integer", "stale": "soon"}))
    assert {one.source for one in source_states(wrong) if one.stale} == {"gone", "new"}
    assert source_states(stored_stream()) == []
