"""Only this machine can open the server unless told otherwise; it sends nothing, and shows no trace."""

from __future__ import annotations

import socket

import pytest

from dashboard import launch
from dashboard.launch import ServeError, options


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_this_machine_only_its_own_names_are_answered(host: str) -> None:
    """So that a page of another site cannot come in under a name that points here."""
    found = options(host, 8501)
    assert set(found["server_allowedHosts"]) == {"localhost", "127.0.0.1", "[::1]", "::1"}  # type: ignore[call-overload]
    assert (found["server_address"], found["server_port"]) == (host, 8501)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "wane.example.org", "localhost.example.org"])
def test_elsewhere_every_name_is_answered(host: str) -> None:
    assert options(host, 80)["server_allowedHosts"] == []


def test_nothing_is_sent_and_no_trace_is_shown() -> None:
    found = options("127.0.0.1", 8501)
    assert found["browser_gatherUsageStats"] is False
    assert found["client_showErrorDetails"] == "none"
    assert found["client_showErrorLinks"] is False
    assert found["server_headless"] is True
    assert found["server_fileWatcherType"] == "none"


def test_every_setting_is_one_that_streamlit_has() -> None:
    """A misspelt one would be ignored without a word."""
    from streamlit import config

    known = {name.replace(".", "_") for name in config.get_config_options()}
    assert set(options("127.0.0.1", 8501)) <= known


def test_what_cannot_be_listened_at_is_said_in_a_sentence() -> None:
    """A port that is none, one that is taken, a machine that is another."""
    with pytest.raises(ServeError, match="from 1 to 65535"):
        launch._check("127.0.0.1", 0)
    with pytest.raises(ServeError, match="from 1 to 65535"):
        launch._check("127.0.0.1", 70_000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match="choose another with --port or --host"):
            launch._check("127.0.0.1", port)
    launch._check("127.0.0.1", port)
    with pytest.raises(ServeError, match="cannot listen at"):
        launch._check("192.0.2.1", 8501)
