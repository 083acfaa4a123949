"""The gate in front of the server: every request passes it, for pages, scripts, websocket, health and metrics alike.

In this order it asks: is the request for one of our names? Does it come from one of our pages? Has its sender logged
in, and with whose token? `door.access` has the rules, `door.login` the tokens. Pages find the sender's role
in a header, which nobody but the gate can set.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.door.access import Access
from dashboard.door.headers import with_headers
from dashboard.door.login import LASTS, Login, WrongTries, page, safe_path
from dashboard.door.oidc import ROUTES, Provider, role_of, stranger_page
from dashboard.door.problems import problem
from dashboard.door.roles import ROLE, Role

LOGIN: Final = "/_wane/login"
HEALTH: Final = "/_stcore/health"  # says "ok" and no more: a container's health check has no token
HEALTH_OF_PROGRAMS: Final = "/healthz"  # likewise, where the HTTP door is served
_PROGRAMS: Final = ("/metrics", HEALTH_OF_PROGRAMS, "/openapi.json")  # besides what begins with /api/
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
        self._logins = [(role, Login(role.token)) for role in access.visitors if role.token]
        self._provider = access.provider
        self._wrong = WrongTries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        encrypted = self._provider is not None and self._provider.is_encrypted
        send = with_headers(send, self._policy, encrypted=encrypted)
        refusal = self._refused(scope)
        role: Role | None = None
        if refusal is None:
            role, refusal = await self._asked_in(scope, receive)
        if refusal is None:
            until_end = _until(receive, self._known(scope)[1]) if scope["type"] == "websocket" else receive
            await self._app(_vouched_for(scope, role), until_end, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY})

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is not for us, or from a page that is not ours."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._access.answers_to(hosts[0]):
            return _line(
                scope,
                421,
                "This dashboard does not answer to this name. Whoever runs it can add the name with --allowed-host.",
            )
        if any(not self._access.comes_from_here(origin, hosts[0]) for origin in origins):
            return _line(scope, 403, "This dashboard does not answer to pages of other sites.")
        return None

    async def _asked_in(self, scope: Scope, receive: Receive) -> tuple[Role | None, Response | None]:
        """The role of the sender, or the answer to whoever has yet to log in, or is doing so."""
        if self._is_open or scope["path"] in (HEALTH, HEALTH_OF_PROGRAMS):
            return None, None
        if self._provider is not None:
            return self._known_to(self._provider, scope)
        if scope["type"] == "http" and scope["path"] == LOGIN:
            return None, await self._log_in(scope, receive)
        role, lasts = self._known(scope)
        if lasts > 0:
            return role, None
        shown = _bearer(scope)
        if shown is None:
            return None, _page_or_line(scope, 401)
        found = self._judged(shown, scope)
        return (None, found) if isinstance(found, Response) else (found[0], None)

    def _known_to(self, provider: Provider, scope: Scope) -> tuple[Role | None, Response | None]:
        """The role of whom the identity provider has named, or the answer to whom it has not, or to a stranger."""
        if scope["type"] == "http" and scope["path"] in ROUTES:
            return None, None
        role, lasts = self._known(scope)
        if role is not None and lasts > 0:
            return role, None
        found = provider.person(HTTPConnection(scope).cookies)
        if not _wants_page(scope):
            line = "Log in: open this dashboard in a browser." if found is None else "You may not see this dashboard."
            return None, _line(scope, 401 if found is None else 403, line)
        if found is None:
            return None, RedirectResponse(provider.login(), 303, _UNKEPT)
        return None, HTMLResponse(stranger_page(found[0]), 403, _UNKEPT)

    def _judged(self, shown: str, scope: Scope) -> tuple[Role, Login] | Response:
        """Whose token this is; else a refusal, and the try is remembered."""
        sender = (scope.get("client") or ("",))[0]
        wait = self._wrong.wait(sender)
        if wait > 0:
            return _page_or_line(scope, 429, f"Too many wrong tries. Wait {math.ceil(wait)} s.", math.ceil(wait))
        found = [one for one in self._logins if one[1].is_token(shown)]  # all are compared, whichever it is
        if found:
            return found[0]
        self._wrong.failed(sender)
        return _page_or_line(scope, 401, "That is not the token.")

    async def _log_in(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] != "POST":
            return HTMLResponse(page(LOGIN, "/"), headers=_UNKEPT)
        form = await _form(receive)
        back_to = safe_path(form.get("back-to", "/"))
        found = self._judged(form.get("token", ""), {**scope, "wane.back-to": back_to})
        if isinstance(found, Response):
            return found
        answer = RedirectResponse(back_to, 303, _UNKEPT)
        answer.set_cookie(
            self._cookie_name,
            found[1].cookie(),
            max_age=LASTS,
            httponly=True,
            samesite="lax",
            secure=scope["scheme"] in ("https", "wss"),
        )
        return answer

    @property
    def _is_open(self) -> bool:
        """Whether there is no log-in."""
        return not self._logins and self._provider is None

    @property
    def _cookie_name(self) -> str:
        return f"wane-{self._access.port}"  # a browser sends a host's cookies to all its ports

    def _known(self, scope: Scope) -> tuple[Role | None, float]:
        """Whom the sender is logged in as by cookie, and for how many seconds still."""
        if self._is_open:
            return None, math.inf
        if self._provider is not None:
            found = self._provider.person(HTTPConnection(scope).cookies)
            return (None, 0.0) if found is None else (role_of(found[0], self._access.roles), found[1])
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name, "")
        for role, login in self._logins:
            if (lasts := login.expires(cookie)) > 0:
                return role, lasts
        return None, 0.0


_UNKEPT: Final = {"cache-control": "no-store"}


def _bearer(scope: Scope) -> str | None:
    kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _wants_page(scope: Scope) -> bool:
    """Whether it is a browser that asks, for a page."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def is_for_programs(scope: Scope) -> bool:
    """Whether a request is for the HTTP door, not for a page."""
    return scope["path"].startswith("/api/") or scope["path"] in _PROGRAMS


def _line(scope: Scope, status: int, text: str, headers: Mapping[str, str] = _UNKEPT) -> Response:
    """A refusal in one sentence; the HTTP door has a form for them."""
    if scope["type"] == "http" and is_for_programs(scope):
        return problem(HTTPStatus(status), text, headers)
    return PlainTextResponse(f"{text}\n", status, headers)


def _page_or_line(scope: Scope, status: int, complaint: str = "", wait: int = 0) -> Response:
    """The log-in page for a person, one line for a program."""
    headers = _UNKEPT | {"www-authenticate": "Bearer"} | ({"retry-after": str(wait)} if wait else {})
    if not _wants_page(scope):
        line = complaint or "Log in: send the header Authorization: Bearer TOKEN."
        return _line(scope, status, line, headers)
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


def _vouched_for(scope: Scope, role: Role | None) -> Scope:
    """The request with the sender's role, whatever it says of that itself.

    Its origin, which was checked, is left out: Streamlit would ask other servers whether it is its own.
    """
    ours = ROLE.encode()
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in (b"origin", ours)]
    return {**scope, "headers": [*kept, *([] if role is None else [(ours, role.name.encode())])]}


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
