"""Boards in a real browser: made, changed and shared there, on a wall screen, and as a file without a network."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

import wane
from dashboard import wording
from sketches.question import Question
from sketches.units import SECOND
from store import Store
from store.serving.timeline import read_moment
from tests.support import dashboard_stores
from tests.support.browser import WINDOW, Server, View, serving
from tests.support.dashboard_stores import SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BOARD = f"""\
title = "Operations {SCRIPT}"

# stays
[[panel]]
title = "Loss {SCRIPT}"
note = "![x](http://example.invalid/x.png) $x$"
view = {{ stream = "calls", aggregate = "sum", of = "weight", decay = "exp:half_life=10m" }}

[[panel]]
title = "Calls"
shows = "number"
view = {{ stream = "calls", aggregate = "count", decay = "none" }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("boards")
    (found / "ops.toml").write_text(BOARD)
    return found


@pytest.fixture(scope="module")
def editable(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = dashboard_stores.build(tmp_path_factory.mktemp("store"))
    with serving(store, folder / "log", "--boards", str(folder), "--edit") as found:
        yield found


def test_a_board_from_its_first_panel_to_the_wall(editable: Server, folder: Path, browser: Browser) -> None:
    """A question is added, the board is changed, its pinned link opens elsewhere; the wall screen follows a commit,
    and the pinned one does not."""
    context = browser.new_context(**WINDOW)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = View(editable, context).open(stream="calls", aggregate="mean", of="value", decay="window:10m")
    view.page.get_by_role("button", name="Share").click()
    view.page.get_by_role("textbox", name="Title of the panel").fill('Mean "of" all')
    view.page.get_by_role("button", name="Add", exact=True).click()
    view.until("It is on the board ops")
    view.page.keyboard.press("Escape")

    view.open("board", board="ops", refresh="off")
    view.page.locator(".js-plotly-plot").nth(1).wait_for()
    view.usable(("dark", "light"))
    view.switch("Edit this board", "Remove this board")
    view.settle().page.get_by_role("button", name="Later").nth(2).wait_for()  # panels are drawn as they are answered
    view.page.get_by_role("button", name="Later").first.click()
    view.page.wait_for_function(
        "() => [...document.querySelectorAll('p strong')].findIndex(one => one.innerText === 'Calls') === 0"
    )
    written = (folder / "ops.toml").read_text()
    assert [one["title"] for one in tomllib.loads(written)["panel"]] == ["Calls", f"Loss {SCRIPT}", 'Mean "of" all']
    assert "# stays" in written

    view.settle().page.get_by_role("button", name="Share").click()
    view.page.get_by_role("radio", name="pin this moment").click()
    view.until("as-of=")
    view.page.get_by_role("button", name="Copy link").click()
    view.until("It is copied")
    pinned = view.page.evaluate("navigator.clipboard.readText()")
    assert pinned.startswith(editable.url("board", board="ops"))
    assert "as-of=2023-11-14T" in pinned
    harmless(view)

    wall = View(editable, context)
    wall.page.goto(editable.url("board") + "?board=ops&kiosk")
    wall.settle()
    before = counted(wall)
    wall.usable(("dark", "light"))
    for shown in ("stSidebar", "stTopNavLink", "stHeader", "stSelectbox"):
        assert not [one for one in wall.page.get_by_test_id(shown).all() if one.is_visible()], shown
    dashboard_stores.more(editable.store)
    wall.until("live, generation 2").settle()
    assert counted(wall) != before
    harmless(wall)
    still = View(editable, context).go(pinned)
    then = read_moment(parse_qs(urlsplit(pinned).query)["as-of"][0], SECOND)
    answer = Store(editable.store).ask("calls", Question("count", "none", as_of=then)).estimate
    assert counted(still) == wording.estimated(answer.value, answer.lower, answer.upper, "events")
    harmless(still)
    context.close()


def harmless(view: View) -> None:
    """What the file of a board says is only text. The page is not needed any more."""
    view.check()
    assert view.page.locator("[data-testid=stApp] img[src=x], [src*='example.invalid'], .katex").count() == 0
    view.close()


def counted(view: View) -> str:
    """The number of the panel that counts calls."""
    return str(view.settle().page.locator("h2").first.inner_text())


def test_a_file_needs_no_network(editable: Server, folder: Path, browser: Browser, tmp_path: Path) -> None:
    """Every figure is drawn, every word is there, nothing is asked for, and no text of the board is executed."""
    out = tmp_path / "ops.html"
    command = ["board", "export", "ops", "--store", str(editable.store), "--boards", str(folder), "--out", str(out)]
    assert wane.main(command) == 0
    context = browser.new_context(offline=True, **WINDOW)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: said.append(one.text))
    page.on("pageerror", lambda one: said.append(str(one)))
    page.goto(out.as_uri())
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()
    drawn = page.eval_on_selector_all("[id^=figure-]", "all => all.map(one => one.querySelectorAll('.trace').length)")
    assert drawn
    assert all(drawn)
    assert asked == [out.as_uri()]
    assert said == []
    assert page.evaluate("window.__hacked") is None
    assert page.locator("img").count() == 0
    text = page.locator("body").inner_text()
    assert "with 90% confidence between" in text
    assert SCRIPT in text
    injected = page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1';"
        "document.body.append(one); return window.ran === undefined }"
    )
    assert injected  # the policy of the file holds
    context.close()
