"""The gate in front of the server: every request passes it, for pages, scripts, websocket, health and metrics alike.

In this order it asks: is the request for one of our names? Does it come from one of our pages? Has its sender logged
in? `dashboard.access` has the rules, `dashboard.login` the token.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.access import Access
from dashboard.headers import with_headers
from dashboard.login import LASTS, Login, WrongTries, page, safe_path

LOGIN: Final = "/_wane/login"
HEALTH: Final = "/_stcore/health"  # says "ok" and no more: a container's health check has no token
_LONGEST_FORM: Final = 8192  # bytes
_POLICY: Final = 1008  # the websocket's code for "you may not"


class Gate:
    """Lets through what the rules admit; `admit` sets them. Until then only this machine is answered."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self._app = app
        self._policy = policy  # what browsers may do with our pages
        self.admit(Access())

    def admit(self, access: Access) -> None:
        self._access = access
        self._login = Login(access.token) if access.token else None
        self._wrong = WrongTries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = with_headers(send, self._policy)
        refusal = self._refused(scope) or await self._asked_in(scope, receive)
        if refusal is None:
            until_end = _until(receive, self._lasts(scope)) if scope["type"] == "websocket" else receive
            await self._app(_without_origin(scope), until_end, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY})

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is not for us, or from a page that is not ours."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._access.answers_to(hosts[0]):
            return PlainTextResponse(
                "This dashboard does not answer to this name. Whoever runs it can add the name with --allowed-host.\n",
                421,
            )
        if any(not self._access.comes_from_here(origin, hosts[0]) for origin in origins):
            return PlainTextResponse("This dashboard does not answer to pages of other sites.\n", 403)
        return None

    async def _asked_in(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer to whoever has yet to log in, or is doing so."""
        if self._login is None or scope["path"] == HEALTH:
            return None
        if scope["type"] == "http" and scope["path"] == LOGIN:
            return await self._log_in(self._login, scope, receive)
        if self._lasts(scope) > 0:
            return None
        shown = _bearer(scope)
        if shown is None:
            return _page_or_line(scope, 401)
        return self._judged(self._login, shown, scope)

    def _judged(self, login: Login, shown: str, scope: Scope) -> Response | None:
        """None where this is the token; else a refusal, and the try is remembered."""
        sender = (scope.get("client") or ("",))[0]
        wait = self._wrong.wait(sender)
        if wait > 0:
            return _page_or_line(scope, 429, f"Too many wrong tries. Wait {math.ceil(wait)} s.", math.ceil(wait))
        if login.is_token(shown):
            return None
        self._wrong.failed(sender)
        return _page_or_line(scope, 401, "That is not the token.")

    async def _log_in(self, login: Login, scope: Scope, receive: Receive) -> Response:
        if scope["method"] != "POST":
            return HTMLResponse(page(LOGIN, "/"), headers=_UNKEPT)
        form = await _form(receive)
        back_to = safe_path(form.get("back-to", "/"))
        refusal = self._judged(login, form.get("token", ""), {**scope, "wane.back-to": back_to})
        if refusal is not None:
            return refusal
        answer = RedirectResponse(back_to, 303, _UNKEPT)
        answer.set_cookie(
            self._cookie_name,
            login.cookie(),
            max_age=LASTS,
            httponly=True,
            samesite="lax",
            secure=scope["scheme"] in ("https", "wss"),
        )
        return answer

    @property
    def _cookie_name(self) -> str:
        return f"wane-{self._access.port}"  # a browser sends a host's cookies to all its ports

    def _lasts(self, scope: Scope) -> float:
        """For how many seconds the sender is still logged in by cookie."""
        if self._login is None:
            return math.inf
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name)
        return 0.0 if cookie is None else self._login.expires(cookie)


_UNKEPT: Final = {"cache-control": "no-store"}


def _bearer(scope: Scope) -> str | None:
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _page_or_line(scope: Scope, status: int, complaint: str = "", wait: int = 0) -> Response:
    """The log-in page for a person, one line for a program."""
    headers = _UNKEPT | {"www-authenticate": "Bearer"} | ({"retry-after": str(wait)} if wait else {})
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        line = complaint or "Log in: send the header Authorization: Bearer TOKEN."
        return PlainTextResponse(f"{line}\n", status, headers)
    query = scope.get("query_string", b"").decode("latin-1")
    asked = scope["path"] + (f"?{query}" if query else "")
    return HTMLResponse(page(LOGIN, safe_path(scope.get("wane.back-to", asked)), complaint), status, headers)


async def _form(receive: Receive) -> dict[str, str]:
    """The fields of a form that was sent; none where it is too long."""
    content = b""
    while True:
        message = await receive()
        content += message.get("body", b"")
        if message["type"] != "http.request" or len(content) > _LONGEST_FORM:
            return {}
        if not message.get("more_body"):
            break
    try:
        fields = parse_qs(content.decode("ascii"), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _without_origin(scope: Scope) -> Scope:
    """The request without its origin, which was checked: Streamlit would ask other servers whether it is its own."""
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"origin"]}


def _until(receive: Receive, lasts: float) -> Receive:
    """What comes from the sender until its log-in ends; then it is as if it had hung up."""
    if not 0 < lasts < math.inf:
        return receive
    end = asyncio.get_running_loop().time() + lasts

    async def received() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": _POLICY}

    return received
