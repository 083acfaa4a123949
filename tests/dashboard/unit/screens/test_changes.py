"""The page Changes: a marked time, what it is compared with, and what differs, as the store says it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dashboard import wording
from dashboard.asking.view import View
from dashboard.screens import changes
from sketches.estimate import Series
from sketches.question import Question
from store import Store
from store.serving.changes_answer import Sides
from store.serving.changes_answer import changes as asked
from store.serving.resolving import columns_of
from tests.support import wide_stores
from tests.support.dashboard_stores import CALLS, NOTHING
from tests.support.pages import NEWEST, address, charts, fine, opened, text_of, widget
from tests.support.wide_stores import REQUESTS


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_stores.build(tmp_path_factory.mktemp("wide"))


def marked(store: Path, stream: str) -> tuple[int, int, int, int]:
    """The first and the last time of a stream, and a mark between them."""
    held = Store(store).catalogue().streams[stream]
    first = min(one.oldest for one in held.by_source.values())
    last = max(one.newest for one in held.by_source.values())
    return first, last, first + (last - first) // 2, first + 3 * (last - first) // 4


def test_nothing_marked_says_how_to_mark(small: Path) -> None:
    test = fine(opened(small, "changes", stream=CALLS, aggregate="count", decay="window:10m"))
    assert "Which part of the chart shall be explained?" in text_of(test)
    (button,) = [one for one in test.button if one.label == "Mark the highest point"]
    button.click().run()
    assert {"mark-start", "mark-end"} <= set(address(fine(test)))
    assert len(charts(test)) == 2


def test_the_page_says_what_the_store_says(wide: Path) -> None:
    """Against the rest of the chart, with the two shares beside each other in the store's order."""
    first, last, begin, end = marked(wide, REQUESTS)
    test = fine(
        opened(
            wide, "changes", stream=REQUESTS, aggregate="mean", decay="none", mark_start=str(begin), mark_end=str(end)
        )
    )
    found = asked(Store(wide), REQUESTS, Sides.of(begin, end, within=(first, last + 1)), top=60)
    assert found.told() in text_of(test).replace("\\", "")
    table = test.dataframe[0].value
    held = Store(wide).catalogue().streams[REQUESTS]
    assert table[""].tolist() == [changes.label(one, held) for one in found.listed]
    assert len(table) == len(found.listed)
    pairs = charts(test)[1]["data"]
    assert [trace["name"] for trace in pairs] == ["marked time", "the rest of the chart"]
    assert list(pairs[0]["x"]) == pytest.approx([one.inside[0] for one in found.listed[: changes.DRAWN]])
    head, rows = changes.table(found, held)
    assert len(head) == len(rows[0])


def test_a_time_before_must_not_overlap_the_mark(small: Path) -> None:
    mark = {"mark_start": str(NEWEST - 1800), "mark_end": str(NEWEST)}
    test = fine(opened(small, "changes", stream=CALLS, aggregate="count", decay="none", **mark))
    widget(test, "selectbox", "Compared with").set_value("1h").run()
    assert address(fine(test))["versus"] == ["1h"]
    assert "the same time 1 h before" in text_of(test)
    bad = fine(opened(small, "changes", stream=CALLS, aggregate="count", decay="none", versus="10m", **mark))
    assert "they would overlap" in text_of(bad)


def test_a_mark_that_makes_no_sense_is_left_out(small: Path) -> None:
    test = fine(opened(small, "changes", stream=CALLS, mark_start="2026-01-02", mark_end="2026-01-01"))
    assert "The marked time is left out" in text_of(test)
    assert "mark-start" not in address(test)
    everything = fine(opened(small, "changes", stream=CALLS, decay="none", mark_start="0", mark_end="4000000000"))
    assert "nothing is left to compare with" in text_of(everything)
    empty = fine(opened(small, "changes", stream=NOTHING))
    assert "No events yet" in text_of(empty)


def test_the_highest_point_is_marked_with_what_rises_to_it() -> None:
    value = np.array([1.0, 1.0, 2.0, 9.0, 10.0, 8.0, 1.0, 1.0, np.nan])
    at = np.arange(9, dtype=np.int64) * 60
    series = Series(at, value, value, value, 1.0, "", "sample", np.zeros(9, np.int64))
    assert changes.around_highest(series) == (120, 360)
    flat = Series(at, np.ones(9), np.ones(9), np.ones(9), 1.0, "", "sample", np.zeros(9, np.int64))
    begin, end = changes.around_highest(flat)
    assert begin < end


def test_two_stretches_of_time_are_compared(wide: Path) -> None:
    """The number of each and their difference, as two filters on time give them, without any fading; sums only where
    both are equally long."""
    first, last, begin, end = marked(wide, REQUESTS)
    mark = {"stream": REQUESTS, "decay": "exp:half_life=5m", "mark_start": str(begin), "mark_end": str(end)}
    test = fine(opened(wide, "changes", aggregate="mean", versus=f"{first}/{begin}", **mark))
    table = test.dataframe[0].value
    assert table["compared"].tolist() == [changes.against(View(versus=f"{first}/{begin}")), "marked time"]
    for row, (start, stop) in enumerate(((first, begin), (begin, end))):
        where = columns_of(Store(wide).catalogue().streams[REQUESTS]).parse(f"time >= {start} and time < {stop}")
        answer = Store(wide).ask(REQUESTS, Question("mean", "none", where=where)).estimate
        assert table["estimate"][row] == wording.estimated(answer.value, answer.lower, answer.upper, "value")
    assert table["difference"][1]
    longer = fine(opened(wide, "changes", aggregate="count", versus=f"{first}/{begin - 9}", **mark))
    assert "differ in length" in text_of(longer)
    over = fine(opened(wide, "changes", aggregate="mean", versus=f"{first}/{last}", **mark))
    assert "overlap" in text_of(over)


def test_a_stretch_of_time_holds_its_beginning_and_not_its_end(wide: Path) -> None:
    """Its view counts exactly the moments from the beginning to before the end, each alike."""
    stream = Store(wide).catalogue().streams[REQUESTS]
    view = changes.of_stretch(View(REQUESTS, decay="exp:half_life=5m", start="0"), stream, 1000, 1090)
    at = view.moment(stream.unit)
    assert at is not None
    counted = [moment for moment in range(900, 1200) if moment <= at and view.fading(np.array([at - moment]))[0] > 0]
    assert counted == list(range(1000, 1090))
    assert not view.ranged
