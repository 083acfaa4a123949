"""Refusals for programs: application/problem+json, as RFC 9457 has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

PROBLEM: Final = "application/problem+json"


def problem(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence that says what is wrong."""
    content = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, dict(headers or {}) | {"cache-control": "no-store"}, PROBLEM)
