"""Starts the dashboard's server: it only reads, asks no other server, and is open to this machine unless told
otherwise."""

from __future__ import annotations

import ctypes
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dashboard import LOOPBACK
from dashboard.door.access import Access
from dashboard.door.oidc import log_in_lines
from sketches.errors import WaneError
from sketches.formatting import listed

_LIGHT: Final = {
    "primaryColor": "#3b5bdb",
    "backgroundColor": "#ffffff",
    "secondaryBackgroundColor": "#f4f5f8",
    "textColor": "#0b101b",  # captions are at 60% of it, and must still be readable: 4.5 to 1
    "codeTextColor": "#0b101b",
}
_DARK: Final = {
    "primaryColor": "#748ffc",
    "backgroundColor": "#10141c",
    "secondaryBackgroundColor": "#1a202b",
    "textColor": "#e4e7ee",
    "codeTextColor": "#e4e7ee",
}


_M_ARENA_MAX: Final = -8  # of glibc's mallopt: how many heaps there are at most


class ServeError(WaneError):
    """The dashboard cannot listen there."""


def serve(
    store: str | Path,
    access: Access,
    *,
    raw: Sequence[str] = (),
    boards: tuple[str, str, bool] = ("", "", False),
    verbose: bool = False,
) -> None:
    """Serve until interrupted. `raw` are the folders whose files Audit may read; `boards` are their folder, the file of
    annotations, and whether visitors may change boards; `verbose` logs how long each redraw took."""
    _check(access.host, access.port)
    _check_boards(*boards)
    for folder in raw:
        if not Path(folder).is_dir():
            raise ServeError(f"--raw {folder} is not a folder")
    share_heap()
    from streamlit.web import bootstrap  # noqa: PLC0415  it takes seconds, and the port may be refused

    flags = options(access)
    logging.getLogger("wane.dashboard").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    bootstrap.load_config_options(flags)
    from dashboard.server import app  # noqa: PLC0415  it reads the settings that were just loaded

    app.admit(access)
    if access.provider is not None:
        log_in_lines()
    from dashboard.boards.desk import desk  # noqa: PLC0415  with it come the pages' libraries

    desk.admit(boards[0], boards[1], editing=boards[2], roles=access.roles)
    if access.roles:
        from dashboard.shared import shared_answers  # noqa: PLC0415  without roles, the server need not wait for it

        shared_answers.admit(access.roles)
    for line in welcome(access):
        print(line, flush=True)  # noqa: T201  the command line's first words
    arguments = [str(Path(path).absolute()) for path in (store, *raw)]
    script = Path(__file__).with_name("app.py")
    bootstrap.run_asgi_app(str(script), "dashboard.server:app", arguments, flags)


def welcome(access: Access) -> list[str]:
    """Where the dashboard is, and who gets in."""
    host = LOOPBACK if access.host == "0.0.0.0" else "::1" if access.host == "::" else access.host
    scheme = "https" if access.is_encrypted else "http"
    lines = [f"The dashboard is at {scheme}://{f'[{host}]' if ':' in host else host}:{access.port} until Ctrl-C."]
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


def share_heap() -> None:
    """Have all threads share one heap.

    By default glibc gives one to each of several threads, where what one session has freed is of no use to the others:
    100 MB and more. Other systems' libraries have no such setting.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def options(access: Access) -> dict[str, object]:
    """Streamlit's settings."""
    return {
        "server_address": access.host,
        "server_port": access.port,
        "server_sslCertFile": access.certificate or None,
        "server_sslKeyFile": access.key or None,
        **({} if access.provider is None else {"secrets_files": [access.provider.file]}),
        "server_headless": True,
        "server_fileWatcherType": "none",
        "server_runOnSave": False,
        "server_allowedHosts": [],  # Streamlit asks it for the websocket alone; `door.gate` asks for everything
        "server_disconnectedSessionTTL": 30,
        "browser_gatherUsageStats": False,
        "logger_hideWelcomeMessage": True,  # for it Streamlit asks a public server for this machine's address
        "client_showErrorDetails": "none",
        "client_showErrorLinks": False,
        "client_toolbarMode": "viewer",
        "global_disableWidgetStateDuplicationWarning": True,  # `dashboard.asking.session.show` says why both are given
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


def _check_boards(folder: str, annotations: str, editing: bool) -> None:
    """Refuse what cannot be read, or not be written where it shall be."""
    if folder and not Path(folder).is_dir():
        raise ServeError(f"--boards {folder} is not a folder")
    if annotations and not Path(annotations).is_file():
        raise ServeError(f"--annotations {annotations} is not a file")
    if editing and folder and not os.access(folder, os.W_OK):
        raise ServeError(f"--edit: {folder} cannot be written")


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
