"""Only this machine can open the server unless told otherwise; it sends nothing, and shows no trace."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from streamlit.runtime.state import SessionState
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.web.server.starlette import starlette_server

from dashboard.door.access import Access
from dashboard.door.listening import ServeError, check_address
from dashboard.launch import guard_sessions, options, send_at_once


def test_it_listens_where_it_is_told() -> None:
    found = options(Access("127.1.2.3", 8600, certificate="cert.pem", key="key.pem"))
    assert (found["server_address"], found["server_port"]) == ("127.1.2.3", 8600)
    assert (found["server_sslCertFile"], found["server_sslKeyFile"]) == ("cert.pem", "key.pem")


def test_nothing_is_sent_and_no_trace_is_shown() -> None:
    found = options(Access())
    assert found["browser_gatherUsageStats"] is False
    assert found["client_showErrorDetails"] == "none"
    assert found["client_showErrorLinks"] is False
    assert found["server_headless"] is True
    assert found["server_fileWatcherType"] == "none"


def test_every_setting_is_one_that_streamlit_has() -> None:
    """A misspelt one would be ignored without a word."""
    from streamlit import config

    known = {name.replace(".", "_") for name in config.get_config_options()}
    assert set(options(Access())) <= known


def test_what_cannot_be_listened_at_is_said_in_a_sentence() -> None:
    """A port that is none, one that is taken, a machine that is another."""
    with pytest.raises(ServeError, match="from 1 to 65535"):
        check_address("127.0.0.1", 0)
    with pytest.raises(ServeError, match="from 1 to 65535"):
        check_address("127.0.0.1", 70_000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match="choose another with --port or --host"):
            check_address("127.0.0.1", port)
    check_address("127.0.0.1", port)
    with pytest.raises(ServeError, match="cannot listen at"):
        check_address("192.0.2.1", 8501)


HEAPS = """
import ctypes, sys, tempfile, threading
from dashboard.launch import share_heap

libc = ctypes.CDLL(None)
if sys.argv[1] == "shared":
    share_heap()
together = threading.Barrier(6)

def work():
    together.wait()
    held = [bytearray(50_000) for _ in range(50)]
    together.wait()

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(file.read().count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_all_threads_share_one_heap() -> None:
    """What one session has freed is there for the others; left alone, each of some threads has a heap of its own."""

    def heaps(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, check=True).stdout)

    assert heaps("shared") == 1 < heaps("as it is")


def test_what_the_server_writes_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the body of each answer, and the chart behind the first words about it, wait 40 ms for the browser."""
    monkeypatch.setattr(starlette_server, "_bind_socket", starlette_server._bind_socket)  # what it was, afterwards
    send_at_once()
    with starlette_server._bind_socket("127.0.0.1", 0, 1) as listening:
        listening.setblocking(True)
        listening.listen()
        with socket.create_connection(listening.getsockname()), closing(listening.accept()[0]) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_two_runs_of_a_page_do_not_change_its_state_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is left behind may still be at work when the next one begins."""
    monkeypatch.setattr(SafeSessionState, "__init__", SafeSessionState.__init__)  # what it was, afterwards
    guard_sessions()
    state = SessionState()
    left_behind, next_one = (
        SafeSessionState(state, yield_callback=lambda: None) for _ in range(2)
    )  # as Streamlit calls it
    elsewhere = SafeSessionState(SessionState(), lambda: None)
    free = {}
    with left_behind._lock, ThreadPoolExecutor() as pool:
        for name, one in (("next", next_one), ("elsewhere", elsewhere)):
            free[name] = pool.submit(one._lock.acquire, blocking=False).result()
    assert free == {"next": False, "elsewhere": True}
