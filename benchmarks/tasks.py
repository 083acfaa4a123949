"""Eight tasks of somebody who watches a stream, done in a browser: how many clicks, and how many seconds.

    python -m benchmarks.tasks [--bike FILE] [--azure FILE] [--publish]

On a store of bikeshare14 (326,339 trips, 70 stations) and one of azure_vm_noise (7 million rows, 43,629 machines), a
headless Chromium does what the task asks as fast as the page allows: the seconds are those of the page, without a
person's. A click, a drag and a typed text count 1 each, a choice in a list 2. Every task ends once the page shows its
answer, which is looked at, or else it fails. Without stores it makes them (Spark, some minutes). `--publish` writes a
section of docs/dashboard.md.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, sync_playwright

from benchmarks.report import publish, table
from ingest.driver.configuration.settings import read_settings
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from tests.support.browser import FLAGS, WINDOW, Server, View, chromium, serving

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
SETTINGS: Final = {
    "bikeshare14": """
[streams.trips]
input = "{data}/bikeshare14.parquet"
source = "source"
id = "id"
time = "ts"
value = "value"
epoch = "1d"
value_name = "duration"
value_unit = "s"
[streams.trips.fields]
bike = "bike_id"
end_terminal = "end_terminal"
subscriber = "subscriber"

[streams.routes]
input = "{data}/bikeshare14.parquet"
source = "source"
id = "id"
time = "ts"
value = "key"
epoch = "1d"
""",
    "azure_vm_noise": """
[streams.vms]
input = "{data}/azure_vm_noise.parquet"
source = "source"
id = "id"
time = "ts"
value = "value"
weight = "weight"
epoch = "1d"
[streams.vms.fields]
test = "key"
""",
}
BOARD: Final = """title = "Watched"
columns = 2
[[panel]]
title = "Mean, the last week"
shows = "line"
[panel.view]
stream = "{stream}"
aggregate = "mean"
decay = "window:7d"
[[panel]]
title = "How many"
shows = "number"
[panel.view]
stream = "{stream}"
aggregate = "count"
decay = "none"
"""


@dataclass(frozen=True)
class Place:
    """A store, and what is asked of it."""

    name: str
    stream: str
    split: str  # the field to drill down by
    rare: tuple[str, str]  # the stream, and a value that few events have, or how it begins


PLACES: Final = {
    "bikeshare14": Place("bikeshare14", "trips", "subscriber", ("routes", "49-65")),
    "azure_vm_noise": Place("azure_vm_noise", "vms", "test", ("vms", "PostgreSQL")),
}


class Hand:
    """Somebody at the page, whose clicks are counted."""

    def __init__(self, server: Server, browser: Browser, place: Place) -> None:
        self.context = browser.new_context(**WINDOW)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.view = View(server, self.context)
        self.place = place
        self.clicks = 0

    def begin(self, stream: str = "") -> None:
        self.view.open(stream=stream or self.place.stream)
        self.view.page.locator(".js-plotly-plot .main-svg").first.wait_for()
        self.clicks = 0

    def click(self, what: Locator) -> None:
        what.first.click()
        self.clicks += 1
        self.view.page.wait_for_timeout(30)  # until the page has noticed
        self.view.settle()

    def button(self, name: str) -> None:
        self.click(self.view.page.get_by_role("button", name=name))

    def radio(self, name: str | re.Pattern[str]) -> None:
        self.click(self.view.page.get_by_role("radio", name=name))

    def go(self, page: str) -> None:
        shown = self.view.page.locator("[data-testid=stTopNavLink]:not([inert] *)").filter(has_text=page).count()
        self.view.to(page)
        self.clicks += 1 if shown else 2

    def pick(self, label: str, option: str) -> None:
        self.view.pick(label, option)
        self.clicks += 2
        self.view.page.wait_for_timeout(30)
        self.view.settle()

    def type(self, label: str, text: str) -> None:
        self.view.type(label, text)
        self.clicks += 1
        self.view.page.wait_for_timeout(30)
        self.view.settle()

    def drag(self, figure: str, first: float, last: float) -> None:
        """Over a part of a chart, from one share of its width to another."""
        area = self.view.page.locator(f".st-key-figure-{figure} .nsewdrag").first
        box = area.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        x = [box["x"] + share * box["width"] for share in (first, (first + last) / 2, last)]
        mouse = self.view.page.mouse
        mouse.move(x[0], y)
        mouse.down()
        mouse.move(x[1], y, steps=4)
        mouse.move(x[2], y, steps=4)
        mouse.up()
        self.clicks += 1

    def address(self, pattern: str) -> None:
        self.view.page.wait_for_url(re.compile(pattern))
        self.view.settle()

    def copied(self) -> str:
        return str(self.view.page.evaluate("navigator.clipboard.readText()"))


def worst_source(hand: Hand) -> str:
    hand.begin()
    yielded = time.perf_counter()
    hand.go("Leaderboard")
    hand.radio("Mean")
    hand.radio("last week against last 4 weeks")
    hand.address("against=")
    first = hand.view.figure("leaderboard")["labels"][0]
    return _timed(yielded, f"the largest mean: {first}")


def zoom_and_back(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    whole = hand.view.figure()["data"][-1]["x"]
    hand.drag("explore", 0.4, 0.7)
    hand.address("start=.*end=")
    hand.pick("Split by", hand.place.split)
    chip = hand.view.page.get_by_role("button", name=re.compile(rf"^\W*{hand.place.split} = "))
    hand.view.click_bar("groups", chip)
    hand.clicks += 1
    one = chip.inner_text()
    hand.click(chip)
    chip.wait_for(state="detached")
    hand.button("Back")
    hand.view.page.wait_for_function("() => !location.search.includes('start=')")
    hand.view.settle()
    assert hand.view.figure()["data"][-1]["x"][-1] == whole[-1]
    return _timed(begun, f"{one.splitlines()[-1]}, and all again")


def rare_value(hand: Hand) -> str:
    stream, value = hand.place.rare
    hand.begin(stream)
    begun = time.perf_counter()
    if stream == "routes":
        hand.pick("Aggregate", "Share of one value")
        hand.type("Value", value)
        hand.address("value=")
    else:
        hand.go("Leaderboard")
        hand.pick("Ranked", hand.place.split)
        hand.radio("Number")
        hand.click(hand.view.page.get_by_text("Smallest first", exact=True))
        hand.address("smallest=on")
        told = _timed(begun, "the rarest: ")
        return told + next(text for text in cells(hand) if text.startswith(value))
    return _timed(begun, f"{hand.view.number}, {hand.view.interval.splitlines()[0]}")


def cells(hand: Hand) -> list[str]:
    """What the first table of the page says."""
    shown = hand.view.page.locator("[data-testid=stDataFrame] canvas table").first
    shown.wait_for(state="attached")
    return [text.strip() for text in shown.locator("td").all_text_contents()]


def is_it_real(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    hand.go("Compare")
    hand.radio("Times")
    hand.address("compare=times")
    hand.view.figure("compare")
    said = cells(hand)
    told = _timed(begun, "")
    verdict = next(text for text in ("yes", "may be chance", "equal", "nothing to compare") if text in said)
    change = next((text for text in said if text.startswith(("+", "-")) and "%" in text), "")
    return f"{told}beyond chance: {verdict}; {change}"


def what_changed(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    hand.go("Changes")
    hand.button("Mark the highest point")
    hand.view.until(re.compile("changed|maybe chance|cannot tell")).settle()
    told = _timed(begun, "")
    return told + hand.view.page.get_by_text(re.compile("sources and values")).first.inner_text().split(". ")[0]


def pinned_link(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    hand.button("Share")
    hand.radio("pin this moment")
    hand.view.until("as-of=")
    hand.button("Copy link")
    hand.view.until("It is copied")
    told = _timed(begun, "copied, and it shows the same number")
    number = hand.view.number
    other = View(hand.view.server, hand.context).go(hand.copied())
    assert "as-of=" in other.page.url
    assert other.number == number
    return told


def wall_screen(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    hand.go("Boards")
    hand.button("Share")
    hand.click(hand.view.page.get_by_text("As a wall screen, without controls"))
    hand.view.until("kiosk")
    hand.button("Copy link")
    hand.view.until("It is copied")
    wall = View(hand.view.server, hand.context).go(hand.copied())
    wall.page.locator(".js-plotly-plot .main-svg").first.wait_for()
    assert not wall.page.get_by_test_id("stSidebar").is_visible()
    return _timed(begun, "two panels, no controls")


def silent_source(hand: Hand) -> str:
    hand.begin()
    begun = time.perf_counter()
    hand.go("Health")
    said = re.compile(r"silent for longer than usual|no source is silent")
    hand.view.until(said)
    return _timed(begun, hand.view.page.get_by_text(said).first.inner_text().split(":")[0])


def _timed(begun: float, told: str) -> str:
    return f"{time.perf_counter() - begun:.1f}|{told}"


TASKS: Final[dict[str, Callable[[Hand], str]]] = {
    "the worst source of this week against the last four": worst_source,
    "zoom, drill down into one group, go back": zoom_and_back,
    "a rare value's share": rare_value,
    "is this change real?": is_it_real,
    "what changed at the highest point?": what_changed,
    "share a pinned view": pinned_link,
    "a board on a wall screen": wall_screen,
    "find the silent source": silent_source,
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def made(folder: Path, name: str) -> Path:
    """The store of a data set, which Spark makes."""
    (folder / f"{name}.toml").write_text(f'store = "{folder}/{name}.duckdb"\n' + SETTINGS[name].format(data=DATA))
    settings = read_settings(folder / f"{name}.toml")
    assert run(settings, RunOptions(), Progress(quiet=True)).exit_code == 0
    return settings.store


def done(store: Path, place: Place, browser: Browser, folder: Path) -> dict[str, tuple[int, float, str]]:
    """Clicks, seconds and what was found, for each task."""
    boards = folder / f"boards of {place.name}"
    boards.mkdir()
    (boards / "watched.toml").write_text(BOARD.format(stream=place.stream))
    found = {}
    with serving(store, folder / f"{place.name}.log", "--boards", str(boards)) as server:
        for name, task in TASKS.items():
            hand = Hand(server, browser, place)
            seconds, told = task(hand).split("|", 1)
            hand.view.check()
            hand.context.close()
            found[name] = hand.clicks, float(seconds), told
            say(f"{place.name}: {name}: {hand.clicks} clicks, {seconds} s: {told}")
    return found


def report(found: dict[str, dict[str, tuple[int, float, str]]]) -> str:
    rows: list[list[Any]] = []
    for name in TASKS:
        row: list[Any] = [name]
        for place in found.values():
            clicks, seconds, told = place[name]
            row += [clicks, f"{seconds:.1f}", told.replace("\N{WORD JOINER}", "")]
        rows.append(row)
    head = ["task", *(cell for place in found for cell in (f"{place}: clicks", "seconds", "found"))]
    told = (
        "Done by a script in headless Chromium, from Explore as it opens, on the same machine as the server. Seconds "
        "are the page's own, with no time to think. A click, a drag and a typed text count 1, a choice in a list 2. "
        f"The machine's load was {os.getloadavg()[0]:.0f} at the end; more than 2 is waiting."
    )
    return f"{textwrap.fill(told, 120)}\n\n{table(tuple(head), rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bike", type=Path, help="a store of bikeshare14 made before")
    parser.add_argument("--azure", type=Path, help="a store of azure_vm_noise made before")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary)
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        stores = {"bikeshare14": options.bike, "azure_vm_noise": options.azure}
        found = {
            name: done(given or made(folder, name), PLACES[name], browser, folder) for name, given in stores.items()
        }
        browser.close()
    if options.publish:
        publish("dashboard.md", "Eight tasks", "python -m benchmarks.tasks", report(found))


if __name__ == "__main__":
    main()
