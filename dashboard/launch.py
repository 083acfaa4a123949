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
    hear_every_click()
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


def hear_every_click() -> None:
    """Have a page take in what was clicked before it gives way to the next click.

    At each use of a session's state Streamlit looks whether the page is still wanted, also where it tells the page's
    own functions what was clicked. Another click that came just then ended that, and the first one was lost.
    """
    from streamlit.runtime.scriptrunner.script_runner import ScriptRunner  # noqa: PLC0415  see `serve`
    from streamlit.runtime.state.safe_session_state import SafeSessionState  # noqa: PLC0415  as above

    tell, give_way = SafeSessionState.on_script_will_rerun, ScriptRunner._maybe_handle_execution_control_request
    thread = threading.local()  # each session's page is drawn by one of its own

    def told(self: Any, *given: Any, **more: Any) -> None:
        thread.is_told = True
        try:
            tell(self, *given, **more)
        finally:
            thread.is_told = False

    def gives_way(self: Any) -> None:
        if not getattr(thread, "is_told", False):
            give_way(self)

    setattr(SafeSessionState, "on_script_will_rerun", told)  # noqa: B010  as above
    setattr(ScriptRunner, "_maybe_handle_execution_control_request", gives_way)  # noqa: B010  as above


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
        # Otherwise each click begins a thread of its own beside the one that it ends; these overtake each other, so
        # that an older click undoes a newer one, and what was clicked is lost with a thread that had not begun.
        "runner_fastReruns": False,
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
