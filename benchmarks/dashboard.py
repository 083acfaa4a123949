"""How fast the dashboard follows the hand, and ten people at once.

    python -m benchmarks.dashboard [--events 34000000] [--store FILE] [--opened 5] [--changes 50] [--sessions 10]
                                   [--seconds 60]

On the store of `benchmarks.query` (34 million events, epochs of 1 d) a headless Chromium that has seen nothing before
opens the page Explore of a server that nobody has opened yet, some times over. Then it changes one control of the
page Explore after the other; each time it takes the milliseconds from the change to the redrawn chart, and the log of
the server tells what of them it computed. Then ten sessions change controls as fast as they are answered, for a minute.
Writes a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from playwright.async_api import Page as AsyncPage
from playwright.async_api import TimeoutError as NotThereError
from playwright.async_api import async_playwright
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as NotRedrawnError

from benchmarks.browsing import FLAGS, PATIENCE, browser, served
from benchmarks.query import build
from benchmarks.report import publish, table

SOURCES = 20  # of the store that is built
CHART = ".js-plotly-plot"
SHOWN_ERROR = "[data-testid=stException], [data-testid=stAlertContentError]"
START = "stream=calls&aggregate=correlated-sum&tau=1000&decay=exp:half_life=6h&span=2w"
CROWD = "stream=calls&aggregate=sum&decay=exp:half_life=6h"
DRAWN = re.compile(r"drawn in ([\d.]+) ms, of it ([\d.]+) ms for answers")
_TRIES = 5
PRESETS = 0.3  # the share of changes by people that are to another decay, not a step of a slider
WARMED = 5.0  # seconds that a server has for itself before its page is opened
DRAWN_FIRST = """
    () => {
        const chart = document.querySelector('.st-key-figure-explore .js-plotly-plot');
        return chart?.data && chart.querySelector('.main-svg .trace') && (window.first ??= performance.now());
    }"""
WATCH = """
    () => {
        if (window.last) return;
        const look = () => {
            const chart = document.querySelector('.js-plotly-plot');
            if (chart && chart.data && chart.data !== window.last && chart.querySelector('.main-svg .trace')) {
                window.last = chart.data;
                window.drawn = performance.now();
            }
            requestAnimationFrame(look);
        };
        look();
        for (const name of ['keydown', 'click'])
            document.addEventListener(name, () => { window.acted = performance.now(); }, true);
    }"""


@dataclass(frozen=True)
class Change:
    """One change of one control."""

    control: str
    act: Callable[[Page, int], None]


def slide(name: str) -> Callable[[Page, int], None]:
    def act(page: Page, turn: int) -> None:
        page.get_by_role("slider", name=name).focus()
        page.keyboard.press("ArrowRight" if turn % 6 < 3 else "ArrowLeft")

    return act


def select(name: str, options: tuple[str, ...]) -> Callable[[Page, int], None]:
    def act(page: Page, turn: int) -> None:
        wanted = page.get_by_role("option", name=options[turn % len(options)], exact=True)
        for _ in range(_TRIES):  # a list that opens while the page is still being drawn closes again
            page.get_by_role("combobox", name=name).first.click()
            try:
                wanted.click(timeout=2000)
                return
            except NotRedrawnError:
                page.keyboard.press("Escape")

    return act


CHANGES = (
    Change("half-life, one step", slide("Half-life")),
    Change("τ, one step", slide("τ among the stored values")),
    Change("window", select("Window", ("the last 1 d", "the last 3 d", "no limit"))),
    Change("half-life, one step", slide("Half-life")),
    Change(
        "aggregate",
        select("Aggregate", tuple(f"{name} where value ≥ τ" for name in ("Number of events", "Mean", "Share", "Sum"))),
    ),
)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def quiet(page: Page) -> None:
    """Wait until the chart has not been drawn for a moment: what comes next belongs to the next change."""
    page.wait_for_function("() => performance.now() - window.drawn > 350", timeout=PATIENCE)


def open_first(store: Path, log: Path, times: int) -> list[tuple[float, float]]:
    """Seconds from opening the page to its chart, and the server's megabytes then; each time a server of its own."""
    found = []
    with browser() as opened:
        for _ in range(times):
            with served(store, log, "--verbose") as (address, process):
                time.sleep(WARMED)
                page = opened.new_context(viewport={"width": 1440, "height": 900}).new_page()
                page.goto(f"{address}/?{CROWD}", wait_until="commit")
                page.wait_for_function(DRAWN_FIRST, timeout=PATIENCE, polling="raf")
                found.append((page.evaluate("() => window.first") / 1e3, resident(process.pid)))
                page.context.close()
                say("opened: chart after {:.2f} s, server {:.0f} MB".format(*found[-1]))
    return found


def measure(address: str, log: Path, changes: int) -> list[tuple[str, float, float, float]]:
    """Control, milliseconds until the chart was redrawn, of the whole rerun on the server, of its answers."""
    found = []
    with browser() as opened:
        page = opened.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/?{START}")
        page.locator(f"{CHART} .main-svg").first.wait_for(timeout=PATIENCE)
        page.wait_for_timeout(3000)
        for number in range(-len(CHANGES), changes):  # the first round prepares columns of each aggregate
            change = CHANGES[number % len(CHANGES)]
            page.evaluate(WATCH)
            quiet(page)
            before = len(DRAWN.findall(log.read_text()))
            page.evaluate("() => { window.acted = Infinity; }")
            change.act(page, number // len(CHANGES) + 1)
            try:
                page.wait_for_function("() => window.drawn > window.acted", timeout=PATIENCE)
            except NotRedrawnError:
                say(f"{change.control}: not redrawn")
                continue
            quiet(page)
            waited = page.evaluate("() => window.drawn - window.acted")
            told = DRAWN.findall(log.read_text())[before:]
            if number >= 0 and told:
                whole, answers = map(float, told[0])
                found.append((change.control, waited, whole, answers))
    return found


async def person(page: AsyncPage, seed: int, until: float, counts: Counter[str]) -> None:
    """Someone who changes whatever control is at hand, waits for the chart, and goes on."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        begun = time.monotonic()
        slider = page.get_by_role("slider", name="Half-life")
        if rng.random() < PRESETS or not await slider.count():
            presets = ["Last day", "Last week", "Slow polynomial", "Half-life 1 d"]
            await page.get_by_text(rng.choice(presets), exact=True).click()
        else:
            try:
                await slider.focus(timeout=2000)
            except NotThereError:  # the change before has taken it away: another decay has other controls
                continue
            await page.keyboard.press(rng.choice(["ArrowLeft", "ArrowRight"]))
        await page.wait_for_timeout(100)
        await page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=PATIENCE)
        counts["changes"] += 1
        counts["milliseconds"] += int((time.monotonic() - begun) * 1e3)
        counts["errors shown"] += await page.locator(SHOWN_ERROR).count()


async def crowd(address: str, process: int, sessions: int, seconds: float) -> tuple[Counter[str], list[float]]:
    """All of them at once, and the server's memory meanwhile."""
    counts: Counter[str] = Counter()
    memory: list[float] = []
    chromium = shutil.which("chromium")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        pages = [await (await opened.new_context()).new_page() for _ in range(sessions)]
        for page in pages:  # one after the other: ten tabs that start at once are a benchmark of the browser
            page.on("pageerror", lambda _: counts.update(["page errors"]))
            page.on("console", lambda message: counts.update(["console errors"] if message.type == "error" else []))
            await page.goto(f"{address}/?{CROWD}")
            await page.locator(f"{CHART} .main-svg").first.wait_for(timeout=PATIENCE)
        say("all sessions are open")
        until = time.monotonic() + seconds

        async def watch() -> None:
            while time.monotonic() < until:
                memory.append(resident(process))
                await asyncio.sleep(1)

        people = [person(page, seed, until, counts) for seed, page in enumerate(pages)]
        await asyncio.gather(watch(), *people)
        memory.append(resident(process))
        await opened.close()
    return counts, memory


def resident(process: int) -> float:
    """Megabytes a process holds in memory."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def report(
    first: list[tuple[float, float]],
    found: list[tuple[str, float, float, float]],
    counts: Counter[str],
    memory: list[float],
    what: str,
) -> str:
    def row(name: str, numbers: np.ndarray) -> list[object]:
        cells: list[object] = [name, len(numbers)]
        for column in numbers.T:
            cells += [f"{np.median(column):.0f}", f"{np.quantile(column, 0.95):.0f}"]
        return cells

    numbers = np.array([line[1:] for line in found])
    names = [line[0] for line in found]
    rows = [row(f"all {len(found)}", numbers)]
    rows += [
        row(name, numbers[[each == name for each in names]]) for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    head = ("change", "times", "redrawn ms, median", "95%", "server ms, median", "95%", "answers ms, median", "95%")
    each = counts["milliseconds"] / max(1, counts["changes"]) / 1e3
    seconds, megabytes = np.array(first).T
    return (
        f"{what}\n\nFrom opening the page to its chart, {len(first)} times, in a browser without a cache and of a "
        f"server that nobody had opened: median {np.median(seconds):.2f} s, least {seconds.min():.2f} s, most "
        f"{seconds.max():.2f} s (asked: 1.5); the server then holds {megabytes.max():.0f} MB (asked: 400).\n\n"
        "*Redrawn* is from the key press or click to the redrawn chart in headless Chromium on the same "
        "machine; *server* is the whole rerun of the page's script, *answers* what of it the sketches took (asked: at "
        "most 100 at the median).\n\n"
        + table(head, rows)
        + f"\n\nThen {counts['sessions']} sessions at once in one browser on the same cores, each changing controls as "
        f"fast as it was answered for {counts['seconds']} s: {counts['changes']} changes, {each:.1f} s each on "
        f"average, {counts['errors shown']} errors shown, {counts['page errors']} page errors, "
        f"{counts['console errors']} console errors; the server's memory went from {memory[0]:.0f} MB to "
        f"{memory[-1]:.0f} MB, at most {max(memory):.0f} MB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=34_000_000)
    parser.add_argument("--store", type=Path, help="a store made before, instead of building one")
    parser.add_argument("--opened", type=int, default=5)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store
        if store is None:
            say(f"building a store of {options.events:,} events")
            store = build(Path(folder), options.events, sources=SOURCES).store
        log = Path(folder) / "log"
        say("opening the first page")
        first = open_first(store, log, options.opened)
        with served(store, log, "--verbose") as (address, process):
            say("changing controls")
            found = measure(address, log, options.changes)
            for line in found:
                say("{}: {:.0f} ms to the chart, {:.0f} ms on the server, {:.0f} ms for answers".format(*line))
            say(f"{options.sessions} sessions")
            counts, memory = asyncio.run(crowd(address, process.pid, options.sessions, options.seconds))
            counts.update(sessions=options.sessions, seconds=options.seconds)
            failures = log.read_text().count("Traceback")
    if failures:
        raise SystemExit(f"the server's log has {failures} traces")
    what = (
        f"A store of {options.events / 1e6:g} million events over 30 days"
        f"{'' if options.store else f' and {SOURCES} sources'}, epochs of 1 d "
        "(`benchmarks.query`'s), page Explore."
    )
    command = f"python -m benchmarks.dashboard --events {options.events} --opened {options.opened}"
    publish("benchmarks.md", "The dashboard", command, report(first, found, counts, memory, what))


if __name__ == "__main__":
    main()
