"""The web application: scripts from memory, named beforehand, and a first page that is prepared before anybody asks."""

from __future__ import annotations

import asyncio
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dashboard import shared
from dashboard.frontend import ADDRESS
from dashboard.frontend import SCRIPTS as SCRIPTS_OF_CHARTS
from dashboard.server import NEEDED, PRELOADED, SCRIPTS, KeptScripts
from dashboard.shared import shared_answers, warm_up
from store import Store
from tests.support.pages import fine, opened


def answered(app: Any, path: str, method: str = "GET") -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and content of what comes back for a path."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "method": method, "path": path, "headers": []}, receive, send))
    if not sent:
        return 0, {}, b""
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def behind(*_: Any) -> None:
    """What is asked where nothing is kept."""


def test_scripts_come_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read once, and the browser may keep it for ever: its name changes with its content."""
    app = KeptScripts(behind)
    script = next(SCRIPTS.glob("js/PlotlyChart.*.js"))
    content = script.read_bytes()
    for _ in range(2):
        status, headers, body = answered(app, f"/static/js/{script.name}")
        assert (status, body) == (200, content)
        assert headers[b"content-type"].startswith(b"text/javascript")
        assert b"immutable" in headers[b"cache-control"]
        monkeypatch.setattr(Path, "read_bytes", lambda _: b"read again")


@pytest.mark.parametrize("path", ["/", "/compare", "/static/../../../app.py", "/static/js", "/static/js/none.js"])
def test_all_else_is_left_to_streamlit(path: str) -> None:
    """Pages, what is not there, and whoever tries to leave the folder."""
    assert answered(KeptScripts(behind), path) == (0, {}, b"")


def test_every_script_that_is_named_beforehand_is_there() -> None:
    """Under the name that this version of Streamlit gives it, once, with whatever it imports."""
    named = re.findall(r'href="/static/js/([\w-]+)\.[^"]*"', PRELOADED)
    assert set(named) >= set(NEEDED)
    assert len(named) + len(SCRIPTS_OF_CHARTS) == PRELOADED.count("modulepreload")
    assert "WidgetLabel" in named  # which several of them import


def test_no_script_is_named_twice() -> None:
    """A page names some itself."""
    named = re.findall(r'/static/js/([^"]*)"', PRELOADED)
    assert len(named) == len(set(named))
    assert not [name for name in named if name in (SCRIPTS.parent / "index.html").read_text()]


def test_our_own_scripts_come_from_memory_too() -> None:
    """The browser looks for them where Streamlit says that the component's are, and no other file of the folder."""
    assert {file.name for file in SCRIPTS_OF_CHARTS} >= {"chart.js", "plotly.js"}
    for file in SCRIPTS_OF_CHARTS:
        status, headers, body = answered(KeptScripts(behind), f"{ADDRESS}/{file.name}")
        assert (status, body) == (200, file.read_bytes())
        assert headers[b"content-type"].startswith(b"text/javascript")
        assert f'href="{ADDRESS}/{file.name}"' in PRELOADED
    assert answered(KeptScripts(behind), f"{ADDRESS}/__init__.py")[0] == 0


def test_the_first_page_finds_its_answers_prepared(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketches, number and chart of the page that opens by itself are found before anybody asks."""
    shared_answers.clear()
    warm_up(str(small))
    asked: list[str] = []
    for name in ("ask", "series", "load"):
        monkeypatch.setattr(Store, name, lambda *_, name=name, **__: asked.append(name))
    fine(opened(small))
    assert asked == []
    shared_answers.clear()


@pytest.mark.parametrize("content", [None, b"no store at all"])
def test_without_a_store_there_is_nothing_to_prepare(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """No store yet, or one that cannot be read: the page says so, the log nothing."""
    path = tmp_path / "wane.duckdb"
    if content is not None:
        path.write_bytes(content)
    with caplog.at_level(logging.INFO):
        warm_up(str(path))
    assert caplog.text == ""


def test_one_cache_is_shared_by_warming_and_pages(small: Path) -> None:
    """The pages are run by Streamlit as a script of their own."""
    from dashboard import app

    assert app.shared_answers is shared.shared_answers
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(shared_answers, [str(small)] * 8))
    assert len({id(one) for one in found}) == 1
