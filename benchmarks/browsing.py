"""A dashboard in a process of its own and a headless browser that looks at it: what the dashboard's benchmark and its
screenshots share, and the dashboard's tests as well."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser import FLAGS, PATIENCE, chromium, serving


@contextmanager
def served(store: Path, log: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`wane dashboard` on a free port; its address and its process."""
    with serving(store, log, *more) as server:
        yield server.address, server.process


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or another."""
    found = chromium()
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
