"""Starts the dashboard's server: it only reads, asks no other server, and is open to this machine unless told
otherwise."""

from __future__ import annotations

import ipaddress
import logging
import socket
from pathlib import Path
from typing import Final

from dashboard import LOOPBACK, PORT
from sketches.errors import WaneError

_LIGHT: Final = {
    "primaryColor": "#3b5bdb",
    "backgroundColor": "#ffffff",
    "secondaryBackgroundColor": "#f4f5f8",
    "textColor": "#1d2433",
}
_DARK: Final = {
    "primaryColor": "#748ffc",
    "backgroundColor": "#10141c",
    "secondaryBackgroundColor": "#1a202b",
    "textColor": "#e4e7ee",
}


class ServeError(WaneError):
    """The dashboard cannot listen there."""


def serve(store: str | Path, *, host: str = LOOPBACK, port: int = PORT, verbose: bool = False) -> None:
    """Serve until interrupted; `verbose` logs how long each redraw took."""
    _check(host, port)
    from streamlit.web import bootstrap  # noqa: PLC0415  it takes seconds, and the port may be refused

    flags = options(host, port)
    logging.getLogger("wane.dashboard").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    bootstrap.load_config_options(flags)
    script = Path(__file__).with_name("app.py")
    bootstrap.run_asgi_app(str(script), "dashboard.server:app", [str(Path(store).absolute())], flags)


def options(host: str, port: int) -> dict[str, object]:
    """Streamlit's settings."""
    local = _is_loopback(host)
    return {
        "server_address": host,
        "server_port": port,
        "server_headless": True,
        "server_fileWatcherType": "none",
        "server_runOnSave": False,
        "server_allowedHosts": ["localhost", "127.0.0.1", "[::1]", "::1"] if local else [],
        "server_disconnectedSessionTTL": 30,
        "browser_gatherUsageStats": False,
        "client_showErrorDetails": "none",
        "client_showErrorLinks": False,
        "client_toolbarMode": "viewer",
        "runner_magicEnabled": False,
        "runner_postScriptGC": False,  # it costs all sessions 0.2 s after every redraw
        **{f"theme_light_{name}": value for name, value in _LIGHT.items()},
        **{f"theme_dark_{name}": value for name, value in _DARK.items()},
        "theme_paddingTop": "1rem",
        "theme_sidebar_paddingTop": "0rem",
        "theme_paddingBottom": "3rem",
        "theme_baseRadius": "medium",
        "theme_showSidebarBorder": True,
    }


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check(host: str, port: int) -> None:
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
