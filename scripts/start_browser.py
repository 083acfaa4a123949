"""Starts the browser of the dashboard's tests once, and says in a sentence what is missing if it does not start.

Exit code 3 means that there is no browser at all: then the tests that need one are skipped, or fail where CI is set.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from playwright.sync_api import Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


def chromium() -> str | None:
    """The browser's path, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def main() -> int:
    # Asked first and alone: else Playwright says no more than that the connection to its driver was closed.
    version = [sys.executable, "-m", "playwright", "--version"]
    driver = subprocess.run(version, capture_output=True, text=True, check=False)
    if driver.returncode:
        reason = cause(driver.stdout + driver.stderr)
        return say(f"Playwright's driver does not start (Debian: apt-get install libatomic1): {reason}")
    path = chromium()
    if path is None:
        say(f"No browser was found ({', '.join(NAMES)}): the dashboard's tests are skipped, or fail where CI is set.")
        return 3
    try:
        with sync_playwright() as playwright:
            playwright.chromium.launch(executable_path=path, args=list(FLAGS)).close()
    except Error as error:
        return say(f"The browser {path} does not start: {cause(error.message)}")
    return 0


def cause(said: str) -> str:
    """The line that tells most: the loader's, which names the library that is missing, or else the first."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error while loading shared libraries" in line), lines[0] if lines else "")


def say(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
