"""Only this machine can open the server unless told otherwise; it sends nothing, and shows no trace."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from contextlib import closing

import pytest
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette import starlette_server

from dashboard.door.access import Access
from dashboard.door.listening import ServeError, check_address
from dashboard.launch import hear_every_click, options, send_at_once


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


def clicked_twice() -> None:
    """A page whose switch and button are told of, while another click arrives."""
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

    def take(name: str) -> None:
        context = get_script_run_ctx()
        assert context is not None
        assert context.script_requests is not None
        context.script_requests.request_rerun(RerunData())
        st.session_state["taken"] = [*st.session_state.get("taken", []), name]

    st.checkbox("switch", on_change=take, args=("switch",))
    st.button("button", on_click=take, args=("button",))


def test_what_was_clicked_is_taken_in_before_the_page_gives_way_to_the_next_click(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the switch went back by itself, and nobody heard of the button."""
    for place, name in (
        (SafeSessionState, "on_script_will_rerun"),
        (ScriptRunner, "_maybe_handle_execution_control_request"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))  # what it was, afterwards
    hear_every_click()
    test = AppTest.from_function(clicked_twice).run()
    test.checkbox[0].check()
    test.button[0].click()
    assert sorted(test.run().session_state["taken"]) == ["button", "switch"]
