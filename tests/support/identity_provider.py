"""An OpenID provider on this machine: it signs with a key of its own, wants PKCE, and logs in whom a test says."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.browser import free_port

CLIENT, SECRET = "wane", "what-only-the-client-knows"


@dataclass
class IdentityProvider:
    """Who is at the keyboard (`person`), and what was asked of it."""

    port: int
    person: dict[str, Any] = field(default_factory=dict)
    audience: str = CLIENT  # for whom tokens are made
    asked: list[str] = field(default_factory=list)
    _key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def metadata(self) -> str:
        return f"{self.issuer}/.well-known/openid-configuration"

    def app(self) -> Starlette:
        routes = {
            "/.well-known/openid-configuration": self._configuration,
            "/authorize": self._authorize,
            "/token": self._token,
            "/keys": self._keys,
        }
        return Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path, answer in routes.items()])

    async def _configuration(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "response_types_supported": ["code"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        """Whoever is at the keyboard says yes at once."""
        self.asked.append("authorize")
        given = dict(request.query_params)
        if given.get("client_id") != CLIENT or given.get("code_challenge_method") != "S256":
            return Response("unknown client", 400)
        code = secrets.token_hex(8)
        self._codes[code] = given
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}", 302)

    async def _token(self, request: Request) -> Response:
        """A code is good once, for the client that can show its secret and the text behind its challenge."""
        self.asked.append("token")
        form = await request.form()
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        given = self._codes.pop(str(form.get("code")), None)
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        known = request.headers.get("authorization") == f"Basic {wanted}"
        if given is None or not known or challenge != given["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.audience, "iat": now, "exp": now + 300, "nonce": given["nonce"]}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims | self.person, self._key)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "expires_in": 300, "id_token": token})

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self._key.as_dict(private=False) | {"use": "sig", "alg": "RS256"}]})


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A provider for as long as the block takes."""
    found = IdentityProvider(free_port())
    server = uvicorn.Server(uvicorn.Config(found.app(), port=found.port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < deadline, "the provider did not start"
        time.sleep(0.02)
    try:
        yield found
    finally:
        server.should_exit = True
        thread.join(10)
