"""Pictures of every page, light and dark, on a desk and on a phone, into docs/img.

    python -m benchmarks.screenshots [--store FILE] [--only PAGE]

Without a store it makes the demo's (Spark, half a minute). Look at each picture before it is committed.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page

from benchmarks.browsing import PATIENCE, browser, served, settled

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "img"
SIZES = {"desk": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
CALLS = {"stream": "calls"}
INCIDENT = {"mark-start": "2026-01-31T08:30:00Z", "mark-end": "2026-01-31T10:30:00Z"}
BOARD = """title = "Call quality"
columns = 2
[[panel]]
title = "Average loss, recent calls count more"
shows = "line"
width = 2
view = { stream = "calls", aggregate = "mean", decay = "exp:half_life=30m" }
[[panel]]
title = "Loss by region, the last day"
shows = "groups"
view = { stream = "calls", aggregate = "mean", by = "source", decay = "window:1d" }
[[panel]]
title = "Calls a second"
shows = "number"
view = { stream = "calls", aggregate = "rate", of = "events", decay = "window:1h" }
"""
PAGES = {
    "explore": ("", {**CALLS, "aggregate": "correlated-mean", "tau": "300", "decay": "exp:half_life=1h"}),
    "leaderboard": (
        "leaderboard",
        {**CALLS, "aggregate": "mean", "by": "device", "decay": "window:1h", "against": "window:1d"},
    ),
    "panels": (
        "panels",
        {**CALLS, "aggregate": "mean", "by": "source", "decay": "exp:half_life=1h", "layout": "heatmap"},
    ),
    "changes": ("changes", {**CALLS, "aggregate": "mean", "decay": "exp:half_life=10m", **INCIDENT}),
    "board": ("board", {"board": "calls", "kiosk": "on"}),
    "distribution": ("distribution", {**CALLS, "decay": "exp:half_life=6h", "tau": "600", "source": "south"}),
    "top-values": ("top-values", {"stream": "visits", "decay": "exp:half_life=2h"}),
    "compare": ("compare", {**CALLS, "aggregate": "mean", "decay": "exp:half_life=15m", "compare": "sources"}),
    "health": ("health", CALLS),
    "audit": ("audit", {**CALLS, "aggregate": "sum", "decay": "exp:half_life=1h", "source": "west"}),
}


def look(page: Page, address: str, name: str) -> None:
    path, choices = PAGES[name]
    page.goto(f"{address}/{path}?{urlencode(choices)}")
    if name == "audit":
        page.get_by_role("button", name="Check against the raw files").click(timeout=PATIENCE)
        page.get_by_text("Exact answers inside the band").wait_for(timeout=PATIENCE)
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=PATIENCE)
    settled(page)
    page.wait_for_timeout(1500)  # fonts and the chart's last frame


def shoot(opened: Browser, address: str, names: list[str]) -> None:
    for scheme in SCHEMES:
        for size, (width, height) in SIZES.items():
            context = opened.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            for name in names:
                look(page, address, name)
                picture = Image.open(io.BytesIO(page.screenshot()))
                file = FOLDER / f"{name}-{scheme}-{size}.png"
                picture.convert("RGB").quantize(192).save(file, optimize=True)
                print(file.relative_to(FOLDER.parent.parent), file.stat().st_size)
            context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--only", choices=PAGES, action="append", help="this page; may be given several times")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = options.store
        if store is None:
            demo = ["demo", "--no-dashboard", "--folder", f"{folder}/demo", "--end", "2026-01-31T12:00"]
            subprocess.run([sys.executable, "-m", "wane", *demo], check=True)
            store = Path(folder) / "demo" / "wane.duckdb"
        (Path(folder) / "calls.toml").write_text(BOARD)
        boards = "--boards", folder
        with served(store, Path(folder) / "log", *boards) as (address, _), browser() as opened:
            shoot(opened, address, options.only or list(PAGES))


if __name__ == "__main__":
    main()
