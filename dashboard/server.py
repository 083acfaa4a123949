"""The web application: Streamlit's, but its pages tell the browser the root address of the server.

Otherwise a browser that opens a page by its own address (/compare) first looks for the server below that address, and
logs two errors before it tries the root.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROOT: Final = b'<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + "/"}</script></head>'


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


app = st.App(Path(__file__).with_name("app.py"), middleware=[Middleware(RootAddress)])
