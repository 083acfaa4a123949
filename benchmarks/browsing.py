"""A dashboard in a process of its own and a headless browser that looks at it: what the dashboard's benchmark and its
screenshots share."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE = 60_000  # ms


@contextmanager
def served(store: Path, log: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`wane dashboard` on a free port; its address and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "wane", "dashboard", "--store", str(store), "--port", str(port), *more]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(200):
                try:
                    urlopen(f"{address}/_stcore/health", timeout=5).close()
                    break
                except URLError:
                    time.sleep(0.1)
            yield address, process
        finally:
            process.terminate()


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or another."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("Chromium is missing: install it (Debian: apt-get install chromium).")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


def settled(page: Page) -> None:
    """Wait until the page has its footer, or whatever else ends it, and nothing runs any more."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=PATIENCE)
