"""The container's health check asks at the address that the command line gives the dashboard."""

from __future__ import annotations

import pytest

import wane
from dashboard import health_check
from dashboard.health_check import health_address, main


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


def test_a_dashboard_that_does_not_answer_is_not_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says so, and a sentence why."""
    monkeypatch.setattr(health_check, "health_address", lambda command: "http://127.0.0.1:1/")
    assert main() == 1
    assert capsys.readouterr().err.startswith("the dashboard does not answer: ")
