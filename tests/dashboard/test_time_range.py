"""The stretch of time that a chart shows, drawn by hand in a real browser."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from tests.support.browser import View, agrees

DECAY = "exp:half_life=1h"


def draw_box(view: View, first: float, last: float, name: str = "explore") -> None:
    """Draw a box in a chart, from one share of its width to another."""
    area = view.page.locator(f".st-key-figure-{name} .nsewdrag").first
    box = area.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    x = [box["x"] + share * box["width"] for share in (first, (first + last) / 2, last)]
    view.page.mouse.move(x[0], y)
    view.page.mouse.down()
    view.page.mouse.move(x[1], y, steps=4)
    view.page.mouse.move(x[2], y, steps=4)
    view.page.mouse.up()


def range_of(view: View) -> tuple[str, str]:
    found = parse_qs(urlsplit(view.page.url).query)
    return found["start"][0], found["end"][0]


def drawn_until(view: View, last: str) -> list[str]:
    """The times of the chart, once it ends at one of them."""
    view.page.wait_for_function(
        "last => document.querySelector('.st-key-figure-explore .js-plotly-plot')?._fullData?.at(-1).x.at(-1) === last",
        arg=last,
    )
    times: list[str] = view.settle().figure()["data"][-1]["x"]
    return times


def test_a_box_zooms_and_back_undoes_it(view: View) -> None:
    """The range has 200 points of its own; back shows all again."""
    view.open(stream="calls", decay=DECAY)
    whole: list[str] = view.figure()["data"][-1]["x"]
    draw_box(view, 0.3, 0.7)
    view.page.wait_for_url(re.compile("start=.*end="))
    begin, end = range_of(view)
    times = drawn_until(view, end.removesuffix("Z"))
    assert len(times) == 200
    assert whole[0] < times[0] == begin.removesuffix("Z") < times[-1] < whole[-1]
    back = view.page.get_by_role("button", name="Back")
    back.click()
    assert drawn_until(view, whole[-1]) == whole
    assert "start" not in parse_qs(urlsplit(view.page.url).query)
    assert back.count() == 0


def test_a_click_takes_its_time_and_a_double_click_goes_back(view: View) -> None:
    """The number is as of the clicked point while the chart stays; two double clicks undo click and box."""
    view.open(stream="calls", decay=DECAY)
    whole: list[str] = view.figure()["data"][-1]["x"]
    newest = view.number
    draw_box(view, 0.3, 0.7)
    view.page.wait_for_url(re.compile("start=.*end="))
    times = drawn_until(view, range_of(view)[1].removesuffix("Z"))
    area = view.page.locator(".st-key-figure-explore .nsewdrag").first
    area.click(force=True)  # at once after the redraw, while Plotly still has the point under the pointer before
    view.page.wait_for_url(re.compile("as-of="))
    at = parse_qs(urlsplit(view.page.url).query)["as-of"][0].removesuffix("Z")
    assert at in times[98:102]  # the middle
    assert view.figure()["data"][-1]["x"][-1] == times[-1]
    assert "the number" in view.figure()["annotations"]
    agrees(view)
    area.dblclick(force=True)
    view.page.wait_for_function("() => !location.search.includes('as-of')")
    assert view.settle().number == newest
    area.dblclick(force=True)
    assert drawn_until(view, whole[-1]) == whole


def test_two_double_clicks_in_a_row_go_back_twice(view: View) -> None:
    """The third click comes so soon that it might be taken for one that belongs to the two before it."""
    view.open(stream="calls", decay=DECAY)
    for begin, end in ((0.2, 0.8), (0.3, 0.7)):
        before = view.page.url
        draw_box(view, begin, end)
        view.page.wait_for_function("before => location.href !== before", arg=before)
        view.settle()
    area = view.page.locator(".st-key-figure-explore .nsewdrag").first
    area.dblclick(force=True)
    view.page.wait_for_timeout(200)
    area.dblclick(force=True)
    view.page.wait_for_function("() => !/start|as-of/.test(location.search)")


def test_a_box_on_changes_marks_what_is_to_be_explained(view: View) -> None:
    """The mark is in the address, and a link to it shows the same."""
    view.open("changes", stream="calls", aggregate="count", decay=DECAY)
    view.page.get_by_text("Which part of the chart shall be explained?").wait_for()
    draw_box(view, 0.4, 0.6, "changes")
    view.page.wait_for_url(re.compile("mark-start=.*mark-end="))
    told = view.page.get_by_text(re.compile("sources and values")).first
    told.wait_for()
    text = told.inner_text()
    view.page.reload()
    view.page.get_by_text(text).wait_for()


def test_from_a_range_to_what_changed_in_it_and_against_another(view: View) -> None:
    """One click leads from the zoomed chart to the sources and values of that time, in a chart of all again; a drag
    with the shift key compares with another stretch, and the number of both stands there."""
    view.open(stream="calls", aggregate="mean", decay=DECAY)
    whole: list[str] = view.figure()["data"][-1]["x"]
    draw_box(view, 0.6, 0.8)
    view.page.wait_for_url(re.compile("start=.*end="))
    begin, end = range_of(view)
    view.page.get_by_role("button", name="What changed here?").click()
    view.page.wait_for_url(re.compile("/changes.*mark-start=.*mark-end="))
    view.until(re.compile("sources and values")).settle()
    found = parse_qs(urlsplit(view.page.url).query)
    assert (found["mark-start"][0], found["mark-end"][0]) == (begin, end)
    assert view.figure("changes")["data"][-1]["x"][0] == whole[0]
    view.page.keyboard.down("Shift")
    draw_box(view, 0.2, 0.4, "changes")
    view.page.keyboard.up("Shift")
    view.page.wait_for_url(re.compile("versus=.*%2F"))
    view.until("The mean of loss, in both times").settle()
    assert view.figure("changes")["shapes"] >= 2
