"""The dashboard in a real browser, on a store that was ingested: it opens, follows every control and the store."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketches.formatting import number_text
from tests.dashboard.conftest import Ingested
from tests.support.browser import PAGES, WINDOW, Server, View, agrees, wane

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FIRST_VIEW = {"stream": "calls", "aggregate": "sum", "decay": "exp:half_life=2h"}


def complete(view: View, name: str) -> None:
    """Wait until a page shows its chart or button, and check it, in both its colours."""
    if name == "Audit":
        view.page.get_by_role("button", name="Check against the raw files").wait_for()
    elif name == "Boards":
        view.until("There are no boards yet")
    else:
        view.page.locator(".js-plotly-plot .main-svg").first.wait_for()
    view.check()
    view.usable(("dark", "light"))


def test_every_page_opens_from_the_navigation_and_leaves_the_store_alone(view: View, server: Server) -> None:
    """Each click brings a whole page without an error, and none writes to the store or beside it."""
    beside = sorted(server.store.parent.iterdir())
    before = (hashlib.sha256(server.store.read_bytes()).digest(), server.store.stat().st_mtime_ns)
    view.open().until("1 of 3: What you see.")
    complete(view, "Explore")
    view.page.get_by_role("button", name="Close the tour").click()
    view.page.get_by_text("1 of 3").wait_for(state="detached")
    view.open()
    assert view.page.get_by_text("1 of 3").count() == 0  # closed for good
    for name in list(PAGES)[1:]:
        view.to(name)
        complete(view, name)
    view.page.get_by_role("link", name="Words and tour").click()
    view.until("Each in one line").settle().usable(("light", "dark"))
    view.to("Explore").check()
    assert (hashlib.sha256(server.store.read_bytes()).digest(), server.store.stat().st_mtime_ns) == before
    assert sorted(server.store.parent.iterdir()) == beside


def test_a_chart_has_a_text_and_a_table_of_its_numbers(view: View) -> None:
    """A screen reader hears what is drawn; T shows the numbers of the last point, with its limits, and T hides them."""
    view.open(**FIRST_VIEW)
    chart = view.page.locator(".st-key-figure-explore .js-plotly-plot")
    assert "over time" in str(chart.get_attribute("aria-label"))
    chart.focus()
    view.page.keyboard.press("t")
    table = view.page.get_by_role("region", name=re.compile("The numbers of"))
    table.wait_for()
    rows = table.locator("tr")
    assert rows.count() == 1 + len(view.drawn()[-1])
    assert rows.nth(0).locator("th").all_inner_texts() == ["as of, UTC", "lost packets per 10,000", "from", "to"]
    low, high = view.interval.split("±")[0].split("95%")[0].split(" … ")
    assert rows.last.locator("td").all_inner_texts()[1:] == [view.number, low.strip(), high.strip()]
    view.usable()
    view.page.keyboard.press("t")
    table.wait_for(state="detached")


SHOWS_FOCUS = """() => {  // an outline, a shadow, or a border in the colour of what is active
    for (let one = document.activeElement, up = 0; one && up < 4; one = one.parentElement, up++) {
        const style = getComputedStyle(one);
        if (style.outlineStyle !== 'none' && style.outlineWidth !== '0px') return true;
        if (style.boxShadow !== 'none') return true;
        if (up && /rgb\\(59, 91, 219\\)/.test(style.borderColor)) return true;
    }
    return document.activeElement === document.body;
}"""
CLICKED_QUICKLY = """async ([label, clicks]) => {
    const box = [...document.querySelectorAll('.stCheckbox')].find(one => one.innerText.includes(label));
    for (let click = 0; click < clicks; click++) {
        box.querySelector('input').click();
        await new Promise(done => setTimeout(done, (click % 5) * 18));
    }
}"""
LED_TO = """([label, on]) => {
    const box = [...document.querySelectorAll('.stCheckbox')].find(one => one.innerText.includes(label));
    return box.querySelector('input').checked === on && location.search.includes('smallest=on') === on;
}"""


def test_no_click_on_a_switch_is_lost(view: View) -> None:
    """200 clicks, most of them during a redraw: in each of 20 rounds the switch ends where they lead, and so does the
    address."""
    label, on = "The smallest first", False
    view.open(stream="calls", aggregate="mean", decay="exp:half_life=2h", by="device").until(label)
    for clicks in [9, 11, 10, 10] * 5:
        view.page.evaluate(CLICKED_QUICKLY, [label, clicks])
        on = on != (clicks % 2 == 1)
        view.page.wait_for_function(LED_TO, arg=[label, on], timeout=10_000)
        view.settle()
        assert view.page.evaluate(LED_TO, [label, on]), "it has gone back"


def test_the_decay_moves_figure_and_number(view: View) -> None:
    """Slider, family, preset, formula and text each change figure and number to what `wane query` says."""
    view.open(**FIRST_VIEW)
    agrees(view)
    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: view.slide("Half-life", "ArrowRight"), "exp:half_life=3h"),
        (lambda: view.pick("Fading", "Polynomial"), "poly:alpha=1.5,unit=3h"),
        (lambda: view.slide("Exponent α", "ArrowLeft"), "poly:alpha=1.4,unit=3h"),
        (lambda: view.page.get_by_role("radio", name="Last day").click(), "window:1d"),
        (lambda: view.page.get_by_role("radio", name="Half-life 1 h").click(), "exp:half_life=1h"),
        (lambda: view.pick("Fading", "Formula"), "expr:exp(-age/1h)"),
        (lambda: view.type("Formula in age", "1/(1+age/30m)^2"), "expr:1/(1+age/30m)^2"),
        (lambda: view.type("As text", "chordal:9h"), "chordal:9h"),
    ]
    for act, spec in steps:
        view.change(act)
        assert view.command[view.command.index("--decay") + 1] == spec
        agrees(view)


def test_aggregate_threshold_window_and_sources_move_figure_and_number(view: View) -> None:
    """Each other choice changes figure and number to what `wane query` says."""
    view.open(**FIRST_VIEW)
    steps: list[tuple[Callable[[], object], str, str]] = [
        (lambda: view.pick("Aggregate", "Mean"), "weight", "--aggregate mean"),
        (lambda: view.pick("Of", "duration_s (the value)"), "value", "--of value"),
        (lambda: view.pick("Aggregate", "Median value"), "value", "--aggregate median"),
        (lambda: view.pick("Aggregate", "Number of events"), "events", "--aggregate count"),
        (lambda: view.pick("Window", "the last 6 h"), "events", "window=6h"),
        (lambda: view.pick("Sources", "north"), "events", "--source north"),
        (lambda: _threshold(view), "share", "--tau 100"),
        (lambda: view.type("Threshold τ", "300"), "share", "--tau 300"),
        (lambda: view.slide("τ among the stored values", "ArrowLeft"), "share", "--aggregate selectivity"),
        (lambda: view.type("Threshold τ", "q0.9"), "share", "--tau q0.9"),
    ]
    for act, measure, part in steps:
        view.change(act)
        assert part in " ".join(view.command).replace("--tau=", "--tau ")
        agrees(view, measure)


def _threshold(view: View) -> None:
    view.pick("Aggregate", "Share where value ≥ τ")
    view.until("needs").settle()
    view.type("Threshold τ", "100")


def test_a_function_that_is_no_decay_says_why_in_place(view: View) -> None:
    """A rising formula or table is refused beside its box, and the last valid answer stays."""
    view.open(stream="calls", decay="expr:exp(-age/2h)")
    number, drawn = view.number, view.drawn()
    view.type("Formula in age", "age/1h")
    sidebar = view.page.get_by_test_id("stSidebar")
    sidebar.get_by_test_id("stAlert").wait_for()
    assert re.search("rise|at most 1|more than 1|falls", sidebar.get_by_test_id("stAlert").inner_text())
    assert view.box("Formula in age").input_value() == "age/1h"
    assert (view.settle().number, view.drawn()) == (number, drawn)
    view.change(lambda: view.type("Formula in age", "exp(-age/5h)"))
    assert sidebar.get_by_test_id("stAlert").count() == 0

    view.change(lambda: view.pick("Fading", "Table of my own"))
    number, drawn = view.number, view.drawn()
    canvas = sidebar.locator("[data-testid=stDataFrame] canvas").first
    box = canvas.bounding_box()
    assert box is not None
    view.page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.7 * box["height"])  # the last of three weights
    view.page.keyboard.press("Enter")
    view.page.locator("#portal input").fill("0.9")
    view.page.keyboard.press("Enter")
    sidebar.get_by_test_id("stAlert").wait_for()
    assert "0.9" in sidebar.get_by_test_id("stAlert").inner_text()
    assert (view.settle().number, view.drawn()) == (number, drawn)


def controls(view: View) -> list[Any]:
    """What all inputs of the page hold."""
    found: list[Any] = view.page.eval_on_selector_all(
        "input, [role=radio]",
        "all => all.map(one => [one.ariaLabel || one.innerText, one.value, one.checked, one.ariaChecked])",
    )
    return found


def test_a_copied_address_shows_the_same_elsewhere(
    view: View, opened: Callable[..., View], browser: Browser, server: Server
) -> None:
    """In another browser the address restores number, figure and every control; going back undoes the last change."""
    view.open()
    first = view.number
    view.change(lambda: view.pick("Aggregate", "Quantile of the values"))
    view.change(lambda: view.slide("φ", "ArrowLeft", 5))  # faster than the page is drawn: none may be lost
    view.page.wait_for_function("() => location.search.includes('phi=0.85')")
    view.settle()
    view.change(lambda: view.pick("Sources", "east"))
    before = view.number
    view.change(lambda: view.page.get_by_role("radio", name="Slow polynomial").click())
    expected = (view.number, view.drawn(), controls(view))
    elsewhere = browser.new_context(**WINDOW)
    copy = opened(server, elsewhere).go(view.page.url)
    assert (copy.number, copy.drawn(), controls(copy)) == expected
    assert copy.number != first
    copy.check()

    view.page.go_back()
    view.page.wait_for_function(
        "text => document.querySelector('[data-testid=stMetricValue]')?.innerText.trim() === text", arg=before
    )
    view.settle()
    agrees(view, "value")


def test_an_ingest_committed_meanwhile_appears_by_itself(
    view: View, opened: Callable[..., View], server: Server, ingested: Ingested
) -> None:
    """The open page follows the store without reload or restart; one whose refreshing is off stays as it is."""
    view.open(**FIRST_VIEW)
    still = opened(server).open(**FIRST_VIEW)
    still.page.get_by_text("Display").click()
    still.switch("Refresh by itself", "refreshing is off, generation 1").settle()
    asked = len(still.sent)
    number, drawn = view.number, view.drawn()
    assert (still.number, still.drawn()) == (number, drawn)

    assert ingested.arrive().exit_code == 0
    view.until("live, generation 2").settle()
    assert "Generation 2 " in view.text
    assert view.number != number
    assert view.drawn() != drawn
    agrees(view)

    seen = len(view.sent)
    while len(view.sent) < seen + 1:  # one more look at the store: the other page would have looked as well
        view.page.wait_for_timeout(50)
    assert len(still.sent) == asked
    assert (still.number, still.drawn()) == (number, drawn)
    still.switch("Refresh by itself", "live, generation 2").settle()
    assert still.number == view.number


def test_downloads_agree_with_the_page(view: View, tmp_path: Path) -> None:
    """CSV and JSON hold the number that is shown, and the camera saves a picture."""
    view.open(**FIRST_VIEW)
    files = {}
    for name in ("CSV", "JSON"):
        with view.page.expect_download() as waiting:
            view.page.get_by_role("button", name=name).click()
        files[name] = Path(waiting.value.path()).read_text()
        assert waiting.value.suggested_filename == f"wane-explore.{name.lower()}"
    rows = list(csv.DictReader(io.StringIO(files["CSV"])))
    found = json.loads(files["JSON"])
    assert number_text(found["estimate"]) == view.number
    assert math.isclose(float(rows[-1]["estimate"]), found["estimate"], rel_tol=1e-3)
    assert [float(row["estimate"]) for row in rows] == view.drawn()[-1] == found["series"]["estimate"]
    answer = wane(view.command)
    assert {name: found[name] for name in ("estimate", "lower", "upper", "guarantee")} == {
        name: answer[name] for name in ("estimate", "lower", "upper", "guarantee")
    }
    view.page.locator(".st-key-figure-explore .js-plotly-plot").hover()
    with view.page.expect_download() as waiting:
        view.page.locator(".st-key-figure-explore .modebar-btn[data-title*=Download]").click()
    name = waiting.value.suggested_filename
    assert re.fullmatch(r"wane-calls-explore-exp_half_life_2h-2025_12_31_\d\d_\d\d_\d\d_UTC\.png", name), name
    assert Path(waiting.value.path()).read_bytes().startswith(b"\x89PNG")


def test_everything_is_reached_with_the_keyboard(view: View) -> None:
    """The first Tab leads to the pages; Tab comes to the controls and the exports, too; a second round is for what was
    drawn anew in the first. What has the focus shows it."""
    view.open(**FIRST_VIEW)
    view.page.keyboard.press("Tab")
    view.page.keyboard.press("Enter")
    view.page.wait_for_function("() => document.activeElement.innerText.trim() === 'Explore'", timeout=5000)
    controls = ["Stream", "Sources", "Aggregate", "Last hour", "Fading", "Half-life", "Window", "As text", "Display"]
    others = ["newest event", "From – to", "CSV", "JSON", "The same on the command line"]
    missing = {*PAGES, *controls, *others} - {"Explore"}
    for _ in range(2 * 74):
        view.page.keyboard.press("Tab")
        told = view.page.evaluate(
            "(one => `${one.ariaLabel || ''} ${one.value || ''} ${one.innerText || ''}`)(document.activeElement)"
        )
        if len(told) > 200:  # the whole page, which holds every word
            continue
        missing -= {name for name in missing if name in told}
        assert view.page.evaluate(SHOWS_FOCUS), told
        if not missing:
            break
    assert missing == set(), "Tab does not reach them"


def test_split_click_a_group_and_remove_its_chip(view: View) -> None:
    """A split has a line for each device; a click on a row shows that device alone, a click on its chip all again."""
    view.open(stream="calls", aggregate="mean", decay="none")
    whole = view.number
    view.pick("Split by", "device")
    view.until("4 groups")
    names = [trace["name"] for trace in view.figure()["data"] if trace["mode"] == "lines"]
    assert {"mobile", "desk phone", "softphone", "conference room"} <= set(names)
    items = wane(view.command)["items"]
    assert view.figure("groups")["labels"] == [one["value"] for one in items]
    chip = view.page.get_by_role("button", name=f"device = '{items[0]['value']}'")
    view.click_bar("groups", chip)
    answer = agrees(view)
    assert abs(answer["estimate"] / items[0]["estimate"] - 1) < 0.01  # asked alone it may lean on totals
    assert f"device = '{items[0]['value']}'" in view.command
    chip.click()
    chip.wait_for(state="detached")
    view.settle()
    assert view.number == whole


def test_the_leaderboard_leads_to_one_source(view: View) -> None:
    """All regions ranked, with what changed since a day before; a click on the first bar explores it."""
    view.open("leaderboard", stream="calls", aggregate="mean", decay="window:6h", compare="times")
    labels = view.figure("leaderboard")["labels"]
    assert sorted(labels) == ["east", "islands", "north", "south", "west"]
    view.click_bar("leaderboard", view.page.get_by_role("button", name=f"source = {labels[0]}"))
    view.page.wait_for_url(re.compile(rf"/\?.*source={labels[0]}"))
    agrees(view)
