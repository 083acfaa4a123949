"""The container's health check asks at the address that the command line gives the dashboard."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wane
from dashboard.health_check import health_address, main
from tests.support.paths import ROOT
from tests.support.stores import stored
from tests.support.streams import STREAMS


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("", "127.0.0.1:8501"),
        ("--port 9000", "127.0.0.1:9000"),
        ("--port=9000 --host 0.0.0.0", "127.0.0.1:9000"),
        ("--host :: --verbose", "127.0.0.1:8501"),
        ("--host 10.0.0.1 --por 80", "10.0.0.1:80"),
        ("--host ::1", "[::1]:8501"),
    ],
)
def test_it_follows_the_port(told: str, expected: str) -> None:
    """However the options are written, as the command itself reads them."""
    command = ["dashboard", "--store", "wane.duckdb", *told.split()]
    assert health_address(["python", "wane", *command, ""]) == f"http://{expected}/_stcore/health"
    encrypted = [*command, "--tls-cert", "cert.pem", "--tls-key", "key.pem", ""]
    assert health_address(["python", "wane", *encrypted]) == f"https://{expected}/_stcore/health"
    assert wane._parser().parse_args(command).port == int(expected.rpartition(":")[2])


def test_what_does_not_answer_is_not_well(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says so, and a sentence why."""
    for command, path in (("dashboard", "_stcore/health"), ("serve", "healthz")):
        assert main(["wane", command, "--port", "1"]) == 1
        assert capsys.readouterr().err.startswith(f"http://127.0.0.1:1/{path} does not answer: ")


def test_a_server_for_programs_is_asked(tmp_path: Path) -> None:
    """The one that `wane serve` starts, at the port that it was given, also beneath an init process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stored(tmp_path / "wane.duckdb", {"north": STREAMS["late"](50, 1)})
    command = ["serve", "--store", str(tmp_path / "wane.duckdb"), "--port", str(port)]
    code = "import sys, wane; sys.exit(wane.main(sys.argv[1:]))"
    with subprocess.Popen([sys.executable, "-c", code, *command], cwd=ROOT, stdout=-3, stderr=-3) as process:
        try:
            deadline = time.monotonic() + 60
            while (
                well := main(["/sbin/docker-init", "--", "/usr/local/bin/wane", *command])
            ) and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        finally:
            process.kill()
    assert well == 0
    assert main(["wane", *command]) == 1


def test_any_other_command_needs_java_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["python", "/usr/local/bin/wane", "ingest", "--stream", "dashboard"]
    java = tmp_path / "java"
    for code, well in ((0, 0), (1, 1)):
        java.write_text(f"#!/bin/sh\nexit {code}\n")
        java.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
        assert main(command, str(tmp_path)) == well
    java.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(command, str(tmp_path)) == 1
    assert main(command, str(tmp_path / "none")) == 1
    assert capsys.readouterr().err == (
        f"Java does not start\nthere is no Java\n{tmp_path / 'none'} cannot be written to\n"
    )
