"""`wane dashboard` as a process: who can open it, what it says when it cannot start, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dashboard.health_check import health_address
from tests.support.browser import Server, ready, start
from wane import main

WEBSOCKET = (
    "GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def listening(port: int) -> set[str]:
    """The local addresses, as the kernel writes them, that something listens at on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            local, status = (row.split()[at] for at in (1, 3))
            if status == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                found.add(local.rsplit(":", 1)[0])
    return found


def answer(server: Server, host: str, origin: str) -> str:
    """The first line that comes back when a page of `origin` asks for a websocket at `host`."""
    with socket.create_connection(("127.0.0.1", server.port), 5) as asked:
        asked.sendall(WEBSOCKET.format(host=host, origin=origin).encode())
        return asked.recv(200).split(b"\r\n")[0].decode()


def test_only_this_machine_is_answered(server: Server) -> None:
    """The port is bound at 127.0.0.1 alone, and the health check answers there."""
    if Path("/proc/net/tcp").exists():
        assert listening(server.port) == {"0100007F"}
    asked = health_address(["wane", "dashboard", "--port", str(server.port)])
    with urllib.request.urlopen(asked, timeout=5) as found:
        assert found.read() == b"ok"


def test_programs_are_answered_at_the_same_port(server: Server) -> None:
    """With `--api` the HTTP door shares the pages' answers; its addresses are refused as problems."""
    with urllib.request.urlopen(f"{server.address}/api/v1/streams", timeout=5) as found:
        assert "calls" in {one["stream"] for one in json.load(found)["streams"]}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.address}/api/v1/query?stream=nothing&aggregate=sum", timeout=5)
    with refused.value as answered:
        assert answered.headers["content-type"] == "application/problem+json"


def test_a_foreign_name_gets_no_session(server: Server) -> None:
    """A page of another site cannot talk to the dashboard, not even through a name that points to this machine."""
    own = f"127.0.0.1:{server.port}"
    assert " 101 " in answer(server, own, f"http://{own}") + " "
    for host, origin in (
        ("evil.example", "http://evil.example"),
        (f"evil.example:{server.port}", f"http://evil.example:{server.port}"),
        (own, "http://evil.example"),
    ):
        assert " 101 " not in answer(server, host, origin) + " ", (host, origin)


def test_a_taken_port_is_said_in_a_sentence(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line, for a port that is taken, one that is none, and a host that is not here."""
    for more in (
        ["--port", str(server.port)],
        ["--port", "70000"],
        ["--host", "192.0.2.1"],
        ["--host", "no such host"],
    ):
        assert main(["dashboard", "--store", str(server.store), *more]) == 2
        said = capsys.readouterr().err
        assert said.startswith("wane: ")
        assert said.count("\n") == 1


def test_it_ends_promptly_when_interrupted(tmp_path: Path) -> None:
    """Ctrl+C ends it within seconds, without a trace in the log or a file left behind."""
    server = ready(start(tmp_path / "no-store.duckdb", tmp_path / "log"))
    begun = time.monotonic()
    assert server.stop(signal.SIGINT) in (0, 130)
    assert time.monotonic() - begun < 20
    assert "Traceback" not in server.log.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
