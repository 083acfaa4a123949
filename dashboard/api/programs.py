"""Lets one server have both: requests of programs go to the HTTP door, all others to the pages."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.door.gate import is_for_programs


class Programs:
    """Stands before the pages; until it is given an application for programs, the pages get everything."""

    def __init__(self, pages: ASGIApp) -> None:
        self._pages: Final = pages
        self._api: ASGIApp | None = None

    def admit(self, api: ASGIApp) -> None:
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = self._api is not None and scope["type"] == "http" and is_for_programs(scope)
        await (self._api if asks and self._api is not None else self._pages)(scope, receive, send)
