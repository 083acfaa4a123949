"""`wane serve` as a process: it answers whom it should, from this machine alone unless told otherwise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import free_port
from tests.support.dashboard_stores import CALLS
from wane import main

TOKEN = "abcdefghijklmnop-qrst"


@pytest.fixture(scope="module")
def address(small: Path, record: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a token."""
    token = tmp_path_factory.mktemp("serve") / "token"
    token.write_text(TOKEN)
    port = free_port()
    program = str(Path(sys.executable).with_name("wane"))
    options = ["--store", str(small), "--port", str(port), "--record", str(record), "--token-file", str(token)]
    log = token.with_name("log")
    with log.open("wb") as out:
        server = subprocess.Popen([program, "serve", *options], stdout=out, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=5)
            break
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
    yield url
    server.send_signal(signal.SIGINT)
    assert server.wait(20) in (0, 130)
    said = log.read_text()
    assert said.startswith("The HTTP door is at http://127.0.0.1:")
    assert "Traceback" not in said


def ask(address: str, path: str, **headers: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    request = urllib.request.Request(f"{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_whoever_has_the_token_is_answered(address: str) -> None:
    """As a bearer token, which Prometheus and Grafana can send."""
    status, text = ask(address, f"/api/v1/query?stream={CALLS}&aggregate=count", Authorization=f"Bearer {TOKEN}")
    assert (status, json.loads(text)["stream"]) == (200, CALLS)
    assert "wane_long_calls_upper" in ask(address, "/metrics", Authorization=f"Bearer {TOKEN}")[1]


@pytest.mark.parametrize("path", ["/api/v1/streams", "/metrics", "/openapi.json"])
def test_others_are_refused_as_problems(address: str, path: str) -> None:
    """No token, a wrong one, a name that is not ours, a page of another site."""
    for status, headers in (
        (401, {}),
        (401, {"Authorization": "Bearer wrong"}),
        (421, {"Host": "evil.example"}),
        (403, {"Origin": "http://evil.example"}),
    ):
        found, text = ask(address, path, **headers)
        assert (found, json.loads(text)["status"]) == (status, status)


def test_a_server_that_others_can_reach_needs_a_log_in(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Like the dashboard, before it starts."""
    assert main(["serve", "--store", str(small), "--host", "0.0.0.0"]) == 2
    assert "--token-file FILE" in capsys.readouterr().err
    assert main(["dashboard", "--store", str(small), "--record", "wane.toml"]) == 2
    assert "--record goes with --api" in capsys.readouterr().err
