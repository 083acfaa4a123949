"""Log-in by an identity provider (OpenID Connect): `wane dashboard --oidc FILE`.

Streamlit's own routes, to which its `st.login` leads, do the talking with the provider. They sign a cookie that says
who logged in. The gate reads it at every request, and looks for the person in the list of those who may come in:

    [auth]
    server_metadata_url = "https://login.example.org/.well-known/openid-configuration"
    client_id = "wane"
    client_secret = "..."
    redirect_uri = "https://wane.example.org/oauth2callback"
    cookie_secret = "a long random word"

    [access.sales]
    streams = ["calls"]
    people = ["ann@example.org", "*@sales.example.org"]
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from dashboard.door.login import LASTS, STYLE
from dashboard.door.roles import Role
from dashboard.door.tokens import SHORTEST_TOKEN, AccessError, read_table

CALLBACK: Final = "/oauth2callback"
LOGOUT: Final = "/auth/logout"
ROUTES: Final = ("/auth/login", LOGOUT, CALLBACK)  # Streamlit's own: whoever is not logged in may ask for these
SUBJECT: Final = "sub:"  # before the provider's own name of a person, where there is no address that it has verified
_COOKIE: Final = "_streamlit_user"
_NEEDED: Final = ("server_metadata_url", "client_id", "client_secret", "redirect_uri", "cookie_secret")
_LOG: Final = "streamlit.web.server.starlette.starlette_auth_routes"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Provider:
    """The identity provider of a file, as far as the gate must know it."""

    file: str
    redirect: str  # the address to which it sends visitors back
    secret: str = field(repr=False)  # of the cookies

    @property
    def host(self) -> str:
        return urlsplit(self.redirect).hostname or ""

    @property
    def is_encrypted(self) -> bool:
        return self.redirect.startswith("https:")

    def login(self) -> str:
        """The path at which the log-in begins, as `st.login` would open it."""
        from streamlit.auth_util import encode_provider_token  # noqa: PLC0415  it reads settings that are loaded late

        return f"{ROUTES[0]}?{urlencode({'provider': encode_provider_token('default')})}"

    def person(self, cookies: Mapping[str, str]) -> tuple[dict[str, Any], float] | None:
        """What the provider says of whoever sent these cookies, and for how many seconds that is good still."""
        from streamlit.auth_util import get_cookie_with_chunks  # noqa: PLC0415  without --oidc nobody waits for it

        signed: list[float] = []

        def opened(name: str) -> bytes | None:
            found = _opened(self.secret, name, cookies.get(name, ""))
            signed.append(found[1] if found else 0.0)
            return found[0] if found else None

        content = get_cookie_with_chunks(opened, _COOKIE)
        lasts = min(signed) + LASTS - time.time()
        try:
            said = json.loads(content or b"null")
        except ValueError:
            return None
        return (said, lasts) if isinstance(said, dict) and said.get("is_logged_in") is True and lasts > 0 else None


def _opened(secret: str, name: str, value: str) -> tuple[bytes, float] | None:
    """What a cookie of Streamlit's says, and when it was signed; None where we did not sign it, or long ago."""
    from itsdangerous import BadData, URLSafeTimedSerializer  # noqa: PLC0415  likewise

    try:
        content, at = URLSafeTimedSerializer(secret, salt=name).loads(value, max_age=LASTS, return_timestamp=True)
    except BadData:
        return None
    return str(content).encode(), at.timestamp()


def role_of(said: Mapping[str, Any], roles: Sequence[Role]) -> Role | None:
    """The role that lists a person; first by the name or address, then by the domain of the address.

    An address counts only where the provider says that it has verified it: with many providers anybody can claim any.
    """
    names = {f"{SUBJECT}{said.get('sub')}"}
    address = str(said.get("email", "")).lower()
    before, at, domain = address.rpartition("@")
    if said.get("email_verified") is True and before and at and domain:
        names.add(address)
        wide = f"*@{domain}"
    else:
        wide = ""
    exact = [role for role in roles if names & role.people]
    return next(iter([*exact, *(role for role in roles if wide in role.people)]), None)


def read_provider(path: str) -> Provider:
    """The provider in a file; refuses what a log-in would fail with later."""
    file = Path(path)
    if find_spec("authlib") is None:
        raise AccessError("--oidc needs the package Authlib, which wane installs with: pip install 'wane[oidc]'")
    stated = read_table(file, "--oidc").get("auth")
    if not isinstance(stated, dict):
        raise AccessError(f"--oidc {file} has no table [auth]; it needs {', '.join(_NEEDED)}")
    for key in _NEEDED:
        if not isinstance(stated.get(key), str) or not stated[key]:
            raise AccessError(f"--oidc {file}: auth.{key} must be a text; [auth] needs {', '.join(_NEEDED)}")
    secret, redirect, metadata = stated["cookie_secret"], stated["redirect_uri"], stated["server_metadata_url"]
    if len(secret) < 2 * SHORTEST_TOKEN:
        raise AccessError(f"--oidc {file}: auth.cookie_secret must have at least {2 * SHORTEST_TOKEN} characters")
    for key, address in (("redirect_uri", redirect), ("server_metadata_url", metadata)):
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
            raise AccessError(f"--oidc {file}: auth.{key} is {address!r}; it must begin with https:// and name a host")
    if urlsplit(redirect).path != CALLBACK:
        raise AccessError(f"--oidc {file}: auth.redirect_uri is {redirect!r}; its path must be {CALLBACK}")
    return Provider(str(file.resolve()), redirect, secret)


def log_in_lines() -> None:
    """Have Streamlit log a log-in that fails in one line: a stranger can make as many as he likes."""
    logging.getLogger(_LOG).addFilter(_in_a_line)


def _in_a_line(record: logging.LogRecord) -> bool:
    if record.exc_info:
        record.msg, record.args = f"{record.getMessage()} {record.exc_info[1]}", ()
        record.exc_info = None
    return True


def stranger_page(said: Mapping[str, Any]) -> str:
    """The page for somebody whom the provider knows and who is on no list."""
    who = said.get("email") or f"{SUBJECT}{said.get('sub')}"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>wane: not for you</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>
<body><form action="{LOGOUT}"><h1>wane</h1><p>You are logged in as {escape(str(who))}, who may not see this dashboard.
Whoever runs it can add you to its list.</p><button>Log out</button></form></body></html>
"""
