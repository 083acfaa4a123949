"""How fast the pages about all sources follow the hand, with hundreds of sources and with tens of thousands.

    python -m benchmarks.many_sources [--few STORE] [--many STORE] [--changes 12] [--publish]

A headless Chromium opens Leaderboard and the heatmap of Panels, once on 3 million generated events of 229 sources and
once on azure_vm_noise (7 million rows, 43,629 sources), then moves the half-life by one step at a time: every ranking,
and every change against the other decay, is one that nobody has asked for before. Stores that are not given are made
(azure_vm_noise by Spark, a minute). `--publish` writes a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from playwright.sync_api import Browser, Page

from benchmarks.browsing import PATIENCE, browser, served, settled
from benchmarks.query import build, say
from benchmarks.report import publish, table
from benchmarks.tasks import made

DRAWN: Final = re.compile(r"drawn in ([\d.]+) ms, of it ([\d.]+) ms for answers")
PAGES: Final = {
    "leaderboard": ("leaderboard", "", "leaderboard"),
    "heatmap": ("panels", "&layout=heatmap", "heatmap"),
}
ACTED: Final = """place => {
    const chart = () => document.querySelector(`${place} .js-plotly-plot`);
    const before = chart().data;
    window.drawn = undefined;
    document.addEventListener('keydown', () => { window.acted = performance.now(); }, {capture: true, once: true});
    const look = () => {
        if (chart()?.data !== before && chart()?.querySelector('.main-svg .trace, .main-svg .hm')) {
            window.drawn = performance.now();
        } else requestAnimationFrame(look);
    };
    look();
}"""


def measure(
    opened: Browser, address: str, server: int, log: Path, stream: str, changes: int
) -> dict[str, list[list[float]]]:
    """For each page: milliseconds until the chart was redrawn, of the whole rerun on the server, of its answers, and of
    the server's processor."""
    found: dict[str, list[list[float]]] = {}
    for name, (path, more, figure) in PAGES.items():
        page = opened.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(f"{address}/{path}?stream={stream}&by=source&aggregate=mean&decay=exp:half_life=12h{more}")
        place = f".st-key-figure-{figure}"
        page.locator(f"{place} .main-svg").first.wait_for(timeout=PATIENCE)
        found[name] = [step(page, place, server, log, turn) for turn in range(-1, changes)][1:]
        page.close()
    return found


def step(page: Page, place: str, server: int, log: Path, turn: int) -> list[float]:
    """Move the half-life, to and fro in the end, and wait for the chart."""
    settled(page)
    page.wait_for_timeout(400)
    before = len(DRAWN.findall(log.read_text()))
    page.get_by_role("slider", name="Half-life").first.focus()
    page.evaluate(ACTED, place)
    used = processor(server)
    page.keyboard.press("ArrowRight" if turn < 7 else "ArrowLeft")
    page.wait_for_function("() => window.drawn", timeout=PATIENCE, polling="raf")
    waited = float(page.evaluate("() => window.drawn - window.acted"))
    settled(page)
    page.wait_for_timeout(200)
    told = DRAWN.findall(log.read_text())[before:]
    return [waited, *(map(float, told[0]) if told else (np.nan, np.nan)), processor(server) - used]


def processor(server: int) -> float:
    """Milliseconds that a process has computed so far."""
    told = Path(f"/proc/{server}/stat").read_text().rsplit(")", 1)[1].split()
    return 1e3 * (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def rows_of(what: str, found: dict[str, list[list[float]]]) -> list[list[object]]:
    rows: list[list[object]] = []
    for name, measured in found.items():
        cells: list[object] = [f"{name}, {what}", len(measured)]
        for column in np.array(measured).T:
            cells += [f"{np.nanmedian(column):.0f}", f"{np.nanquantile(column, 0.95):.0f}"]
        rows.append(cells)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", type=Path, help="a store of 229 sources made before")
    parser.add_argument("--many", type=Path, help="a store of azure_vm_noise made before")
    parser.add_argument("--changes", type=int, default=12)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as temporary, browser() as opened:
        folder = Path(temporary)
        few = options.few or build(folder, 3_000_000).store
        many = options.many or made(folder, "azure_vm_noise")
        for what, stream, store in (("229 sources", "calls", few), ("43,629 sources", "vms", many)):
            log = folder / f"{stream}.log"
            with served(store, log, "--verbose") as (address, process):
                rows += rows_of(what, measure(opened, address, process.pid, log, stream, options.changes))
                for row in rows[-2:]:
                    say(str(row))
    kinds = ("redrawn", "server", "answers", "CPU")
    head = ("page", "changes", *(cell for kind in kinds for cell in (f"{kind} ms, median", "95%")))
    load = os.getloadavg()[0]
    text = (
        "From the key press that moves the half-life to the redrawn chart, in headless Chromium on the same machine "
        "(asked: 1,000 once loaded). *Server* is the whole rerun of the page's script, *answers* what of it the "
        "sketches took, *CPU* what the server computed, also where it had to wait for others. The machine's load was "
        f"{load:.0f} at the end; more than 2 is waiting.\n\n{table(head, rows)}"
    )
    if options.publish:
        publish("benchmarks.md", "Pages about all sources", "python -m benchmarks.many_sources", text)
    else:
        say(text)


if __name__ == "__main__":
    main()
