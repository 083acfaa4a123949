"""Starts the dashboard's server: it only reads, asks no other server, and is open to this machine unless told
otherwise."""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from dashboard.api.application import Doors
from dashboard.api.application import api as answering
from dashboard.api.recorded import read_recorded
from dashboard.door.access import Access
from dashboard.door.listening import ServeError, check_address, welcome
from dashboard.door.oidc import log_in_lines

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


NEVER: Final = 1e12  # bytes: no message is as long
_M_ARENA_MAX: Final = -8  # of glibc's mallopt: how many heaps there are at most


def serve(
    store: str | Path,
    access: Access,
    *,
    raw: Sequence[str] = (),
    boards: tuple[str, str, bool] = ("", "", False),
    api: bool = False,
    record: str | None = None,
    verbose: bool = False,
) -> None:
    """Serve until interrupted. `raw` are the folders whose files Audit may read; `boards` are their folder, the file of
    annotations, and whether visitors may change boards; `api`: programs are answered as well, `record` has the
    questions that are recorded for them; `verbose` logs how long each redraw took."""
    check_address(access.host, access.port)
    _check_boards(*boards)
    for folder in raw:
        if not Path(folder).is_dir():
            raise ServeError(f"--raw {folder} is not a folder")
    if record is not None and not api:
        raise ServeError("--record goes with --api: whoever scrapes the answers asks there")
    recorded = () if record is None else read_recorded(record)
    share_heap()
    from streamlit.web import bootstrap  # noqa: PLC0415  it takes seconds, and the port may be refused

    flags = options(access)
    logging.getLogger("wane.dashboard").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    bootstrap.load_config_options(flags)
    send_at_once()
    guard_sessions()
    from dashboard.server import app, programs  # noqa: PLC0415  it reads the settings that were just loaded

    app.admit(access)
    if access.provider is not None:
        log_in_lines()
    from dashboard.boards.desk import desk  # noqa: PLC0415  with it come the pages' libraries

    desk.admit(boards[0], boards[1], editing=boards[2], roles=access.roles)
    arguments = [str(Path(path).absolute()) for path in (store, *raw)]
    if access.roles or api:
        from dashboard.shared import shared_answers  # noqa: PLC0415  without them, the server need not wait for it

        shared_answers.admit(access.roles)
        if api:
            path, *folders = arguments
            programs.admit(answering(Doors(lambda role: shared_answers(path, folders, role).store, recorded)))
    for line in welcome(access):
        print(line, flush=True)  # noqa: T201  the command line's first words
    script = Path(__file__).with_name("app.py")
    bootstrap.run_asgi_app(str(script), "dashboard.server:app", arguments, flags)


def share_heap() -> None:
    """Have all threads share one heap.

    By default glibc gives one to each of several threads, where what one session has freed is of no use to the others:
    100 MB and more. Other systems' libraries have no such setting.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def send_at_once() -> None:
    """Have each answer of the server leave when it is written.

    Otherwise what is behind its first words waits for the browser to confirm these, which takes it 40 ms: for each of
    some hundred scripts, and for the chart after every change. asyncio sees to it for sockets that were made for TCP by
    name, and Streamlit makes its own without. Connections take it over from the socket that listens.
    """
    from streamlit.web.server.starlette import starlette_server  # noqa: PLC0415  see `serve`

    bind = getattr(starlette_server, "_bind_socket", None)
    if bind is None:  # another version of Streamlit, which is slower perhaps
        return

    def bound(*arguments: Any) -> socket.socket:
        listening: socket.socket = bind(*arguments)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening

    setattr(starlette_server, "_bind_socket", bound)  # noqa: B010  mypy compares signatures, and this one is not ours


def guard_sessions() -> None:
    """Have all runs of a session's page change its state one after the other.

    Streamlit has a lock for each run. A run that is left behind and the next one overlap for a moment, and where both
    changed the state, one of them ended with a trace: once in some hundred quick changes.
    """
    from streamlit.runtime.state import safe_session_state  # noqa: PLC0415  see `serve`

    begin = safe_session_state.SafeSessionState.__init__
    locks: WeakValueDictionary[int, Any] = WeakValueDictionary()  # whoever holds one holds the state, too
    finding = threading.Lock()

    def begun(self: Any, state: Any, *more: Any, **named: Any) -> None:
        begin(self, state, *more, **named)
        with finding:
            lock = locks.setdefault(id(state), threading.RLock())
        object.__setattr__(self, "_lock", lock)  # its own setattr is for widgets

    setattr(safe_session_state.SafeSessionState, "__init__", begun)  # noqa: B010  as above


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
        # Of quick changes, the server refers to messages that the browser has forgotten meanwhile, which cuts it off.
        "global_minCachedMessageSize": NEVER,
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
