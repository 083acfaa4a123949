"""Where a server of ours listens: whether it can, and what it says of it when it starts."""

from __future__ import annotations

import socket

from dashboard import LOOPBACK
from dashboard.door.access import Access
from sketches.errors import WaneError
from sketches.formatting import listed


class ServeError(WaneError):
    """The server cannot listen there, or cannot serve what it is told to."""


def welcome(access: Access, what: str = "The dashboard") -> list[str]:
    """Where a server is, and who gets in."""
    host = LOOPBACK if access.host == "0.0.0.0" else "::1" if access.host == "::" else access.host
    scheme = "https" if access.is_encrypted else "http"
    lines = [f"{what} is at {scheme}://{f'[{host}]' if ':' in host else host}:{access.port} until Ctrl-C."]
    if access.token:
        lines.append("Visitors log in with the token of --token-file.")
    for role in access.roles:
        seen = "all streams" if role.streams is None else listed(sorted(role.streams))
        who = f"with the token of {role.name}" if role.token else f"whom [access.{role.name}] lists"
        lines.append(f"Visitors {who} see {seen}.")
    if access.provider is not None:
        lines.append(f"They log in at their identity provider, which sends them back to {access.provider.redirect}.")
    if not access.is_local:
        lines.append(f"It listens at {access.host} and answers to addresses{_and_names(access)}.")
        if not access.visitors:
            lines.append("--insecure: everybody who can reach this machine sees everything.")
        elif not access.is_encrypted and (access.provider is None or not access.provider.is_encrypted):
            lines.append("What is sent is not encrypted, the token included: --tls-cert, or a proxy with TLS, does it.")
    return lines


def _and_names(access: Access) -> str:
    names = sorted(name for name in access.names if name != access.host)
    return f", localhost and {', '.join(names)}" if names else " and localhost; --allowed-host adds a name"


def check_address(host: str, port: int) -> None:
    """Refuse a host or port that the server cannot listen at, in one sentence."""
    if not 1 <= port <= 65_535:
        raise ServeError(f"port is {port}; it must be a number from 1 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or error
        raise ServeError(
            f"cannot listen at {host}, port {port} ({reason}); choose another with --port or --host"
        ) from None
