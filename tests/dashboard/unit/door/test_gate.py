"""The gate: whoever does not belong gets no page, no script, no websocket and no number."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest

from dashboard.door.access import Access
from dashboard.door.gate import HEALTH, LOGIN, Gate
from dashboard.door.headers import content_policy
from dashboard.door.login import LASTS, TRIES, Login

TOKEN = "abcdefghijklmnop"
PATHS = (
    "/",
    "/audit",
    "/static/js/index.js",
    "/_stcore/metrics",
    "/_stcore/host-config",
    "/_stcore/health/",
    "/media/x",
)
POLICY = content_policy()
SECRET = b"what the store holds"


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    seen: dict[str, Any] = field(default_factory=dict)  # by the application behind the gate


def asked(
    gate: Gate,
    path: str = "/",
    *,
    kind: str = "http",
    method: str = "GET",
    host: str | None = "127.0.0.1:8501",
    body: bytes = b"",
    scheme: str = "http",
    client: str = "192.0.2.1",
    **headers: str,
) -> Answer:
    """What the gate answers; a websocket that is opened has status 101, one that is refused 403."""
    answer = Answer()
    sent = {"host": host} | headers if host is not None else headers
    scope: dict[str, Any] = {
        "type": kind,
        "method": method,
        "scheme": scheme,
        "path": path,
        "query_string": b"stream=calls",
        "client": (client, 1234),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
    }

    async def app(inner: Any, receive: Any, send: Any) -> None:
        answer.seen = dict(inner)
        if inner["type"] == "websocket":
            await send({"type": "websocket.accept"})
            answer.seen["then"] = await receive()
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": SECRET})

    async def receive() -> dict[str, Any]:
        if kind == "websocket":
            await asyncio.sleep(0.2)
            return {"type": "websocket.receive"}
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        match message["type"]:
            case "http.response.start":
                answer.status = message["status"]
                answer.headers |= {name.decode(): value.decode() for name, value in message["headers"]}
            case "http.response.body":
                answer.body += message.get("body", b"")
            case "websocket.accept":
                answer.status = 101
            case "websocket.close":
                answer.status = 403

    gate._app = app
    asyncio.run(gate(scope, receive, send))
    return answer


def gate_of(access: Access) -> Gate:
    async def nothing(*_: Any) -> None:
        """Replaced by `asked`."""

    gate = Gate(nothing, POLICY)
    gate.admit(access)
    return gate


@pytest.fixture
def closed() -> Gate:
    """Open to the network, with a log-in."""
    return gate_of(Access("0.0.0.0", token=TOKEN, names=frozenset({"wane.example.org"})))


@pytest.mark.parametrize("path", [*PATHS, HEALTH, LOGIN])
@pytest.mark.parametrize("token", ["", TOKEN])
def test_nothing_answers_to_a_foreign_name(path: str, token: str) -> None:
    """Not even to somebody with the token: DNS rebinding ends here."""
    gate = gate_of(Access("0.0.0.0", token=token))
    for host in ("evil.example", "evil.example:8501", None):
        found = asked(gate, path, host=host, authorization=f"Bearer {TOKEN}")
        assert (found.status, found.seen) == (421, {})
        assert asked(gate, path, kind="websocket", host=host, authorization=f"Bearer {TOKEN}").status == 403


def test_a_page_of_another_site_gets_nothing() -> None:
    """Neither a websocket nor an answer to what it sends."""
    gate = gate_of(Access())
    assert asked(gate, kind="websocket", origin="http://127.0.0.1:8501").status == 101
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9000"):
        assert asked(gate, kind="websocket", origin=origin).status == 403
        assert asked(gate, "/_stcore/upload_file", method="PUT", origin=origin).status == 403


def test_streamlit_is_not_asked_about_origins() -> None:
    """It would ask a public server for its own address; the gate has judged, and leaves the header out."""
    found = asked(gate_of(Access()), kind="websocket", origin="http://127.0.0.1:8501", cookie="a=b")
    assert [name for name, _ in found.seen["headers"]] == [b"host", b"cookie"]


@pytest.mark.parametrize("path", PATHS)
def test_without_logging_in_there_is_nothing_to_see(closed: Gate, path: str) -> None:
    """Pages, scripts, metrics and the websocket alike, also with wrong tokens and made-up cookies."""
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": "wane-8501=1.2"},
    ):
        found = asked(closed, path, **headers)
        assert (found.status, found.seen) == (401, {})
        assert SECRET not in found.body
        assert asked(closed, path, kind="websocket", **headers).status == 403


def test_health_is_told_to_everybody(closed: Gate) -> None:
    """It says ok, and a container's health check has no token."""
    assert asked(closed, HEALTH).body == SECRET


def test_a_program_shows_the_token_in_a_header(closed: Gate) -> None:
    assert asked(closed, authorization=f"Bearer {TOKEN}").body == SECRET
    assert asked(closed, authorization=f"bearer  {TOKEN}").body == SECRET
    assert asked(closed, kind="websocket", authorization=f"Bearer {TOKEN}").status == 101


def logged_in(gate: Gate, token: str = TOKEN, back_to: str = "/compare?stream=calls", **more: Any) -> Answer:
    form = urlencode({"token": token, "back-to": back_to}).encode()
    return asked(gate, LOGIN, method="POST", body=form, accept="text/html", **more)


def test_a_person_logs_in_and_comes_back(closed: Gate) -> None:
    """The page that was asked for shows the form, the form leads back there, and the cookie opens everything."""
    form = asked(closed, "/compare", accept="text/html")
    assert form.status == 401
    assert b'value="/compare?stream=calls"' in form.body
    answer = logged_in(closed)
    assert (answer.status, answer.headers["location"]) == (303, "/compare?stream=calls")
    cookie, *flags = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=lax", f"Max-Age={LASTS}", "Path=/"} <= set(flags)
    assert "Secure" not in flags
    assert TOKEN not in cookie
    for path in PATHS:
        assert asked(closed, path, cookie=f"other=1; {cookie}").body == SECRET
    assert asked(closed, kind="websocket", cookie=cookie).status == 101


def test_over_tls_the_cookie_stays_there(closed: Gate) -> None:
    assert "Secure" in logged_in(closed, scheme="https").headers["set-cookie"].split("; ")


def test_nobody_is_led_to_another_site(closed: Gate) -> None:
    for place in ("//evil.example", "https://evil.example/", "/\\evil.example"):
        assert logged_in(closed, back_to=place).headers["location"] == "/"


def test_a_page_of_another_site_cannot_log_in(closed: Gate) -> None:
    assert logged_in(closed, origin="https://evil.example").status == 403


def test_who_guesses_has_to_wait(closed: Gate) -> None:
    """After ten wrong tokens, by header or form, the right one is refused too; others and those inside go on."""
    cookie = logged_in(closed).headers["set-cookie"].partition(";")[0]
    for number in range(TRIES):
        wrong = logged_in(closed, "wrong") if number % 2 else asked(closed, authorization="Bearer wrong")
        assert wrong.status == 401
    for found in (logged_in(closed), asked(closed, authorization=f"Bearer {TOKEN}")):
        assert found.status == 429
        assert 0 < int(found.headers["retry-after"]) <= 60
    assert b"Too many wrong tries" in logged_in(closed).body
    assert asked(closed, cookie=cookie).status == 200
    assert logged_in(closed, client="192.0.2.2").status == 303


@pytest.mark.parametrize("body", [b"", b"token", b"x" * 10_000, b"&".join([b"token=a"] * 50), b"\xff=\xfe"])
def test_a_form_that_makes_no_sense_is_a_wrong_try(closed: Gate, body: bytes) -> None:
    assert asked(closed, LOGIN, method="POST", body=body).status == 401


def test_a_websocket_ends_with_its_log_in(closed: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that stays open does not outlive the cookie that opened it."""
    cookie = logged_in(closed).headers["set-cookie"].partition(";")[0]
    assert asked(closed, kind="websocket", cookie=cookie).seen["then"]["type"] == "websocket.receive"
    monkeypatch.setattr(Login, "expires", lambda *_: 0.05)
    assert asked(closed, kind="websocket", cookie=cookie).seen["then"]["type"] == "websocket.disconnect"


def test_without_a_token_there_is_no_log_in() -> None:
    """On this machine alone nobody is asked."""
    assert asked(gate_of(Access())).body == SECRET


def test_every_answer_says_what_browsers_may_do_with_it(closed: Gate) -> None:
    """Pages, refusals, the log-in page and redirects: shown in no other page, no guessed types, no address told."""
    answers = [
        asked(closed),
        asked(closed, host="evil.example"),
        asked(closed, origin="https://evil.example"),
        asked(closed, accept="text/html"),
        asked(closed, LOGIN),
        logged_in(closed),
        asked(closed, HEALTH),
        asked(closed, authorization=f"Bearer {TOKEN}"),
    ]
    assert {answer.status for answer in answers} == {200, 303, 401, 403, 421}
    for answer in answers:
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_only_scripts_of_our_pages_run() -> None:
    """Each inline script by its own hash, which the browser computes likewise: none by being inline."""
    policy = dict(
        part.split(" ", 1) for part in content_policy(b"<script>\n one()\n</script><script src=x>").split("; ")
    )
    digest = hashlib.sha256(b"\n one()\n").digest()
    assert policy["script-src"] == f"'self' 'sha256-{base64.b64encode(digest).decode()}'"
    assert policy["default-src"] == "'self'"
