"""What every answer tells the browser: run and load nothing but ours, show us in no other page, guess no types.

Inline scripts are admitted one by one, by the hash of their text: whatever data might bring into a page does not run.
Styles may be inline, because Streamlit's and Plotly's are.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

_INLINE: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def content_policy(*pages: bytes) -> str:
    """The policy under which these pages work, and what is put into them does not.

    >>> content_policy(b"<script>one()</script>").split("; ")[1]
    "script-src 'self' 'sha256-HR7iaask9daLMRRskMI++QeJtjWDOjyPA6lGzYGzKW4='"
    """
    scripts = [script for page in pages for script in _INLINE.findall(page)]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    return "; ".join(
        [
            "default-src 'self'",
            " ".join(["script-src 'self'", *hashes]),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def with_headers(send: Send, policy: str, *, encrypted: bool = False) -> Send:
    """Sends answers with these headers; where visitors come by TLS, cookies travel no other way."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["content-security-policy"] = policy
            headers["x-content-type-options"] = "nosniff"
            headers["referrer-policy"] = "same-origin"
            if encrypted:
                message["headers"] = [
                    (name, value + b"; Secure" if name == b"set-cookie" and b"; secure" not in value.lower() else value)
                    for name, value in message["headers"]
                ]
        await send(message)

    return sent
