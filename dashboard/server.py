"""The web application: Streamlit's, but quicker to open.

Its pages tell the browser the root address of the server. Otherwise a browser that opens a page by its own address
(/compare) first looks for the server below that address, and logs two errors before it tries the root. They also name
the scripts that every page needs, which the browser would otherwise find out one after the other. Scripts are kept in
memory: read from disk in pieces, some hundred of them take a second. In front of all of it stands `door.gate`.
"""

from __future__ import annotations

import mimetypes
import re
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.api.programs import Programs
from dashboard.door.gate import Gate
from dashboard.door.headers import content_policy
from dashboard.frontend import ADDRESS as OWN
from dashboard.frontend import SCRIPTS as OWN_SCRIPTS

SCRIPTS: Final = Path(st.__file__).parent / "static" / "static"
NEEDED: Final = (
    "BidiComponent",
    "Multiselect",
    "Selectbox",
    "ButtonGroup",
    "TextInput",
    "Slider",
    "Checkbox",
    "Metric",
    "DownloadButton",
)  # by the names that Streamlit gives them, to which it adds a hash
PAGE: Final = (SCRIPTS.parent / "index.html").read_text()  # names some scripts itself
IMPORTED: Final = re.compile(r"""(?:from|import)["']\./([\w.-]+\.js)["']""")  # not those that are loaded on demand


def _with_imports(names: Sequence[str]) -> list[str]:
    """Scripts, and all that they import: a browser would ask for each only once it has read what imports it."""
    found = {file.name: None for name in names for file in sorted((SCRIPTS / "js").glob(f"{name}.*.js"))}
    waiting = list(found)
    while waiting:
        for name in IMPORTED.findall((SCRIPTS / "js" / waiting.pop()).read_text()):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


PRELOADED: Final = "".join(
    f'<link rel="modulepreload" href="/static/js/{name}">' for name in _with_imports(NEEDED) if name not in PAGE
) + "".join(f'<link rel="modulepreload" href="{OWN}/{file.name}">' for file in OWN_SCRIPTS)
COPYING: Final = """<script>document.addEventListener("click", event => {
  const button = event.target.closest("[class*=st-key-copy-link] button");
  const code = button && button.closest("[class*=st-key-link-box]").querySelector("code");
  if (!code) return;
  if (navigator.clipboard) { navigator.clipboard.writeText(code.innerText.replace(/\\s/g, "")); return; }
  getSelection().selectAllChildren(code);
  document.execCommand("copy");
})</script>"""  # browsers have no clipboard where a page came neither by https nor from their own machine
SKIPPING: Final = """<script>addEventListener("DOMContentLoaded", () => {
  const nav = document.createElement("nav"), button = document.createElement("button");
  nav.setAttribute("aria-label", "Skip");
  button.textContent = "Skip to the pages";
  const hide = () => { button.style.cssText = "position:absolute;left:0;top:-9em;z-index:1000000;padding:.6em 1em"; };
  button.onfocus = () => { button.style.top = "0"; };
  button.onblur = hide;
  const go = () => {
    const link = document.querySelector("[data-testid=stTopNavLink]:not([inert] *)");
    if (link) link.focus(); else setTimeout(go, 100);  // they are drawn after all else
  };
  button.onclick = go;
  hide();
  nav.append(button);
  document.body.prepend(nav);
})</script>"""  # with the key Tab, all controls of the sidebar come before the pages
FOCUS: Final = """<style>
a:focus-visible, button:focus-visible, summary:focus-visible, [tabindex]:focus-visible, [type=range]:focus-visible {
  outline: 2px solid #4c6ef5 !important; outline-offset: 2px !important;
}</style>"""  # what has the focus shows it everywhere; Streamlit only shades the pages
FINDING: Final = """<script>if (location.hash) {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const looking = setInterval(() => {
    const found = document.getElementById(wanted);
    if (!found) return;
    found.scrollIntoView();
    clearInterval(looking);
  }, 200);
}</script>"""  # a link to a word: its place is drawn when the browser has given up looking for it
ENDING: Final = """<script>document.addEventListener("click", event => {
  if (event.target.closest(".st-key-end-tour button"))
    document.cookie = "wane-tour=closed; path=/; max-age=31536000; SameSite=Strict";
})</script>"""  # the tour of the first page is not shown again in this browser
CHART: Final = f"""<script>{{
  const {{send}} = WebSocket.prototype;
  WebSocket.prototype.send = function (message) {{
    send.call(this, message);
    WebSocket.prototype.send = send;
    import("{OWN}/chart.js");
  }};
}}</script>"""  # Plotly begins while the server draws the page
BACKEND: Final = '<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + "/"}</script>'
ROOT: Final = (BACKEND + FOCUS + COPYING + SKIPPING + FINDING + ENDING + CHART + PRELOADED + "</head>").encode()


class RootAddress:
    """Puts `ROOT` into every page on its way to the browser."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = dict(scope.get("headers", ())) if scope["type"] == "http" else {}
        if b"text/html" not in wanted.get(b"accept", b""):
            await self._app(scope, receive, send)
            return
        begun: Message = {}
        chunks: list[bytes] = []

        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
                return
            chunks.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body = b"".join(chunks).replace(b"</head>", ROOT, 1)
            kept = [
                (name, value) for name, value in begun["headers"] if name.lower() not in (b"content-length", b"etag")
            ]
            await send({**begun, "headers": [*kept, (b"content-length", str(len(body)).encode())]})
            await send({"type": "http.response.body", "body": body})

        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self._app({**scope, "headers": plain}, receive, changed)


class KeptScripts:
    """Answers for Streamlit's scripts, styles and fonts and for ours, whose addresses change with their contents."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[str, bytes] = {}
        self._there = {f"/static/{file.relative_to(SCRIPTS)}": file for file in SCRIPTS.rglob("*") if file.is_file()}
        self._there |= {f"{OWN}/{file.name}": file for file in OWN_SCRIPTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._there.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if file is None:
            await self._app(scope, receive, send)
            return
        if scope["path"] not in self._kept:
            self._kept[scope["path"]] = file.read_bytes()
        headers = {
            "content-type": mimetypes.guess_type(file.name)[0] or "application/octet-stream",
            "cache-control": "public, immutable, max-age=31536000",
        }
        await Response(self._kept[scope["path"]], headers=headers)(scope, receive, send)


@asynccontextmanager
async def warmed_up(_: st.App) -> AsyncIterator[None]:
    """Prepare the first page beside the start of the server."""
    threading.Thread(target=_warm_up, daemon=True).start()
    yield


def _warm_up() -> None:
    from dashboard.shared import warm_up  # noqa: PLC0415  it takes a second, and the server need not wait for it

    warm_up(sys.argv[1], sys.argv[2:])


programs = Programs(
    st.App(
        Path(__file__).with_name("app.py"),
        lifespan=warmed_up,
        middleware=[Middleware(KeptScripts), Middleware(RootAddress)],
    )
)
app = Gate(
    programs,
    content_policy(PAGE.encode(), ROOT),
)
