"""A dashboard in a process of its own, and headless Chromium that reads what it shows and notices what goes wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode, urlsplit

from dashboard import wording
from wane import main

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PAGES = {
    "Explore": "",
    "Leaderboard": "leaderboard",
    "Distribution": "distribution",
    "Top values": "top-values",
    "Panels": "panels",
    "Changes": "changes",
    "Compare": "compare",
    "Boards": "board",
    "Health": "health",
    "Audit": "audit",
}
WINDOW: dict[str, Any] = {"viewport": {"width": 1440, "height": 1000}, "timezone_id": "UTC"}
IN_COLOUR = """scheme => {
    const told = getComputedStyle(document.querySelector('.stApp')).backgroundColor.match(/\\d+/g).map(Number);
    return (told[0] < 128) === (scheme === 'dark');
}"""
AT_ONCE = "*, *::before, *::after { transition: none !important }"  # no colour on its way to another
PATIENCE = 60_000  # ms until a slow page has failed


def chromium() -> str | None:
    """The browser's path, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A running `wane dashboard`."""

    store: Path
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    scheme: str = "http"

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def url(self, page: str = "", **parameters: Any) -> str:
        query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
        return f"{self.address}/{page}{query}"

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)


def start(store: Path, log: Path, *more: str, port: int | None = None) -> Server:
    """Start a server; `ready` waits for it, so that several can start at once."""
    number = port or free_port()
    program = str(Path(sys.executable).with_name("wane"))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, "dashboard", "--store", str(store), "--port", str(number), *more],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"COVERAGE_PROCESS_START": ""},
        )
    return Server(store, number, process, log, "https" if "--tls-cert" in more else "http")


def unchecked(url: str) -> Any:
    """Open an address, whoever signed its certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return urllib.request.urlopen(url, timeout=5, context=context)


def ready(server: Server) -> Server:
    """Wait until the server answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.process.poll() is None, f"the dashboard ended: {server.log.read_text()}"
        with contextlib.suppress(OSError), unchecked(f"{server.address}/_stcore/health"):
            return server
        time.sleep(0.05)
    raise AssertionError(f"the dashboard does not answer: {server.log.read_text()}")


@contextmanager
def serving(store: Path, log: Path, *more: str) -> Iterator[Server]:
    """A server for as long as it is needed; `more` are options of `wane dashboard`."""
    server = start(store, log, *more)
    try:
        yield ready(server)
    finally:
        code = server.stop()
    assert code in (0, 143, -signal.SIGTERM), f"it ended with {code}: {log.read_text()}"
    assert "Traceback" not in log.read_text()


@dataclass
class Faults:
    """What a page must not do."""

    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def watch(self, page: Page, server: Server) -> None:
        first = urlsplit(server.address).netloc
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.console.append(_said(said)) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: self.outside.append(asked.url) if _outside(asked.url, first) else None)

    def none(self) -> bool:
        return not (self.console or self.errors or self.outside or self.dialogs)


def _said(said: Any) -> str:
    return f"{said.text} ({said.location.get('url', '')})"


def _outside(url: str, first: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob") and parts.netloc != first


class View:
    """One page of the dashboard in a browser, read as a person reads it."""

    def __init__(self, server: Server, context: BrowserContext) -> None:
        self.server = server
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.sent: list[float] = []  # when the page asked the server to run its script
        self.page.on("websocket", lambda socket: socket.on("framesent", lambda _: self.sent.append(time.monotonic())))
        self.faults = Faults()
        self.faults.watch(self.page, server)

    def open(self, path: str = "", **parameters: Any) -> View:
        return self.go(self.server.url(path, **parameters))

    def go(self, url: str) -> View:
        self.page.goto(url, wait_until="domcontentloaded")
        return self.settle()

    def settle(self) -> View:
        """Wait until the script has run and what it replaces is gone."""
        self.page.wait_for_function(
            """() => {
                const app = document.querySelector('[data-testid=stApp]');
                return app && app.dataset.testScriptState === 'notRunning'
                    && app.dataset.testConnectionState === 'CONNECTED'
                    && /generation \\d|waiting for a store/.test(document.body.innerText)  // what is drawn last
                    && !document.querySelector('[data-stale=true]');
            }"""
        )
        return self

    def to(self, name: str) -> View:
        """Choose a page in the navigation at the top, or in its menu of those for which there is no room."""
        link = self.page.locator("[data-testid=stTopNavLink]:not([inert] *)").filter(has_text=name)
        more = self.page.get_by_text(re.compile(r"^\d+ more$")).first
        link.or_(more).first.wait_for()
        if not link.count():
            more.click()
            link = self.page.get_by_test_id("stTopNavDropdownLink").filter(has_text=name)
        link.first.click()
        self.page.wait_for_url(re.compile(rf"/{PAGES[name]}(\?|$)"))
        return self.settle()

    def until(self, text: str | re.Pattern[str]) -> View:
        """Wait until a text is shown."""
        self.page.get_by_text(text).first.wait_for()
        return self

    def switch(self, label: str, shown: str) -> View:
        """Press a switch, and wait until a text is shown."""
        self.page.get_by_text(label).click()
        return self.until(shown)

    def click_bar(self, name: str, shown: Locator) -> View:
        """Click the first bar of a figure, and wait until something is shown."""
        self.page.locator(f".st-key-figure-{name} .bars .point path").first.click(force=True)
        shown.wait_for()
        return self.settle()

    @property
    def text(self) -> str:
        return str(self.page.locator("body").inner_text())

    @property
    def number(self) -> str:
        """The big number."""
        return str(self.page.get_by_test_id("stMetricValue").first.inner_text()).strip()

    @property
    def interval(self) -> str:
        """The text between the number and its sentence: exact, or the interval."""
        return str(self.page.get_by_test_id("stMetric").first.locator("xpath=../following-sibling::*[1]").inner_text())

    def figure(self, name: str = "explore") -> dict[str, Any]:
        """Data and layout of a figure as the browser has drawn it."""
        box = self.page.locator(f".st-key-figure-{name} .js-plotly-plot")
        box.wait_for()
        drawn = "place => document.querySelector(place)?._fullData && document.querySelector(place)?._fullLayout"
        self.page.wait_for_function(drawn, arg=f".st-key-figure-{name} .js-plotly-plot")
        found: dict[str, Any] = box.evaluate(
            """box => JSON.parse(JSON.stringify({
                data: box._fullData.map(trace => ({
                    name: trace.name, mode: trace.mode, type: trace.type, dash: (trace.line || {}).dash,
                    x: Array.from(trace.x || []), y: Array.from(trace.y || []),
                    whiskers: trace.error_x && Array.from(trace.error_x.array || []),
                })),
                x: (box.layout.xaxis.title || {}).text, y: (box.layout.yaxis.title || {}).text,
                ticks: box.layout.xaxis.ticktext, labels: box.layout.yaxis.ticktext,
                annotations: (box.layout.annotations || []).map(one => one.text),
                shapes: (box.layout.shapes || []).length,
            }))"""
        )
        return found

    def drawn(self, name: str = "explore") -> list[list[Any]]:
        """The heights of all lines of a figure."""
        return [trace["y"] for trace in self.figure(name)["data"]]

    def change(self, act: Callable[[], object]) -> View:
        """Do something, and wait until number and figure have changed."""
        number, figure = self.number, self.drawn()
        act()
        deadline = time.monotonic() + PATIENCE / 1000
        while time.monotonic() < deadline:
            self.settle()
            with contextlib.suppress(Exception):  # the page may be redrawn while it is read
                if self.number != number and self.drawn() != figure:
                    return self
            self.page.wait_for_timeout(20)
        raise AssertionError(f"number or figure stay as they were: {number} and {self.number}")

    def box(self, label: str) -> Locator:
        return self.page.get_by_label(label, exact=True).first

    def type(self, label: str, text: str) -> None:
        """Write into a box of text, and leave it with Enter."""
        self.box(label).fill(text)
        self.box(label).press("Enter")

    def pick(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.page.get_by_role("combobox", name=label, exact=True).first.click()
        self.page.get_by_role("option", name=option, exact=True).click()
        if self.page.get_by_role("listbox").count():  # where several can be chosen the list stays
            self.page.keyboard.press("Escape")

    def slide(self, label: str, key: str, times: int = 1) -> None:
        slider = self.page.get_by_role("slider", name=label).first
        slider.focus()
        for _ in range(times):
            slider.press(key)

    @property
    def command(self) -> list[str]:
        """The command that the page says gives the same."""
        shown = self.page.get_by_test_id("stExpander").filter(has_text="The same on the command line")
        code = shown.locator("code")
        if not code.count() or not code.first.is_visible():
            shown.locator("summary").click()
        code.first.wait_for()
        self.settle()  # it is drawn once it is opened
        return shlex.split(code.first.inner_text())

    def check(self) -> None:
        """Nothing went wrong in page, console or network, and nobody saw a stack trace."""
        assert self.faults.none(), self.faults
        for sign in ("Traceback", 'File "', "Something went wrong", "StreamlitAPIException", "KeyError"):
            assert sign not in self.text, self.text
        assert self.page.get_by_test_id("stException").count() == 0
        assert self.page.evaluate("window.__hacked") is None

    def usable(self, schemes: tuple[Literal["light", "dark"], ...] = ("light",)) -> None:
        """Nobody is shut out of the page by what axe-core finds: contrast, names, roles, order."""
        import axe_playwright_python

        self.page.evaluate(Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text() + ";0")
        self.page.add_style_tag(content=AT_ONCE)
        for scheme in schemes:
            self.page.emulate_media(color_scheme=scheme)
            self.page.wait_for_function(IN_COLOUR, arg=scheme)
            found = self.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
            told = [(one["id"], node["html"][:200], node["failureSummary"]) for one in found for node in one["nodes"]]
            assert told == [], f"{self.page.url}, {scheme}: {told}"

    def close(self) -> None:
        self.page.close()


def wane(arguments: list[str]) -> dict[str, Any]:
    """What the command line answers. It runs in this process, because another one takes seconds to start."""
    assert arguments[0] == "wane"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*arguments[1:], "--json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def agrees(view: View, measure: str = "weight") -> dict[str, Any]:
    """The number and interval shown are those of the command shown, digit by digit."""
    answer = wane(view.command)
    limits = (float("nan") if answer[end] is None else answer[end] for end in ("lower", "upper"))
    assert view.number == wording.estimated(answer["estimate"], *limits, measure)
    if answer["lower"] == answer["upper"]:
        assert view.interval.strip().startswith("exact")  # for the rows taken, where some were rejected
    else:
        between = " … ".join(wording.limits(answer["lower"], answer["upper"], measure))
        assert view.interval.startswith(between), (view.interval, between)
    return answer
