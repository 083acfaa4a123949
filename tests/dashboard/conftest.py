"""One store that was ingested, one server on it, one browser: made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo import calls
from ingest.driver.configuration.settings import Settings, read_settings
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.summary import Summary
from tests.support.browser import FLAGS, WINDOW, Server, View, chromium, serving
from tests.support.paths import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

END = 1_767_225_600
WITHOUT_JAVA = RunOptions(engine="local")  # leaves the store that Spark would, and starts at once
SETTINGS = """\
store = "wane.duckdb"

[streams.calls]
input       = "calls/*.parquet"
source      = "region"
id          = "call_id"
time        = "started_at"
value       = "duration_s"
weight      = "loss"
epoch       = "6h"
epsilon     = 0.2
value_unit  = "s"
weight_unit = "lost packets per 10,000"

[streams.calls.fields]
device     = "device"
codec      = "codec"
error_code = "error_code"

[streams.visits]
input   = "visits/*.parquet"
source  = "site"
id      = "id"
time    = "at"
value   = "page"
epoch   = "6h"
epsilon = 0.5
"""


@dataclass(frozen=True)
class Ingested:
    """Raw files with the store that ingest made of them; the last of the files has yet to arrive."""

    settings: Settings
    late: tuple[Path, pa.Table]

    def arrive(self) -> Summary:
        """The last file is there, and the next run takes it."""
        pq.write_table(self.late[1], self.late[0])
        return run(self.settings, WITHOUT_JAVA, Progress(quiet=True))


def visits(number: int, seed: int = 5) -> pa.Table:
    """Visits of pages: a few pages have most of them, and others in the first half than in the second."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(END - 3 * 86_400, END, number))
    rank = rng.zipf(1.6, number) % 40
    page = np.where(at < END - 86_400, rank, (rank + 3) % 40)
    return pa.table(
        {
            "site": [("shop", "blog")[one] for one in rng.integers(0, 2, number).tolist()],
            "id": np.arange(number),
            "at": at,
            "page": [f"/page/{one}" for one in page.tolist()],
        }
    )


def generated(folder: Path) -> Ingested:
    """Three days of calls in four files, of which the last is held back, and of visits in one."""
    for name in ("calls", "visits"):
        (folder / name).mkdir(parents=True)
    *first, last = calls.files(calls.generate(30_000, seed=7, end=END), 4)
    for name, table in first:
        pq.write_table(table, folder / "calls" / name)
    pq.write_table(visits(12_000), folder / "visits" / "visits.parquet")
    (folder / "wane.toml").write_text(SETTINGS)
    return Ingested(read_settings(folder / "wane.toml"), (folder / "calls" / last[0], last[1]))


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    found = generated(tmp_path_factory.mktemp("dashboard") / "wane")
    assert run(found.settings, WITHOUT_JAVA, Progress(quiet=True)).exit_code == 0
    return found


@pytest.fixture(scope="session")
def server(ingested: Ingested, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(ingested.settings.store, tmp_path_factory.mktemp("server") / "log", "--api") as found:
        yield found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    path = chromium()
    if path is None:
        missing("Chromium is missing: the dashboard's tests need chromium, chromium-browser or google-chrome.")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> BrowserContext:
    """The browser's session for most tests. It keeps nothing from page to page but the files of Streamlit's client."""
    return browser.new_context(**WINDOW)


@pytest.fixture
def opened(context: BrowserContext) -> Iterator[Callable[..., View]]:
    """`opened(server)` opens a new page on it; when the test ends, no page may have had a fault."""
    views: list[View] = []

    def new(server: Server, within: BrowserContext | None = None) -> View:
        views.append(View(server, within or context))
        return views[-1]

    yield new
    try:
        for view in views:
            view.check()
    finally:
        for view in views:
            view.close()


@pytest.fixture
def view(opened: Callable[..., View], server: Server) -> View:
    """A new page on the ingested store."""
    return opened(server)
