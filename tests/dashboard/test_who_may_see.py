"""`wane dashboard` open to the network, as a process: who gets in, what it tells others, and whom it asks."""

from __future__ import annotations

import ast
import http.client
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.health_check import health_address
from tests.dashboard.unit.door.test_access import TOKEN, certificate
from tests.support import dashboard_stores
from tests.support.browser import PAGES, WINDOW, Server, View, serving, unchecked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATHS = (
    "/",
    "/audit",
    "/favicon.png",
    "/_stcore/metrics",
    "/_stcore/host-config",
    "/_stcore/script-health-check",
    "/_stcore/agent/openapi.json",
    "/static/../../app.py",
    "/nothing",
)
WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
# Python tells an audit hook of every connection that is begun and every name that is looked up, by whatever library.
HOOK = """
import os, sys
def note(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["WANE_CONNECTIONS"], "a") as file:
            file.write(repr((event, [one for one in arguments if isinstance(one, (str, bytes, int, tuple))])) + "\\n")
sys.addaudithook(note)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_stores.build(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def closed(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A dashboard that listens everywhere and asks for a token. A file notes whom its process connects to."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "token").write_text(TOKEN)
    (folder / "sitecustomize.py").write_text(HOOK)
    (folder / "connections").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setenv("WANE_CONNECTIONS", str(folder / "connections"))
        more = ("--host", "0.0.0.0", "--token-file", str(folder / "token"), "--allowed-host", "wane.example.org")
        with serving(store, folder / "log", *more) as found:
            yield found


def asked(server: Server, path: str, **headers: str) -> http.client.HTTPResponse:
    """Status and headers of what comes back for a path."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as answer:
            return answer


def test_without_the_token_nothing_is_to_be_had(closed: Server) -> None:
    """No page, script, metric or websocket; with it, the same paths answer as ever."""
    script = next(iter(_scripts()))
    for path in (*PATHS, script):
        assert asked(closed, path).status == 401, path
        assert asked(closed, path, Authorization="Bearer wrong-wrong-wrong", X_Forwarded_For="192.0.2.9").status in (
            401,
            429,
        )
        assert asked(closed, path, Authorization=f"Bearer {TOKEN}").status != 401, path
    assert asked(closed, "/_stcore/stream", **WEBSOCKET).status == 403
    assert asked(closed, "/_stcore/stream", Authorization=f"Bearer {TOKEN}", **WEBSOCKET).status == 101


def _scripts() -> list[str]:
    from dashboard.server import SCRIPTS

    return [f"/static/js/{file.name}" for file in sorted((SCRIPTS / "js").glob("index.*.js"))]


def test_a_foreign_name_gets_nothing_even_with_the_token(closed: Server) -> None:
    """DNS rebinding: a page of evil.example, whose name now points here."""
    for path in (*PATHS, "/_stcore/health"):
        assert asked(closed, path, Host="evil.example", Authorization=f"Bearer {TOKEN}").status == 421
    refused = asked(closed, "/_stcore/stream", Host="evil.example", Authorization=f"Bearer {TOKEN}", **WEBSOCKET)
    assert refused.status == 403
    assert asked(closed, "/", Host="wane.example.org", Authorization=f"Bearer {TOKEN}").status == 200


def test_the_health_check_needs_no_token(closed: Server) -> None:
    with unchecked(health_address(["wane", "dashboard", "--host", "0.0.0.0", "--port", str(closed.port)])) as found:
        assert found.read() == b"ok"


def test_it_asks_no_other_machine(closed: Server) -> None:
    """Neither when it starts to listen everywhere, nor when a page of another site comes: no name is looked up, and
    nothing is connected to but this machine."""
    origin = {"Origin": "https://evil.example", "Authorization": f"Bearer {TOKEN}"}
    assert asked(closed, "/_stcore/stream", **origin, **WEBSOCKET).status == 403
    proxied = origin | {"Origin": "https://wane.example.org"}
    assert asked(closed, "/_stcore/stream", **proxied, **WEBSOCKET).status == 101
    assert asked(closed, "/_stcore/host-config", **proxied).status == 200
    notes = (closed.log.parent / "connections").read_text().splitlines()
    outside = [note for note in notes if not _is_here(*ast.literal_eval(note))]
    assert outside == []


def _is_here(event: str, arguments: list[Any]) -> bool:
    place = arguments[0] if event.startswith("socket.get") else arguments[-1]
    place = place[0] if isinstance(place, tuple) else place
    return place in ("127.0.0.1", "localhost", "::1", "0.0.0.0") or str(place).startswith("/")


def test_a_hook_notes_what_is_connected_to(tmp_path: Path) -> None:
    """The test above does not pass because nobody looked."""
    notes = tmp_path / "connections"
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    program = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('127.0.0.2', 9))"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "WANE_CONNECTIONS": str(notes)}
    assert os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", program], environment) == 0
    assert [_is_here(*ast.literal_eval(note)) for note in notes.read_text().splitlines()] == [False]


def test_every_answer_has_the_headers(closed: Server) -> None:
    """From the log-in page to what is not there, and Streamlit's own answers too."""
    for path in (*PATHS, "/_stcore/health", *_scripts()):
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}, {"Host": "evil.example"}):
            found = asked(closed, path, **headers)
            assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"], path
            assert found.headers["X-Content-Type-Options"] == "nosniff"
            assert found.headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works_under_its_policy_and_a_script_in_it_does_not(closed: Server, browser: Browser, name: str) -> None:
    """The browser has nothing to complain about, draws the charts, and refuses a script that was put into the page."""
    context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {TOKEN}"}, **WINDOW)
    view = View(closed, context).open(PAGES[name], stream="calls")
    view.page.wait_for_timeout(500)
    if name not in ("Boards", "Health", "Audit"):
        view.page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=20_000)
    view.check()
    view.page.evaluate(
        "const one = document.createElement('script'); one.text = 'window.__hacked = 1'; document.body.append(one)"
    )
    assert view.page.evaluate("window.__hacked") is None
    assert any("Content Security Policy" in said for said in view.faults.console)
    context.close()


def test_a_person_logs_in(closed: Server, browser: Browser) -> None:
    """A copied address asks for the token, says when it is wrong, and then shows the view; the page works."""
    context = browser.new_context(**WINDOW)
    page = context.new_page()
    page.goto(closed.url("compare", stream="calls"))
    page.get_by_label("Token").fill("not the token at all")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("That is not the token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/compare?stream=calls**")
    page.close()
    [cookie] = [one for one in context.cookies() if one["name"].startswith("wane")]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    view = View(closed, context).open("", stream="calls")
    assert view.number
    view.check()
    context.close()


def test_a_role_sees_its_streams(store: Path, tmp_path: Path, browser: Browser) -> None:
    """Through the real server: the page of a person with the token of one role names no stream of another."""
    (tmp_path / "sales.token").write_text(TOKEN)
    (tmp_path / "all.token").write_text(TOKEN[::-1])
    (tmp_path / "wane.toml").write_text(
        '[access.sales]\nstreams = ["latencies"]\ntoken_file = "sales.token"\n'
        '[access.all]\nstreams = ["*"]\ntoken_file = "all.token"\n'
    )
    with serving(store, tmp_path / "log", "--access", str(tmp_path / "wane.toml")) as server:
        shown = {}
        for token in (TOKEN, TOKEN[::-1]):
            context = browser.new_context(**WINDOW, extra_http_headers={"x-wane-role": "all"})
            page = context.new_page()
            page.goto(server.url(stream="calls"))
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Log in").click()
            page.get_by_test_id("stMetricValue").first.wait_for()
            page.get_by_text("live, generation").wait_for()
            shown[token] = page.locator("body").inner_text()
            context.close()
    assert "ms" in shown[TOKEN]  # the unit of latencies
    assert "pages" not in shown[TOKEN].replace("Skip to the pages", "")
    assert "loss" not in shown[TOKEN]
    assert "loss" in shown[TOKEN[::-1]]  # what weights of calls are called


def test_tls(store: Path, tmp_path: Path, browser: Browser) -> None:
    """With a certificate it serves https and nothing else: page, websocket, health, and a cookie for TLS alone."""
    cert, key = certificate(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    more = ("--token-file", str(tmp_path / "token"), "--tls-cert", cert, "--tls-key", key)
    with serving(store, tmp_path / "log", *more) as server:
        with socket.create_connection(("127.0.0.1", server.port), 5) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with suppress(ConnectionResetError):  # what it has not read when it hangs up resets the connection
                assert not plain.recv(100).startswith(b"HTTP")
        context = browser.new_context(ignore_https_errors=True, **WINDOW)
        page = context.new_page()
        page.goto(server.url())
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(server.url())
        page.close()
        assert [one["secure"] for one in context.cookies() if one["name"].startswith("wane")] == [True]
        view = View(server, context).open()
        assert view.number
        view.check()
        context.close()


def test_it_says_where_it_is_and_who_gets_in(closed: Server) -> None:
    """What it prints at its start has no token in it."""
    said = closed.log.read_text()
    assert f"http://127.0.0.1:{closed.port}" in said
    assert "Visitors log in" in said
    assert "not encrypted" in said
    assert TOKEN not in said


def test_insecure_is_said(store: Path, tmp_path: Path) -> None:
    with serving(store, tmp_path / "log", "--host", "0.0.0.0", "--insecure") as server:
        assert asked(server, "/").status == 200
        assert asked(server, "/", Host="evil.example").status == 421
        assert "everybody who can reach this machine" in server.log.read_text()
