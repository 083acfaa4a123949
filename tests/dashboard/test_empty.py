"""Where there is nothing to show yet, the page says so, and shows the store as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.schema import create_store
from tests.support.browser import Server, View, serving


def test_a_page_waits_for_its_store(opened: Callable[..., View], server: Server, tmp_path: Path) -> None:
    """No file, a file that is no store, an empty store and a whole one follow each other on one open page."""
    path = tmp_path / "wane.duckdb"
    with serving(path, tmp_path / "log") as waiting:
        view = opened(waiting).open().until("There is no store yet")
        view.page.get_by_test_id("stCode").filter(has_text="wane ingest --config wane.toml").wait_for()
        view.check()

        replace(path, b"this is no database, " * 1000)
        view.until("This store cannot be read").settle().check()

        create_store(tmp_path / "empty.duckdb")
        (tmp_path / "empty.duckdb").replace(path)
        view.until("This store is empty").settle().check()
        view.to("Health").until("This store is empty").check()
        view.to("Explore")

        replace(path, server.store.read_bytes())
        view.page.get_by_test_id("stMetricValue").wait_for()
        assert len(view.settle().drawn()[-1]) > 1
        view.check()


def replace(path: Path, content: bytes) -> None:
    """A file takes the place of another at once."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)
